"""The bugs: each removes one guard. The package's docstring says how to add one."""

from __future__ import annotations

from tests.mutants.demand_rules import OF_DEMAND
from tests.mutants.headroom_rules import OF_HEADROOM
from tests.mutants.lanes import OF_LANES
from tests.mutants.node_rules import OF_NODES
from tests.mutants.plant import Mutant
from tests.mutants.replacing import OF_REPLACING
from tests.mutants.sleeping import OF_SLEEP
from tests.mutants.spec_rules import OF_THE_DOCUMENTS
from tests.mutants.takeover import OF_TAKEOVER
from tests.mutants.zero_rules import OF_ZERO_RULES

OF_REMOVALS = (
    Mutant(
        "a drained node is terminated at once",
        "_drained",
        "situation.now - removal.since < situation.settings.settle_seconds",
        "False",
        (
            "unit:tests/unit/operations",
            "swarm",
        ),
    ),
    Mutant(
        "the gates are not asked again before the intent",
        "_drained",
        "may_terminate(removal, situation.snapshot, situation.record, situation.settings)",
        "None",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a cordon that was lifted meanwhile does not matter",
        "_drained",
        "not plan.drained or not _accepts_no_pods(node, operation_id, hurried)",
        "not plan.drained",
        (
            "unit:tests/unit/operations",
            "swarm",
        ),
    ),
    Mutant(
        "a pod that came after the drain does not matter",
        "_drained",
        "not plan.drained or not _accepts_no_pods(node, operation_id, hurried)",
        "not _accepts_no_pods(node, operation_id, hurried)",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "pods are evicted before the cordon is seen",
        "_draining",
        "not _accepts_no_pods(node, operation_id, hurried)",
        "False",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a release does not wait for a stalled runner",
        "_releasing",
        "not same_runner and not passed_on and situation.now < stalled_until",
        "False",
        ("table:stalled",),
    ),
    Mutant(
        "another node under the same name is taken for ours",
        "observed_node",
        "node is None or (removal.node_uid and node.uid != removal.node_uid)",
        "node is None",
        ("table:reused",),
    ),
    Mutant(
        "an instance that is not listed is gone at once",
        "is_gone",
        "bool(removal.missing_since) and situation.now - removal.missing_since >= grace",
        "bool(removal.missing_since)",
        (
            "explorer:interruption",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "a ready node does not contradict the cloud's list",
        "is_gone",
        "removal.state is RemovalState.RELEASING or (node is not None and node.ready)",
        "removal.state is RemovalState.RELEASING",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "an irrevocable removal can be released",
        "release",
        "removal.state in (RemovalState.TERMINATING, RemovalState.RELEASING)",
        "removal.state is RemovalState.RELEASING",
        ("table:rolls_forward",),
    ),
    Mutant(
        "a terminate is sent again before it can have been carried out",
        "absorb_removal",
        "replace(_with(removal, NO_OBSTACLE), retry_at=retry_at, refused_since=0)",
        "removal",
        ("explorer:scale-down",),
    ),
    Mutant(
        "an interrupted node is terminated by us",
        "_cloud_is_reclaiming",
        "notice is not None and notice.id == operation_id",
        "False",
        (
            "explorer:interruption",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "a stuck removal is never given up",
        "_why_abort",
        "now - operation.removes_from >= settings.stuck_seconds",
        "False",
        (
            "table:15_minutes",
            "points:sticks",
        ),
    ),
    Mutant(
        "pending pods do not stop a removal",
        "stopping.why_yield",
        "pod is not None",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a node that the cloud takes anyway is given back",
        "_abort_if_needed",
        "situation.notice_for(removal.instance_id)",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "pods that are ending are not waited for",
        "_terminating",
        "Treatment.WAIT",
        "Treatment.SKIP",
        ("explorer:scale-down",),
    ),
)

OF_SLOTS = (
    Mutant(
        "one list without its node is enough to reclaim a machine",
        "_why_not_yet",
        "situation.now - slot.since < situation.settings.gone_grace_seconds",
        "False",
        (
            "unit:tests/unit/operations",
            "swarm",
        ),
    ),
    Mutant(
        "a launch without an answer is tried elsewhere",
        "absorb_slot",
        "replace(slot, reason=outcome.detail, why=SlotCause.NO_ANSWER)",
        "_try_next(slot, outcome, settings, now, serves)",
        ("explorer:scale-up",),
    ),
    Mutant(
        "the maximum is not asked again before a launch",
        "slots._why_not_now",
        "count > settings.max_workers",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a call without an answer is repeated above a maximum that was lowered",
        "slots._launching",
        "_why_not_now(slot, situation)[1]",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "an instance that became ready late is reclaimed all the same",
        "reclaim",
        """
        if node is not None and node.ready:
            ready = replace(slot, state=SlotState.READY, node_name=node.name, since=situation.now)
            return replace(ready, reason="", why=SlotCause.NONE), ()
        """,
        "",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "what never joins is never reclaimed",
        "_joining",
        "situation.now - slot.since >= situation.settings.join_timeout_seconds",
        "False",
        (
            "table:never_joined",
            "explorer:never joins",
        ),
    ),
    Mutant(
        "a launch without an answer is repeated forever",
        "_launching",
        "situation.now - slot.since >= situation.settings.launch_timeout_seconds",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a ready node that matches no instance is not thought of",
        "_joining",
        "node is None and may_be_there(slot.since, situation)",
        "False",
        (
            "table:unregistered",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "a machine that joins after its termination was written becomes a worker",
        "_joined_too_late",
        "plan = _drain(node, situation)",
        """
        if node.ready:
            return replace(slot, state=SlotState.RECLAIMING, terminated=False), ()
        plan = _drain(node, situation)
        """,
        ("explorer:late joiner", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a machine that did not join is terminated without an irrevocable state",
        "reclaim",
        "return replace(slot, state=SlotState.TERMINATING, since=situation.now, terminated=True), ()",
        'return slot, (Terminate(slot.instance_id, "", "", "op"),)',
        ("explorer:late joiner", "unit:tests/unit/operations"),
    ),
    Mutant(
        "a machine that joins after its termination was written is not cordoned",
        "_joined_too_late",
        "not node.unschedulable",
        "False",
        ("table:joins_meanwhile", "unit:tests/unit/operations"),
    ),
    Mutant(
        "what the cloud would not terminate is forgotten with its operation",
        "handed_over",
        "slot.state is SlotState.FAILED and slot.terminated",
        "False",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a machine that is being terminated counts as capacity",
        "doomed",
        "{r.instance_id for r in open_removals(record) if r.dooms} | condemned(record)",
        "{r.instance_id for r in open_removals(record) if r.dooms}",
        ("unit:tests/unit/test_capacity.py",),
    ),
    Mutant(
        "Node objects of machines that are gone count against the maximum",
        "_existing",
        "(pool is None or pool == n.pool) and n.uid not in gone",
        "pool is None or pool == n.pool",
        ("unit:tests/unit/test_capacity.py",),
    ),
    Mutant(
        "machines that are gone keep the health gate shut",
        "healthy",
        "record.gone_nodes",
        "frozenset()",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "a partial list of the cloud is believed",
        "_instance_is_gone",
        "bool(node.instance_id) and not is_partial(snapshot)",
        "bool(node.instance_id)",
        ("unit:tests/unit/test_orphans.py",),
    ),
    Mutant(
        "a refused offer is asked for with the same key",
        "_try_next",
        'replace(told, refused=refused, key=f"{base}r{len(refused)}", reason=detail)',
        "replace(told, refused=refused, reason=detail)",
        (
            "explorer:never joins",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "a node is launched where the pods that asked for it cannot run",
        "next_offer",
        "offer not in slot.refused and (serves is None or serves(slot, pool, zone, node_type))",
        "offer not in slot.refused",
        ("unit:tests/unit/operations/test_substitutes.py",),
    ),
    Mutant(
        "the nodes of a launch that was set aside count as room",
        "coming_slots",
        "_expected(record, record.operations)",
        "expected_slots(record)",
        ("unit:tests/unit/test_capacity.py",),
    ),
)

OF_SPOT = (
    Mutant(
        "an interrupted node of a pool that sleeps is replaced",
        "spot._with_replacement",
        "pool is None or pool.may_be_empty",
        "pool is None",
        ("unit:tests/unit/operations/test_spot_interruption.py",),
    ),
    Mutant(
        "an interruption is answered before its machine has joined",
        "_interrupted",
        "spot.removal is None and alive and joined and not _removed_elsewhere(spot, situation.record)",
        "spot.removal is None and alive and not _removed_elsewhere(spot, situation.record)",
        (
            "unit:tests/unit/operations",
            "swarm",
        ),
    ),
    Mutant(
        "an interrupted node that one list leaves out is forgotten",
        "_out_of_sight",
        "removal if _cloud_is_reclaiming(removal, operation_id, situation) "
        "else _to(removal, end, situation, why)",
        "_to(removal, end, situation, why)",
        (
            "unit:tests/unit/operations",
            "swarm",
        ),
    ),
    Mutant(
        "a node that a scale-down removes gets a second owner",
        "_removed_elsewhere",
        "spot.instance_id in owned",
        "False",
        (
            "table:two_workflows",
            "explorer:scale-down",
        ),
    ),
    Mutant(
        "a recommendation does not become an interruption",
        "take_in",
        "known.kind is SpotKind.REBALANCE and notice.kind is SpotKind.INTERRUPTION",
        "False",
        (
            "table:duplicate",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "an interruption that does not come is waited for forever",
        "_lapses_at",
        "settings.gone_grace_seconds",
        "10**9",
        ("unit:tests/unit/operations",),
    ),
    Mutant(
        "a recommended replacement does not come first",
        "_recommended",
        "spot.slot.state is SlotState.READY",
        "True",
        (
            "explorer:rebalance",
            "unit:tests/unit/operations",
        ),
    ),
    Mutant(
        "a replacement may exceed the maximum",
        "_with_replacement",
        "spot.slot is not None or total(snapshot, record) >= situation.settings.max_workers",
        "spot.slot is not None",
        (
            "unit:tests/unit/operations",
            "points:maximum",
        ),
    ),
)

OF_GATES = (
    Mutant(
        "the minimum is not kept",
        "keeps_minimum",
        "len(left) < settings.min_workers",
        "False",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a zone may be left without a worker",
        "keeps_zones",
        "len(zones) > 1 and not left[removal.zone]",
        "False",
        (
            "explorer:scale-down",
            "unit:tests/unit/test_gates.py",
        ),
    ),
    Mutant(
        "a sudden loss of workers or pods is believed",
        "plausible",
        "lost > settings.unready_count and lost > settings.unready_fraction * before",
        "False",
        ("table:implausibly",),
    ),
    Mutant(
        "a list of pods that is empty is believed",
        "plausible",
        "snapshot.cluster.nodes and not pods",
        "False",
        ("table:pod_cache",),
    ),
    Mutant(
        "removals continue while half of the cluster is not ready",
        "healthy",
        "unready > settings.unready_count and unready > settings.unready_fraction * workers",
        "False",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "orphans are adopted while nodes match no instance",
        "all_matched",
        "bool(ready) and not loose",
        "True",
        ("table:unregistered",),
    ),
    Mutant(
        "many lone instances are adopted as soon as one",
        "graces",
        "MANY_TIMES if lone > 1 and lone > settings.unready_fraction * len(snapshot.alive) else 1",
        "1",
        ("table:mass_deletion",),
    ),
    Mutant(
        "a paused cluster is scaled down",
        "not_paused",
        "record.paused",
        "False",
        ("unit:tests/unit/test_gates.py",),
    ),
    Mutant(
        "what is being removed is counted on",
        "doomed",
        "removed | interrupted",
        "interrupted",
        (
            "explorer:scale-down",
            "swarm",
        ),
    ),
    Mutant(
        "reserved slots are not counted",
        "total",
        "len(alive) + len(unmatched) + len(unseen)",
        "len(alive) + len(unmatched)",
        (
            "explorer:scale-up",
            "unit:tests/unit/test_capacity.py",
        ),
    ),
    Mutant(
        "time without a tick counts as idle",
        "track",
        "record.ticked_at > 0 and now - record.ticked_at > settings.max_tick_gap_seconds",
        "False",
        ("unit:tests/unit/test_track.py",),
    ),
)

OF_THE_ENGINE = (
    Mutant(
        "the pods are not asked for once more before a terminate",
        "_do",
        "_late_pod(effect, ports, settings)",
        '""',
        (
            "table:binds_after",
            "unit:tests/unit/engine",
        ),
    ),
    Mutant(
        "effects are started after the end of the lease",
        "perform",
        "ports.clock.now() >= last_moment",
        "False",
        (
            "table:lease_expires",
            "unit:tests/unit/engine",
        ),
    ),
    Mutant(
        "effects come before the write",
        "_round",
        "written = machine.write(before, step)",
        """
        if step.effects:
            machine.perform(step)
        written = machine.write(before, step)
        """,
        ("explorer:scale-down",),
    ),
    Mutant(
        "the token is not checked before effects that change nothing in the record",
        "_round",
        """
        if not machine.is_ours(before):
            return True
        """,
        "",
        (
            "explorer:scale-down",
            "explorer:demand returns",
        ),
    ),
    Mutant(
        "an effect is repeated in the same tick",
        "RecordMachine.absorb",
        "run.asked.update(outcome.effect for outcome in outcomes)",
        "",
        (
            "unit:tests/unit/engine",
            "explorer:scale-down",
        ),
    ),
    Mutant(
        "runs are not counted",
        "record_machine._count_run",
        "with_runs(lane, others, runs_in(lane, record) + 1)",
        "others",
        ("table:always_crashes",),
    ),
    Mutant(
        "a run that a fault outside stopped counts as a crash",
        "tick._forgive",
        "record.scaling_in_progress and clean(record) != record",
        "False",
        (
            "unit:tests/unit/engine",
            "swarm",
        ),
    ),
    Mutant(
        "a notice is acknowledged before it is written",
        "_take_in",
        "entry = entry_of(ports.new_id(), now, fact, notice.instance_id)",
        """
        entry = entry_of(ports.new_id(), now, fact, notice.instance_id)
        ports.inbox.acknowledge(notice)
        """,
        ("explorer:interruption",),
    ),
    Mutant(
        "a cluster without any node is believed",
        "observe",
        "not view.nodes",
        "False",
        (
            "table:blip",
            "table:partial",
        ),
    ),
)

OF_THE_STORE = (
    Mutant(
        "a write does not look whether another wrote first",
        "refusal",
        "stored.rev != record.rev",
        "False",
        ("explorer:scale-down",),
    ),
    Mutant(
        "a write does not look whose the lease is",
        "MemoryStore._check",
        """
        if not held.holds(guard, int(self._clock.now())):
            raise held.lost(guard)
        """,
        "pass",
        (
            "explorer:scale-down",
            "table:lease_expires",
        ),
    ),
    Mutant(
        "the token does not grow with the holder",
        "StoredLease.take",
        "self.token if self.owner == owner else self.token + 1",
        "self.token",
        (
            "explorer:scale-down",
            "table:lower_token",
        ),
    ),
    Mutant(
        "a lease that is held can be taken",
        "StoredLease.is_anothers",
        "bool(self.owner) and self.owner != owner and self.until >= now",
        "False",
        (
            "explorer:scale-down",
            "explorer:kept lease",
            "table",
        ),
    ),
    Mutant(
        "a lease that ran out can be renewed",
        "StoredLease.holds",
        "self.is_ours(lease) and self.until >= now",
        "self.is_ours(lease)",
        ("unit:tests/contract/stores -k memory",),
    ),
    Mutant(
        "a lease of a wrong clock is taken at once",
        "Outwaiting.is_over",
        "now - since > LONGEST_LEASE_SECONDS",
        "True",
        ("unit:tests/contract/stores/test_leases.py -k memory",),
    ),
    Mutant(
        "a lease of a wrong clock is never taken",
        "Outwaiting.is_over",
        "now - since > LONGEST_LEASE_SECONDS",
        "False",
        ("unit:tests/unit/engine/test_wrong_clock.py",),
    ),
    Mutant(
        "a clock that went back counts as time left",
        "Leased.has_time",
        "self.since <= self.clock.now() < self.last_moment",
        "self.clock.now() < self.last_moment",
        ("unit:tests/unit/engine/test_wrong_clock.py",),
    ),
)

RULES = (*OF_NODES, *OF_ZERO_RULES, *OF_THE_DOCUMENTS)
"""Wrong rules, not wrong protocol: what stories and the oracle are for."""
ALL = (
    *OF_REMOVALS,
    *OF_LANES,
    *OF_DEMAND,
    *OF_HEADROOM,
    *OF_REPLACING,
    *OF_SLOTS,
    *OF_SPOT,
    *OF_GATES,
    *OF_THE_ENGINE,
    *OF_THE_STORE,
    *OF_SLEEP,
    *OF_TAKEOVER,
    *RULES,
)
QUICK = (
    "pods are evicted before the cordon is seen",
    "an irrevocable removal can be released",
    "a node that a scale-down removes gets a second owner",
    "a list of pods that is empty is believed",
)
