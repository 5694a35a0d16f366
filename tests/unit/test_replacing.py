"""Whether a worker is replaced now, by what, and why not."""

from __future__ import annotations

from typing import Any

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.replacing import Successors
from ebbtide.core.nodes.unwell import NOT_READY
from ebbtide.model.check import Check, Gate, NodeCause, Values
from ebbtide.model.decision import Action, Decision
from ebbtide.model.operation import SpotKind
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.pool import PoolLimits, RemovalBudget, RemovalReason
from ebbtide.model.record import CapacityBackoff, DrainBackoff, DrainFailures, EmptiedNode, Unwell
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    CheckValues,
    kept_by,
    make_budget,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_spot,
    make_type,
    values_of,
)

OLD = 86_400
EXPIRY: dict[str, Any] = {"pools": (make_pool(expire_seconds=OLD),)}
FRESH: dict[str, Any] = {"created_at": NOW - 60}
SILENT = (Unwell("uid-a1", NOT_READY, NOW - 600),)
NODES = (make_node("a1"), *make_nodes("a2", "b1", **FRESH))


def on(node_name: str, name: str = "", **overrides: Any) -> Pod:
    return make_pod(name or f"on-{node_name}", 500, 256, node_name=node_name, **overrides)


def asked(
    seen: Snapshot, action: Action = Action.REPLACE, *, record: dict[str, Any] | None = None, **settings: Any
) -> tuple[Decision, Check | None]:
    """The decision, and the check that kept it from this action."""
    known = make_record(worker_count=len(seen.cluster.workers), pod_count=len(seen.cluster.pods))
    for name, value in (record or {}).items():
        known = make_record(**{**{f: getattr(known, f) for f in ("worker_count", "pod_count")}, name: value})
    decision = decide(seen, known, make_settings(**{"cpu_down": 0.0, **settings}), NOW, "d")
    verdict = next(one for one in decision.verdicts if one.action is action)
    return decision, verdict.failed


def expired(pods: list[Pod] | None = None, nodes: tuple[Node, ...] = NODES, **snapshot: Any) -> Snapshot:
    return make_snapshot(nodes, [on(node.name) for node in nodes] if pods is None else pods, **snapshot)


def test_the_oldest_expired_node_is_replaced_by_its_own_type_in_its_own_zone() -> None:
    nodes = (make_node("b1"), make_node("a1", created_at=NOW - OLD - 1), make_node("a2", **FRESH))
    decision, failed = asked(expired(nodes=nodes), **EXPIRY)
    assert (decision.action, failed) == (Action.REPLACE, None)
    assert [(r.node_name, r.unhealthy) for r in decision.removals] == [("a1", False)]
    assert [(s.zone, s.instance_type, s.key) for s in decision.slots] == [("a", "small", f"{NOW}-d-0")]
    assert decision.cause is RemovalReason.EXPIRED


def test_nothing_is_replaced_where_nothing_is_named() -> None:
    decision, failed = asked(expired())
    assert decision.action is Action.NOTHING
    assert values_of(failed) == ("a worker is drifted or expired", False, 0, 1, "")
    assert "replace" not in decision.reason, "it is no news where nothing asks for it"


KEPT = ("a worker can be replaced", False, None, None, "a1")


def why_kept(
    found: tuple[Decision, Check | None], action: Action = Action.REPAIR, node_name: str = "a1"
) -> tuple[NodeCause, str]:
    """Why this node may not be replaced now, and what that is about."""
    assert values_of(found[1]) == (*KEPT[:-1], node_name)
    verdict = next(one for one in found[0].verdicts if one.action is action)
    return kept_by(verdict.refusals)[node_name]


def test_what_keeps_a_node_is_asked_before_anything_is_launched() -> None:
    def pool(**overrides: Any) -> dict[str, Any]:
        return {"pools": (make_pool(expire_seconds=OLD, **overrides),)}

    bare, rests = expired([on("a1", controller="")]), (DrainBackoff("i-a1", NOW + 60, "why"),)
    covered = expired([on("a1", labels=(("app", "x"),))], budgets=[make_budget(0, app="x")])
    closed = (RemovalBudget(0, reasons=(RemovalReason.EXPIRED,)),)
    kept: list[tuple[tuple[NodeCause, str], Snapshot, dict[str, Any], dict[str, Any]]] = [
        ((NodeCause.POD_BLOCKS, "default/on-a1"), bare, {}, {}),
        ((NodeCause.POD_WAITS, "default/on-a1"), covered, {}, {}),
        ((NodeCause.BACKED_OFF, ""), expired(), {"rests": rests}, {}),
        ((NodeCause.NO_REPLACEMENT, ""), expired(), {}, {"max_workers": 3}),
        ((NodeCause.NO_REPLACEMENT, ""), expired(), {}, pool(max_workers=3)),
        ((NodeCause.POOL_SLEEPS, "workers"), expired(), {}, pool(may_be_empty=True)),
        ((NodeCause.CHECK, Gate.WITHIN_BUDGET), expired(), {}, {"budgets": closed}),
    ]
    for why, seen, record, settings in kept:
        decision, failed = asked(seen, record=record, **{**EXPIRY, **settings})
        assert why_kept((decision, failed), Action.REPLACE) == why
        assert decision.slots == ()


