# ruff: noqa: E501 - source text is quoted as it stands
"""The bugs: each removes one guard."""

from __future__ import annotations

from tests.mutants.plant import Mutant
from tests.mutants.sleeping import OF_SLEEP

REMOVALS = "core/operations/removals.py"
SLOTS = "core/operations/slots.py"
DOWN = "core/operations/scale_down.py"
SPOT = "core/operations/spot.py"
GATES = "core/gates.py"

OF_REMOVALS = (
    Mutant(
        "a drained node is terminated at once",
        REMOVALS,
        "    if situation.now - removal.since < situation.settings.settle_seconds:\n",
        "    if False:\n",
        ("unit:tests/unit/operations", "swarm"),
    ),
    Mutant(
        "the gates are not asked again before the intent",
        REMOVALS,
        "    failed = may_terminate(removal, situation.snapshot, situation.record, situation.settings)\n",
        "    failed = None\n",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a cordon that was lifted meanwhile does not matter",
        REMOVALS,
        "    if not plan.drained or not _shut(node, operation_id, hurried):\n",
        "    if not plan.drained:\n",
        ("unit:tests/unit/operations", "swarm"),
    ),
    Mutant(
        "a pod that came after the drain does not matter",
        REMOVALS,
        "    if not plan.drained or not _shut(node, operation_id, hurried):\n",
        "    if not _shut(node, operation_id, hurried):\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "pods are evicted before the cordon is seen",
        REMOVALS,
        "    if not _shut(node, operation_id, hurried):\n        if situation.now",
        "    if False:\n        if situation.now",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a release does not wait for a stalled runner",
        REMOVALS,
        "    if not same_runner and not passed_on and situation.now < stalled_until:\n",
        "    if False:\n",
        ("table:stalled",),
    ),
    Mutant(
        "another node under the same name is taken for ours",
        REMOVALS,
        "    if node is None or (removal.node_uid and node.uid != removal.node_uid):\n        return None\n",
        "    if node is None:\n        return None\n",
        ("table:reused",),
    ),
    Mutant(
        "an instance that is not listed is gone at once",
        REMOVALS,
        "    return bool(removal.missing_since) and situation.now - removal.missing_since >= grace\n",
        "    return bool(removal.missing_since)\n",
        ("explorer:interruption", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a ready node does not contradict the cloud's list",
        REMOVALS,
        "    if removal.state is RemovalState.RELEASING or (node is not None and node.ready):\n",
        "    if removal.state is RemovalState.RELEASING:\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "an irrevocable removal can be released",
        REMOVALS,
        "    if removal.settled or removal.state in (RemovalState.TERMINATING, RemovalState.RELEASING):\n",
        "    if removal.settled or removal.state is RemovalState.RELEASING:\n",
        ("table:rolls_forward",),
    ),
    Mutant(
        "a terminate is sent again before it can have been carried out",
        REMOVALS,
        "                return replace(removal, retry_at=situation.now + situation.settings.request_timeout_seconds)\n",
        "                return removal\n",
        ("explorer:scale-down",),
    ),
    Mutant(
        "an interrupted node is terminated by us",
        REMOVALS,
        '    return operation_id.startswith("spot:")\n',
        "    return False\n",
        ("explorer:interruption", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a stuck removal is never given up",
        DOWN,
        "    if now - operation.started_at >= settings.stuck_seconds:\n",
        "    if False:\n",
        ("table:15_minutes", "points:sticks"),
    ),
    Mutant(
        "pods that wait do not stop a removal",
        DOWN,
        "    if urgent and _holds_capacity(operation, situation):\n",
        "    if False:\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a node that the cloud takes anyway is given back",
        DOWN,
        "        if situation.notice_for(removal.instance_id)\n",
        "        if False\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "pods that are ending are not waited for",
        "core/drain.py",
        "    if not pod.terminating:\n        return None\n    return Judgement(pod, Treatment.WAIT,",
        "    if not pod.terminating:\n        return None\n    return Judgement(pod, Treatment.PASS_OVER,",
        ("explorer:scale-down",),
    ),
)

OF_SLOTS = (
    Mutant(
        "one list without its node is enough to reclaim a machine",
        SLOTS,
        "    if waited < situation.settings.gone_grace_seconds or",
        "    if",
        ("unit:tests/unit/operations", "swarm"),
    ),
    Mutant(
        "a launch without an answer is tried elsewhere",
        SLOTS,
        "        case OutcomeKind.UNKNOWN | OutcomeKind.LATER | OutcomeKind.SKIPPED:\n"
        "            return replace(slot, reason=outcome.detail)\n",
        "        case OutcomeKind.UNKNOWN | OutcomeKind.LATER | OutcomeKind.SKIPPED:\n"
        "            return _try_next(slot, outcome.detail, settings)\n",
        ("explorer:scale-up",),
    ),
    Mutant(
        "the maximum is not asked again before a launch",
        SLOTS,
        "    if count > settings.max_workers:\n",
        "    if False:\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "an instance that became ready late is reclaimed all the same",
        SLOTS,
        '    if node is not None and node.ready:\n        return replace(slot, state=SlotState.READY, node_name=node.name, reason=""), ()\n',
        "",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "what never joins is never reclaimed",
        SLOTS,
        "    if situation.now - slot.since >= situation.settings.join_timeout_seconds:\n",
        "    if False:\n",
        ("table:never_joined", "explorer:never joins"),
    ),
    Mutant(
        "a launch without an answer is repeated for ever",
        SLOTS,
        "    if situation.now - slot.since >= situation.settings.launch_timeout_seconds:\n",
        "    if False:\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a ready node that matches no instance is not thought of",
        SLOTS,
        "    if node is None and _may_be_there(slot.since, situation):\n",
        "    if False:\n",
        ("table:unregistered", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a refused offer is asked for with the same key",
        SLOTS,
        'key=f"{base}r{len(refused)}", ',
        "",
        ("explorer:never joins", "unit:tests/unit/operations"),
    ),
)

OF_SPOT = (
    Mutant(
        "an interruption is answered before its machine has joined",
        SPOT,
        "    if spot.removal is None and alive and joined and not",
        "    if spot.removal is None and alive and not",
        ("unit:tests/unit/operations", "swarm"),
    ),
    Mutant(
        "an interrupted node that one list leaves out is forgotten",
        REMOVALS,
        "    return removal if _is_taken(removal, operation_id, situation) else _to(removal, end, situation, reason)\n",
        "    return _to(removal, end, situation, reason)\n",
        ("unit:tests/unit/operations", "swarm"),
    ),
    Mutant(
        "a node that a scale-down removes gets a second owner",
        SPOT,
        "    return spot.removal is None and any(",
        "    return False and any(",
        ("table:two_workflows", "explorer:scale-down"),
    ),
    Mutant(
        "a recommendation does not become an interruption",
        SPOT,
        "    if known.kind is SpotKind.REBALANCE and notice.kind is SpotKind.INTERRUPTION:\n",
        "    if False:\n",
        ("table:duplicate", "unit:tests/unit/operations"),
    ),
    Mutant(
        "an interruption that does not come is waited for forever",
        SPOT,
        "        return deadline + settings.gone_grace_seconds\n",
        "        return deadline + 10**9\n",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a recommended replacement does not come first",
        SPOT,
        "    if spot.slot.state is SlotState.READY:\n        return replace(spot, removal=_removal(spot, situation))\n",
        "    if True:\n        return replace(spot, removal=_removal(spot, situation))\n",
        ("explorer:rebalance", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a replacement may exceed the maximum",
        SPOT,
        "    if spot.slot is not None or total(snapshot, record) >= situation.settings.max_workers:\n",
        "    if spot.slot is not None:\n",
        ("unit:tests/unit/operations", "points:maximum"),
    ),
)

OF_GATES = (
    Mutant(
        "the minimum is not kept",
        GATES,
        "    if len(left) < settings.min_workers:\n",
        "    if False:\n",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a zone may be left without a worker",
        GATES,
        "        if len(zones) > 1 and not left[removal.zone]:\n",
        "        if False:\n",
        ("explorer:scale-down", "unit:tests/unit/test_gates.py"),
    ),
    Mutant(
        "a sudden loss of workers or pods is believed",
        GATES,
        "        if lost > settings.unready_count and lost > settings.unready_fraction * before:\n",
        "        if False:\n",
        ("table:implausibly",),
    ),
    Mutant(
        "a list of pods that is empty is believed",
        GATES,
        "    if snapshot.cluster.nodes and not pods:\n",
        "    if False:\n",
        ("table:pod_cache",),
    ),
    Mutant(
        "removals go on while half of the cluster is not ready",
        GATES,
        "    sick = unready > settings.unready_count and unready > settings.unready_fraction * len(workers)\n",
        "    sick = False\n",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "orphans are adopted while nodes match no instance",
        GATES,
        'return Check("workers matched", bool(ready) and not loose, ',
        'return Check("workers matched", True, ',
        ("table:unregistered",),
    ),
    Mutant(
        "many lone instances are adopted as soon as one",
        "core/orphans.py",
        "    return MANY_TIMES if lone > 1 and lone > settings.unready_fraction * alive else 1\n",
        "    return 1\n",
        ("table:mass_deletion",),
    ),
    Mutant(
        "a paused cluster is scaled down",
        GATES,
        "    if record.paused:\n",
        "    if False:\n",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "what is being removed is counted on",
        "core/capacity.py",
        "    return frozenset(removed | interrupted)\n",
        "    return frozenset(interrupted)\n",
        ("explorer:scale-down", "swarm"),
    ),
    Mutant(
        "reserved slots are not counted",
        "core/capacity.py",
        "    return len(alive) + len(unmatched) + len(unseen)\n",
        "    return len(alive) + len(unmatched)\n",
        ("explorer:scale-up", "unit:tests/unit/test_capacity.py"),
    ),
    Mutant(
        "time without a tick counts as idle",
        "core/track.py",
        "    silent = record.ticked_at > 0 and now - record.ticked_at > settings.max_tick_gap_seconds\n",
        "    silent = False\n",
        ("unit:tests/unit/test_track.py",),
    ),
)

OF_THE_ENGINE = (
    Mutant(
        "the pods are not asked for once more before a terminate",
        "engine/perform.py",
        "            late = _late_pod(effect, outside, settings)\n",
        '            late = ""\n',
        ("table:binds_after", "unit:tests/unit/engine"),
    ),
    Mutant(
        "effects are started after the end of the lease",
        "engine/perform.py",
        "        if outside.clock.now() >= last_moment:\n",
        "        if False:\n",
        ("table:lease_expires", "unit:tests/unit/engine"),
    ),
    Mutant(
        "effects come before the write",
        "engine/rounds.py",
        "    if step.operation != work:\n        _write_work(hold, work, step.operation)\n",
        "    if step.operation != work:\n"
        "        if effects:\n"
        "            perform(effects, hold.outside, hold.settings, hold.lease, last_moment)\n"
        "        _write_work(hold, work, step.operation)\n",
        ("explorer:scale-down",),
    ),
    Mutant(
        "the token is not checked before effects that change nothing in the record",
        "engine/rounds.py",
        "        hold.renew()\n        if find(hold.record) != work:\n            hold.look()\n            return True\n",
        "        pass\n",
        ("explorer:scale-down", "explorer:demand returns"),
    ),
    Mutant(
        "an effect is repeated in the same tick",
        "engine/rounds.py",
        "    hold.asked.update(effects)\n",
        "",
        ("unit:tests/unit/engine", "explorer:scale-down"),
    ),
    Mutant(
        "runs are not counted",
        "engine/tick.py",
        "        hold.write(replace(record, unclean_runs=record.unclean_runs + 1))\n",
        "        hold.write(record)\n",
        ("table:always_crashes",),
    ),
    Mutant(
        "a run that a fault outside stopped counts as a crash",
        "engine/tick.py",
        "        if record.operation is not None and record.unclean_runs:\n",
        "        if False:\n",
        ("unit:tests/unit/engine", "swarm"),
    ),
    Mutant(
        "a notice is acknowledged before it is written",
        "engine/notices.py",
        "        entry = LogEntry(outside.new_id(), now, LogKind.SPOT_EVENT, says, notice.instance_id)\n",
        "        entry = LogEntry(outside.new_id(), now, LogKind.SPOT_EVENT, says, notice.instance_id)\n"
        "        outside.inbox.acknowledge(notice)\n",
        ("explorer:interruption",),
    ),
    Mutant(
        "a cluster without any node is believed",
        "engine/observe.py",
        "        if not view.nodes:\n",
        "        if False:\n",
        ("table:blip", "table:partial"),
    ),
)

OF_THE_STORE = (
    Mutant(
        "a write does not look whether another wrote first",
        "adapters/stores/guards.py",
        "    if stored.rev != record.rev:\n",
        "    if False:\n",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a write does not look whose the lease is",
        "adapters/stores/memory.py",
        "            if not held.holds(guard, int(self._clock.now())):\n                raise held.lost(guard)\n        item",
        "            pass\n        item",
        ("explorer:scale-down", "table:lease_expires"),
    ),
    Mutant(
        "the token does not grow with the holder",
        "adapters/stores/guards.py",
        "        token = self.token if self.owner == owner else self.token + 1\n",
        "        token = self.token\n",
        ("explorer:scale-down", "table:lower_token"),
    ),
    Mutant(
        "a lease that is held can be taken",
        "adapters/stores/guards.py",
        "        if self.owner and self.owner != owner and self.until >= now:\n",
        "        if False:\n",
        ("explorer:scale-down", "explorer:kept lease", "table"),
    ),
    Mutant(
        "a lease that ran out can be renewed",
        "adapters/stores/guards.py",
        "        return self.is_ours(lease) and self.until >= now\n",
        "        return self.is_ours(lease)\n",
        ("unit:tests/contract/stores -k memory",),
    ),
)

ALL = OF_REMOVALS + OF_SLOTS + OF_SPOT + OF_GATES + OF_THE_ENGINE + OF_THE_STORE + OF_SLEEP
QUICK = (
    "pods are evicted before the cordon is seen",
    "an irrevocable removal can be released",
    "a node that a scale-down removes gets a second owner",
    "a list of pods that is empty is believed",
)
