# ruff: noqa: E501 - source text is quoted as it stands
"""Bugs in the rules of scale-to-zero, rows 37 to 44: a changed comparison, a forgotten exception, a swapped sign."""

from __future__ import annotations

from tests.mutants.plant import Mutant

UNITS = "unit:tests/unit/scaling"

OF_ZERO_RULES = (
    Mutant(
        "a schedule fires for times before it was written",
        "rules.due",
        "max(state.scheduled_until, written_at(policy, schedule))",
        "state.scheduled_until or policy.created_at",
        ("unit:tests/unit/scaling/test_rules.py",),
    ),
    Mutant(
        "a policy that is written again forgets since when its schedules count",
        "policy_checks.stamped",
        "before.get(replace(each, written_at=0)) or [now]",
        "[now]",
        ("unit:tests/unit/scaling/test_policy_checks.py",),
    ),
    Mutant(
        "a policy without signals goes to sleep",
        "not_watched",
        "not policy.signals",
        "False",
        (UNITS,),
    ),
    Mutant(
        "a schedule to zero needs another switch",
        "_no_reason_to_sleep",
        "NO_WHY if policy.enabled and _by_schedule(policy, state) else not_watched(policy)",
        "not_watched(policy)",
        (UNITS,),
    ),
    Mutant(
        "a schedule may name a number for a group",
        "check_policy",
        "len(policy.target.workloads) != 1 and schedule.replicas and not schedule.wake",
        "False",
        ("unit:tests/unit/scaling/test_policy_checks.py",),
    ),
    Mutant(
        "a group that is half awake is not woken",
        "wake.wake",
        "any(not each.replicas for each in there)",
        "(bool(there) and all(not each.replicas for each in there))",
        ("unit:tests/unit/scaling/test_wake.py",),
    ),
    Mutant(
        "the target of what is going to sleep may be changed",
        "stranded",
        "state.phase not in (Phase.ACTIVE, Phase.IDLE)",
        "state.phase is Phase.ZERO",
        ("unit:tests/unit/scaling/test_policy_checks.py",),
    ),
    Mutant(
        "a pool is awake without a node",
        "idle._waking",
        "not policy.target.pool or bool(look.ready_nodes)",
        "True",
        (UNITS, "unit:tests/stories/test_stories.py -k row-41"),
    ),
    Mutant(
        "a node that takes no pods makes a pool awake",
        "node_first.ready_nodes",
        "node.pool == pool and node.ready and not node.unschedulable",
        "node.pool == pool and node.ready",
        ("unit:tests/unit/scaling/test_floor.py",),
    ),
    Mutant(
        "pods of a wake wait like others",
        "needed_by_wakes",
        "owner_of(pod) in woken",
        "False",
        ("unit:tests/unit/scaling/test_floor.py",),
    ),
    Mutant(
        "a rule that scales up takes replicas away",
        "_stepped",
        "max(have, min(have + by, max(policy.max_replicas, 1)))",
        "min(have + by, max(policy.max_replicas, 1))",
        ("unit:tests/unit/scaling/test_rules.py",),
    ),
    Mutant(
        "a price that the policy names is the lower the more replicas there are",
        "price_each",
        "_base(policy, state) or have",
        "have",
        ("unit:tests/unit/scaling/test_rules.py",),
    ),
    Mutant(
        "the cap is passed by the last replica",
        "too_expensive",
        "cost <= policy.max_hourly_cost",
        "cost <= policy.max_hourly_cost + each",
        ("unit:tests/unit/scaling/test_rules.py",),
    ),
    Mutant(
        "idle hours leave out the time at zero",
        "savings._shown",
        "row.idle_seconds + row.scaled_to_zero_seconds",
        "row.idle_seconds",
        (UNITS,),
    ),
    Mutant(
        "a webhook's id is not used up with its wake",
        "MemoryPolicies.write_state",
        "once is not None and not self._use_up(once)",
        "False",
        ("unit:tests/contract/stores/test_targets.py -k memory",),
    ),
    Mutant(
        "two enabled policies may have one target",
        "MemoryPolicies._refuse_taken",
        "holder != policy.id and (found := self.find_policy(holder)) is not None",
        "(found := self.find_policy(policy.id)) is not None and False",
        ("unit:tests/contract/stores/test_targets.py -k memory",),
    ),
    Mutant(
        "who waits later inherits the deadline of the first",
        "Waiting.ready",
        "shared.until = max(shared.until, until)",
        "",
        ("unit:tests/integration/api/test_waiters.py",),
    ),
)