def test_gates_of_every_removal_hold_for_a_replacement() -> None:
    waits = make_pod("new", phase=PodPhase.PENDING)
    leaving = EmptiedNode("a2", "uid-a2", "i-a2", "op", NOW + 60)
    notice = make_spot("b1", kind=SpotKind.REBALANCE)
    held: list[tuple[str, Values | None, Snapshot, dict[str, Any]]] = [
        (Gate.CPU_KNOWN, None, expired(cpu=None), {}),
        (Gate.NO_POD_PENDING, Values(1, 0, "default/new"), expired([on("a1"), waits]), {}),
        ("cooldown over", Values(5, 600), expired(), {"last_scale_at": NOW - 5}),
        ("nothing leaves", Values(1, 0, "a2"), expired(), {"leaving": (leaving,)}),
        (Gate.NOT_PAUSED, Values(), expired(), {"paused": True}),
        ("back-off over", Values(60, 0), expired(), {"removal_backoff_until": NOW + 60}),
        ("no spot notice open", Values(1, 0), expired(), {"spots": (notice,)}),
    ]
    for name, values, seen, record in held:
        _, failed = asked(seen, record=record, **EXPIRY)
        assert failed is not None
        assert (failed.name, failed.values) == (name, values)


def test_a_node_that_consolidation_removes_is_not_repaired_too() -> None:
    nodes = (make_node("a1", ready=False), *NODES[1:])
    known = make_record(
        worker_count=3, unwell=SILENT, leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "op", NOW + 60),)
    )
    decision = decide(expired(nodes=nodes), known, make_settings(repair=True, cpu_down=0.0), NOW, "d")
    verdict = next(one for one in decision.verdicts if one.action is Action.REPAIR)
    assert verdict.refusals[0].cause is NodeCause.GOING


def test_a_drifted_type_is_replaced_by_the_cheapest_that_takes_its_pods() -> None:
    types = (
        make_type("large", 8000, 16384, "0.10"),
        make_type("tiny", 400, 512, "0.01"),
        make_type("mid", 2000, 4096, "0.02"),
        make_type("unpriced", 2000, 4096, None),
    )
    pools = (make_pool(types=types, zones=("a",)),)
    full = make_nodes("b1", **FRESH, instance_type="mid")
    pods = [on("a1"), make_pod("fill", 3900, 100, node_name="b1")]
    decision, _ = asked(
        expired(pods, (make_node("a1"), *full)), pools=pools, replace_drifted=True, min_workers=1
    )
    assert [slot.instance_type for slot in decision.slots] == ["mid"]
    huge = [make_pod("huge", 3000, 100, node_name="a1"), pods[1]]
    decision, _ = asked(
        expired(huge, (make_node("a1"), *full)), pools=pools, replace_drifted=True, min_workers=1
    )
    assert [slot.instance_type for slot in decision.slots] == ["large"]


def test_an_offer_that_had_no_capacity_is_asked_for_last() -> None:
    decision, _ = asked(
        expired(), record={"offer_rests": (CapacityBackoff("a/on-demand/small", NOW + 60),)}, **EXPIRY
    )
    assert [slot.zone for slot in decision.slots] == ["b"]


def test_pods_that_fit_nowhere_keep_their_node() -> None:
    picky = on("a1", scheduling=make_pod().scheduling)
    too_big = make_pod("big", 4100, 100, node_name="a1")
    kept = asked(expired([too_big, picky]), **EXPIRY)
    assert why_kept(kept, Action.REPLACE) == (NodeCause.NO_REPLACEMENT, "")


def test_the_limits_of_a_pool_hold_for_a_replacement_too() -> None:
    """Three nodes of 4 CPUs are 12: a fourth would be 16."""
    for limit, takes in ((15_999, False), (16_000, True)):
        pools = (make_pool(expire_seconds=OLD, limits=PoolLimits(cpu_milli=limit)),)
        found = asked(expired(), pools=pools)
        assert bool(found[0].slots) is takes
        assert takes or why_kept(found, Action.REPLACE) == (NodeCause.NO_REPLACEMENT, "")


def test_the_last_node_of_a_zone_is_replaced_within_it_only() -> None:
    nodes = (make_node("b1"), *make_nodes("a1", "a2", **FRESH))
    pools = (make_pool(expire_seconds=OLD, zones=("a",)),)
    kept = asked(expired(nodes=nodes), pools=pools)
    assert why_kept(kept, Action.REPLACE, "b1") == (NodeCause.CHECK, Gate.ZONE_KEPT)


def silent(pods: list[Pod], *others: str, **node: Any) -> Snapshot:
    nodes = (make_node("a1", **{"ready": False, **node}), *make_nodes(*(others or ("a2", "b1"))))
    return make_snapshot(nodes, [*pods, *(on(one.name) for one in nodes[1:])])


def repair(
    seen: Snapshot, record: dict[str, Any] | None = None, **settings: Any
) -> tuple[Decision, Check | None]:
    known = {"unwell": SILENT, "worker_count": len(seen.cluster.workers), **(record or {})}
    made = make_settings(**{"repair": True, "cpu_down": 0.0, **settings})
    decision = decide(seen, make_record(**known), made, NOW, "d")
    verdict = next(one for one in decision.verdicts if one.action is Action.REPAIR)
    return decision, verdict.failed


ENDED: dict[str, Any] = {"terminating": True, "ends_at": NOW - 300}


def test_a_silent_node_is_replaced_whatever_is_pending_or_busy() -> None:
    for seen in (
        silent([on("a1", **ENDED)]),
        silent([on("a1", **ENDED), make_pod("p", phase=PodPhase.PENDING)]),
    ):
        decision, failed = repair(seen, {"pending_since": NOW})
        assert (decision.action, failed) == (Action.REPAIR, None)
        assert [(r.node_name, r.unhealthy) for r in decision.removals] == [("a1", True)]
        assert len(decision.slots) == 1
        assert decision.cause is RemovalReason.UNHEALTHY


def test_repair_is_off_unless_it_is_asked_for_and_waits_its_time() -> None:
    none_is: CheckValues = ("a worker is unwell", False, 0, 1, "")
    assert values_of(repair(silent([on("a1")]), repair=False)[1]) == none_is
    _, failed = repair(silent([on("a1")]), {"unwell": (Unwell("uid-a1", NOT_READY, NOW - 599),)})
    assert values_of(failed) == none_is


def test_a_node_that_never_took_a_pod_is_removed_at_once() -> None:
    decision, _ = repair(silent([]))
    assert decision.slots == ()
    assert [(one.node_name, one.unhealthy) for one in decision.removals] == [("a1", True)]
    assert decision.cause is RemovalReason.UNHEALTHY


def test_a_ready_node_that_is_unwell_and_empty_is_replaced_where_the_minimum_needs_it() -> None:
    seen = silent([], "b1", ready=True, conditions=("X=True",))
    unwell: dict[str, Any] = {"unwell": (Unwell("uid-a1", "X=True", NOW - 600),)}
    asked_for: dict[str, Any] = {"repair_conditions": ("X=True",)}
    decision, _ = repair(seen, unwell, min_workers=2, **asked_for)
    assert len(decision.slots) == 1
    seen = silent([], "a2", "b1", ready=True, conditions=("X=True",))
    decision, _ = repair(seen, unwell, min_workers=2, **asked_for)
    assert decision.slots == ()


def test_at_the_maximum_a_silent_node_goes_first_once_its_pods_have_ended() -> None:
    decision, _ = repair(silent([on("a1", **ENDED)]), max_workers=3)
    assert (decision.action, decision.slots) == (Action.REPAIR, ())
    assert why_kept(repair(silent([on("a1")]), max_workers=3)) == (NodeCause.NO_REPLACEMENT, "")


def test_a_silent_node_of_a_pool_that_sleeps_goes_without_a_replacement() -> None:
    """No scale-down takes it, since it is not Ready: it would be paid until the pool wakes."""
    asleep: dict[str, Any] = {"pools": (make_pool(may_be_empty=True),)}
    for pods in ([], [on("a1", **ENDED)]):
        decision, _ = repair(silent(pods), **asleep)
        assert (decision.action, decision.slots) == (Action.REPAIR, ())
        assert [(one.node_name, one.unhealthy) for one in decision.removals] == [("a1", True)]
    assert why_kept(repair(silent([on("a1")]), **asleep)) == (NodeCause.POOL_SLEEPS, "workers")
    short = repair(silent([]), min_workers=3, **asleep)
    assert why_kept(short) == (NodeCause.CHECK, Gate.MINIMUM_KEPT)


def test_an_unwell_node_of_a_pool_that_sleeps_is_left_to_the_scale_down_where_it_is_ready() -> None:
    unwell: dict[str, Any] = {"unwell": (Unwell("uid-a1", "X=True", NOW - 600),)}
    asleep: dict[str, Any] = {"pools": (make_pool(may_be_empty=True),), "repair_conditions": ("X=True",)}
    kept = repair(silent([], ready=True, conditions=("X=True",)), unwell, **asleep)
    assert why_kept(kept) == (NodeCause.POOL_SLEEPS, "workers")


def test_pods_that_still_run_there_are_judged_by_the_drain_rules() -> None:
    kept = repair(silent([on("a1", do_not_disrupt=True)]))
    assert why_kept(kept) == (NodeCause.POD_BLOCKS, "default/on-a1")
    kept = repair(silent([on("a1", terminating=True, ends_at=NOW)]))
    assert why_kept(kept) == (NodeCause.POD_WAITS, "default/on-a1")


def test_a_pod_on_a_silent_node_that_fits_nowhere_keeps_it() -> None:
    kept = repair(silent([make_pod("big", 4100, 100, node_name="a1")]))
    assert why_kept(kept) == (NodeCause.NO_REPLACEMENT, "")


def test_the_brake_keeps_all_nodes_of_the_pool() -> None:
    nodes = (*make_nodes("a1", "a2", ready=False), *make_nodes("a3", "b1", "b2"))
    seen = make_snapshot(nodes, [on("a3")])
    decision, failed = repair(seen, {"unwell": (*SILENT, Unwell("uid-a2", NOT_READY, NOW - 700))})
    assert values_of(failed) == ("a worker can be replaced", False, None, None, "a2")
    refusals = next(one.refusals for one in decision.verdicts if one.action is Action.REPAIR)
    assert sorted(one.node_name for one in refusals) == ["a1", "a2"]


def test_the_next_one_has_its_turn_where_the_first_cannot_go() -> None:
    nodes = (make_node("a1"), make_node("a2"), *make_nodes("b1", **FRESH))
    decision, _ = asked(expired([on("a1", controller="")], nodes), **EXPIRY)
    assert [removal.node_name for removal in decision.removals] == ["a2"]
    verdict = next(one for one in decision.verdicts if one.action is Action.REPLACE)
    assert [refusal.node_name for refusal in verdict.refusals] == ["a1"]


def test_a_node_of_a_pool_that_is_not_configured_is_left() -> None:
    nodes = (make_node("a1", ready=False, pool="gone"), *make_nodes("a2", "b1"))
    assert why_kept(repair(make_snapshot(nodes, [on("a2")]))) == (NodeCause.NO_POOL, "gone")


OFTEN = (DrainFailures("i-a1", 5, NOW + 50_000, NOW + 99_000, "stuck"),)


def test_a_node_that_failed_to_drain_often_is_not_replaced_because_it_is_old() -> None:
    nodes = (make_node("a1", created_at=NOW - OLD - 1), make_node("a2", **FRESH), make_node("b1", **FRESH))
    decision, _ = asked(expired(nodes=nodes), record={"drain_failures": OFTEN}, **EXPIRY)
    assert decision.action is Action.NOTHING
    assert why_kept((decision, _), Action.REPLACE) == (NodeCause.BACKED_OFF, "")


def test_a_broken_node_is_repaired_however_often_it_failed_to_drain() -> None:
    """Its pods do not run: the failed drains of better days are no reason to leave it for a day."""
    decision, failed = repair(silent([on("a1")]))
    again, failed_again = repair(silent([on("a1")]), {"drain_failures": OFTEN})
    assert (failed, failed_again) == (None, None)
    assert (again.action, again.removals) == (decision.action, decision.removals)


def test_a_node_that_the_cloud_is_taking_counts_as_no_room_while_a_successor_is_looked_for() -> None:
    seen = make_snapshot(NODES, [on("a1"), on("b1")])
    record = make_record(spots=(make_spot(kind=SpotKind.INTERRUPTION),))
    successors = Successors(seen, record, make_settings())
    for _ in range(2):
        offer, why = successors.offer_for(NODES[0], make_pool(), [on("a1")])
        assert offer is not None
        assert (offer.node_type.name, why) == ("small", "")
