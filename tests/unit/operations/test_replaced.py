"""A scale-down that launches a replacement first: nothing is touched before it is Ready."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide import narrate
from ebbtide.core.nodes import gates
from ebbtide.core.operations import facts, scale_down
from ebbtide.model.check import Gate
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Breach, Evict, Launch, Outcome, OutcomeKind, SoftTaint, Terminate
from ebbtide.model.events import OperationKind
from ebbtide.model.operation import AbortCause, RemovalState, ScaleDown, Slot, SlotCause, SlotState
from ebbtide.model.pod import Pod, Scheduling
from ebbtide.model.pool import RemovalReason
from ebbtide.model.snapshot import InstanceState, Node, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_instance_of,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import breaches, cordoned, make_situation, with_work

READY, LAUNCHED, RESERVED = SlotState.READY, SlotState.LAUNCHED, SlotState.RESERVED
EXPIRY = make_settings(pools=(make_pool(expire_seconds=3600),))
REPAIR = make_settings(repair=True, repair_after_seconds=600)
FRESH = make_node("a9", created_at=NOW - 60)
NODES = (*make_nodes("a1", "a2", "b1"), FRESH)
FULL = [make_pod(f"full-{name}", 3000, node_name=name) for name in ("a2", "a9")]
EXPIRED, UNHEALTHY = RemovalReason.EXPIRED, RemovalReason.UNHEALTHY


def replacing(
    slot: Slot | None = None,
    cause: RemovalReason = EXPIRED,
    removal: dict[str, Any] | None = None,
    **more: Any,
) -> ScaleDown:
    slots = (slot or make_slot(state=READY, node_name="a9", instance_id="i-a9"),)
    unhealthy = cause is UNHEALTHY
    goes = make_removal("a1", **{"unhealthy": unhealthy, **(removal or {})})
    return make_scale_down(goes, cause=cause, replacements=slots, **more)


def advanced(
    operation: ScaleDown, seen: Snapshot | None = None, settings: Any = EXPIRY, **situation: Any
) -> tuple[ScaleDown, tuple[Any, ...]]:
    seen = seen or make_snapshot(NODES, [make_pod("web", node_name="a1")])
    at = make_situation(seen, record=with_work(operation), settings=settings, **situation)
    step = scale_down.advance(operation, at)
    assert breaches(scale_down.check_invariants(operation, step.state)) == []
    return step.state, step.effects


def state(operation: ScaleDown) -> tuple[RemovalState, SlotState]:
    return operation.removals[0].state, operation.slots[0].state


def test_a_decision_begins_with_its_launch() -> None:
    decision = Decision(
        "d", NOW, Action.REPLACE, "old", (), (make_slot(since=0),), (make_removal(since=0),), cause=EXPIRED
    )
    started = scale_down.begin(decision, "op")
    assert started.slots == (make_slot(since=NOW),)
    assert (started.cause, started.replaced, started.removes_from) == (EXPIRED, False, NOW)
    assert facts.kind_of(started) is OperationKind.REPLACEMENT
    assert facts.started(decision, started).launches == 1


def test_no_node_is_touched_before_its_replacement_is_ready() -> None:
    after, effects = advanced(replacing(make_slot()))
    assert state(after) == (RemovalState.PLANNED, SlotState.LAUNCHING)
    assert [type(effect) for effect in effects] == [Launch]
    slot = make_slot(state=LAUNCHED, instance_id="i-a9")
    joined, effects = advanced(replacing(slot))
    assert (state(joined), effects) == ((RemovalState.PLANNED, SlotState.JOINED), ())
    ready, effects = advanced(joined)
    assert (state(ready), effects) == ((RemovalState.PLANNED, READY), ()), (
        "written before the node is touched"
    )
    _, effects = advanced(ready)
    assert [type(effect) for effect in effects] == [SoftTaint]


def test_the_answer_to_the_launch_is_taken_in() -> None:
    asked = make_slot(state=SlotState.LAUNCHING)
    operation = replacing(asked)
    outcome = Outcome(Launch(asked, "op"), OutcomeKind.DONE, instance=make_instance("i-new"))
    at = make_situation(make_snapshot(NODES), record=with_work(operation), settings=EXPIRY)
    after = scale_down.absorb(operation, (outcome,), at)
    assert after.slots[0].instance_id == "i-new"
    assert not scale_down.is_settled(after)


@pytest.mark.parametrize(
    ("nodes", "pod", "elsewhere"),
    [
        (NODES, make_pod("web", node_name="a1"), True),
        (NODES, make_pod("db", 3000, node_name="a1", scheduling=Scheduling(volume_zones=("a",))), False),
        (make_nodes("a1", "b1"), make_pod("web", node_name="a1"), False),
        (make_nodes("b1"), make_pod("web", node_name="b1"), True),
    ],
    ids=["may go", "its volume is here", "the last of its zone", "not seen"],
)
def test_where_there_is_no_capacity_only_what_lets_the_node_go_is_launched_instead(
    nodes: tuple[Node, ...], pod: Pod, elsewhere: bool
) -> None:
    """One node too many was launched in another zone every hour, and the old one stayed each time."""
    asked = make_slot(state=SlotState.LAUNCHING)
    for cause in (EXPIRED, UNHEALTHY):
        operation = replacing(asked, cause)
        pools = (make_pool(expire_seconds=3600, zones=("a", "b")),)
        at = make_situation(
            make_snapshot(nodes, [pod, *FULL]),
            record=with_work(operation),
            settings=make_settings(pools=pools),
        )
        no = Outcome(Launch(asked, "op"), OutcomeKind.NO_CAPACITY, "none left")
        (slot,) = scale_down.absorb(operation, (no,), at).slots
        found = (slot.state, slot.zone) if elsewhere else (slot.state, slot.why)
        assert found == ((RESERVED, "b") if elsewhere else (SlotState.FAILED, SlotCause.NO_CAPACITY))


def test_where_nothing_comes_the_node_stays_and_is_not_to_blame() -> None:
    failed = make_slot(state=SlotState.FAILED, reason="no capacity anywhere", refused=("a/on-demand/small",))
    operation, effects = advanced(replacing(failed))
    assert operation.abort_cause is AbortCause.NO_NODE
    assert (state(operation)[0], effects) == (RemovalState.RELEASING, ())
    released, _ = advanced(operation)
    assert scale_down.is_settled(released)
    closed = scale_down.close(with_work(released), released, EXPIRY, NOW)
    assert not closed.succeeded
    assert (closed.record.removal_failures, closed.record.rests) == (1, ())
    assert [rest.offer for rest in closed.record.offer_rests] == ["a/on-demand/small"]
    told = narrate.says(facts.closed(released, False))
    assert told.startswith("replacement given up: ")


def test_what_is_being_reclaimed_will_not_come_either() -> None:
    late = make_slot(state=SlotState.TERMINATING, terminated=True, instance_id="i-late", reason="no node")
    operation, _ = advanced(replacing(late))
    assert operation.abort_cause is AbortCause.NO_NODE


def test_what_was_not_asked_of_the_cloud_is_not_asked_for_after_an_abort() -> None:
    operation = replacing(make_slot())
    paused = replace(with_work(operation), paused=True)
    at = make_situation(make_snapshot(NODES), record=paused, settings=EXPIRY)
    step = scale_down.advance(operation, at)
    assert state(step.state) == (RemovalState.RELEASING, SlotState.FAILED)
    assert step.effects == ()


def test_what_was_launched_is_followed_to_its_end_after_an_abort() -> None:
    slot = make_slot(state=SlotState.JOINED, instance_id="i-a9", node_name="a9")
    operation = replacing(slot, abort_reason="removals were paused")
    after, _ = advanced(operation)
    assert state(after) == (RemovalState.RELEASING, READY)


def test_a_node_that_is_as_it_should_be_again_is_not_replaced() -> None:
    well = make_snapshot(NODES, [make_pod("web", node_name="a1")])
    operation, _ = advanced(replacing(cause=UNHEALTHY), well, REPAIR)
    assert (operation.abort_cause, operation.excused) == (AbortCause.FIT_AGAIN, True)
    operation, _ = advanced(replacing(), well, make_settings())
    assert (operation.abort_cause, operation.excused) == (AbortCause.FIT_AGAIN, True)
    closed = scale_down.close(with_work(operation), operation, EXPIRY, NOW)
    assert closed.record.removal_failures == 0


def test_an_unwell_node_stays_where_repair_was_turned_off() -> None:
    silent = make_snapshot((replace(NODES[0], ready=False), *NODES[1:]))
    going_on, _ = advanced(replacing(cause=UNHEALTHY), silent, REPAIR)
    assert going_on.abort_reason == ""
    operation, effects = advanced(replacing(cause=UNHEALTHY), silent, make_settings())
    assert (operation.abort_cause, operation.excused) == (AbortCause.FIT_AGAIN, True)
    assert effects == ()


def test_on_a_look_that_cannot_be_believed_nothing_is_given_up() -> None:
    operation = replacing(cause=UNHEALTHY)
    record = replace(with_work(operation), worker_count=40)
    at = make_situation(make_snapshot(NODES), record=record, settings=REPAIR)
    assert scale_down.advance(operation, at).state.abort_reason == ""


def test_a_node_that_is_not_seen_or_irrevocably_going_is_not_asked_about() -> None:
    unseen = make_snapshot(NODES[1:], [make_pod("web", node_name="a2")], instances=[])
    operation, _ = advanced(replacing(), unseen)
    assert operation.abort_reason == ""
    going = replacing(removal={"state": RemovalState.TERMINATING}, cause=UNHEALTHY)
    operation, _ = advanced(going, settings=REPAIR)
    assert operation.abort_reason == ""


def test_a_node_whose_instance_is_not_listed_is_not_taken_for_fit_again() -> None:
    silent = make_node("a1", ready=False)
    others = NODES[1:]
    seen = make_snapshot(
        (silent, *others), [make_pod("web", node_name="a2")], instances=map(make_instance_of, others)
    )
    for cause, settings in ((UNHEALTHY, REPAIR), (EXPIRED, make_settings())):
        operation, _ = advanced(replacing(cause=cause), seen, settings)
        assert operation.abort_reason == ""
    gone = make_instance_of(silent, state=InstanceState.TERMINATING)
    seen = make_snapshot((make_node("a1"), *others), instances=[gone, *map(make_instance_of, others)])
    operation, _ = advanced(replacing(cause=UNHEALTHY), seen, REPAIR)
    assert operation.abort_reason == ""


def test_pods_that_no_longer_fit_keep_the_node_and_it_rests() -> None:
    pods = [make_pod("big", 3000, 100, node_name="a1")]
    pods += [make_pod(f"fill-{name}", 2000, 100, node_name=name) for name in ("a2", "b1", "a9")]
    operation, _ = advanced(replacing(), make_snapshot(NODES, pods))
    assert operation.abort_cause is AbortCause.NOT_ALLOWED
    assert operation.removals[0].blamed


def test_a_replacement_in_another_zone_does_not_empty_its_own() -> None:
    nodes = (make_node("a1"), *make_nodes("b1", "b2"), replace(FRESH, zone="b"))
    operation, _ = advanced(replacing(), make_snapshot(nodes, [make_pod("web", node_name="a1")]))
    assert operation.abort_cause is AbortCause.NOT_ALLOWED


def test_a_drain_in_progress_is_not_asked_again_whether_pods_fit() -> None:
    pods = [make_pod("big", 4000, 100, node_name="a1")]
    draining: dict[str, Any] = {"state": RemovalState.DRAINING, "drain_deadline": NOW + 300, "attempts": 1}
    nodes = (cordoned("a1"), *NODES[1:])
    _, effects = advanced(replacing(removal=draining), make_snapshot(nodes, pods))
    assert [type(effect) for effect in effects] == [Evict]


def test_an_interrupted_node_does_not_wait_for_its_replacement() -> None:
    operation = replacing(make_slot(state=LAUNCHED, instance_id="i-new"))
    spot = make_spot("a1")
    record = replace(with_work(operation), spots=(spot,))
    at = make_situation(
        make_snapshot(NODES, [make_pod("web", node_name="a1")]), record=record, settings=EXPIRY
    )
    step = scale_down.advance(operation, at)
    assert step.state.removals[0].state is RemovalState.DRAINING


def test_waiting_for_a_replacement_is_not_time_spent_on_a_drain() -> None:
    long_ago: dict[str, Any] = {"started_at": NOW - 2000}
    waits, _ = advanced(replacing(make_slot(state=LAUNCHED, instance_id="i-new"), **long_ago))
    assert waits.abort_reason == ""
    just, _ = advanced(replacing(make_slot(state=READY, since=NOW - 899), **long_ago))
    assert just.abort_reason == ""
    stuck, _ = advanced(replacing(make_slot(state=READY, since=NOW - 900), **long_ago))
    assert stuck.abort_cause is AbortCause.TOO_LONG


def test_a_plan_never_changes_what_it_replaces() -> None:
    before = replacing()
    assert scale_down.check_invariants(before, replace(before, replacements=()))
    assert scale_down.check_invariants(before, replace(before, cause=RemovalReason.IDLE))
    other = replace(before, replacements=(replace(before.slots[0], state=LAUNCHED),))
    assert breaches(scale_down.check_invariants(before, other)) == [(Breach.STATE, "op-0")]


def silent(pods: list[Pod], **node: Any) -> Snapshot:
    gone: Node = replace(cordoned("a1"), **{"ready": False, **node})
    return make_snapshot((gone, *NODES[1:]), [*pods, make_pod("other", node_name="b1")])


ENDED: dict[str, Any] = {"terminating": True, "ends_at": NOW - 300, "volumes": ("vol-1",)}
DRAINED: dict[str, Any] = {"state": RemovalState.DRAINED, "since": NOW - 60}


def test_a_silent_node_goes_with_the_pods_that_nobody_ends_and_their_volumes() -> None:
    seen = silent([make_pod("web", node_name="a1", **ENDED)], volumes_attached=("vol-1", "vol-2"))
    after, effects = advanced(replacing(cause=UNHEALTHY, removal=DRAINED), seen, REPAIR)
    assert after.removals[0].state is RemovalState.TERMINATING
    assert effects == (Terminate("i-a1", "a1", "uid-a1", "op", NOW - 60),)


def test_neither_a_ready_node_nor_another_removal_skips_pods_that_are_ending() -> None:
    pods = [make_pod("web", node_name="a1", **ENDED)]
    ready = silent(pods, ready=True, conditions=("X=True",))
    settings = replace(REPAIR, repair_conditions=("X=True",))
    after, _ = advanced(replacing(cause=UNHEALTHY, removal=DRAINED), ready, settings)
    assert after.removals[0].state is RemovalState.DRAINING
    after, _ = advanced(replacing(removal=DRAINED), silent(pods))
    assert after.removals[0].state is RemovalState.DRAINING


def test_a_removal_in_progress_waits_while_much_of_its_pool_is_unwell() -> None:
    nodes = (
        replace(cordoned("a1"), ready=False),
        make_node("a2", ready=False),
        *make_nodes("a3", "b1", "b2"),
    )
    seen = make_snapshot(nodes, [make_pod("other", node_name="b1")])
    operation = replacing(cause=UNHEALTHY, removal=DRAINED)
    after, effects = advanced(operation, seen, REPAIR)
    assert (after.removals[0].state, effects) == (RemovalState.DRAINED, ())
    assert after.removals[0].about == Gate.POOL_WELL


def test_a_silent_node_may_go_whatever_the_load_is() -> None:
    removal = make_removal("a1", unhealthy=True, **DRAINED)
    operation = make_scale_down(removal, cause=UNHEALTHY)
    seen = replace(silent([]), cpu=replace(silent([]).cpu, value=0.99))
    assert gates.may_terminate(removal, seen, with_work(operation), REPAIR) is None
    seen = replace(seen, cluster=replace(seen.cluster, nodes=(cordoned("a1"), *NODES[1:])))
    failed = gates.may_terminate(removal, seen, with_work(operation), REPAIR)
    assert failed is not None
    assert failed.name == Gate.LOAD_FITS


CROWDED = [make_pod("big", 3000, 100, node_name="a1")]
CROWDED += [make_pod(f"fill-{name}", 2000, 100, node_name=name) for name in ("a2", "b1", "a9")]


def test_a_drain_in_progress_continues_although_its_pods_would_fit_nowhere_now() -> None:
    """Asked before the node is touched: later it would only undo what was done."""
    draining: dict[str, Any] = {"state": RemovalState.DRAINING, "drain_deadline": NOW + 300, "attempts": 1}
    after, effects = advanced(
        replacing(removal=draining), make_snapshot((cordoned("a1"), *NODES[1:]), CROWDED)
    )
    assert after.abort_reason == ""
    assert [type(effect) for effect in effects] == [Evict]


def test_a_node_that_a_zone_keeps_is_left_alone_for_a_while() -> None:
    nodes = (make_node("a1"), *make_nodes("b1", "b2"), replace(FRESH, zone="b"))
    operation, _ = advanced(replacing(), make_snapshot(nodes, [make_pod("web", node_name="a1")]))
    assert operation.removals[0].blamed


def test_the_pods_of_a_node_that_is_silent_are_asked_for_no_room() -> None:
    """They are lost already: a node that is broken must not stay for them."""
    nodes = (replace(make_node("a1"), ready=False), *NODES[1:])
    after, effects = advanced(replacing(cause=UNHEALTHY), make_snapshot(nodes, CROWDED), REPAIR)
    assert after.abort_reason == ""
    assert [type(effect) for effect in effects] == [SoftTaint]


def test_a_node_that_is_well_again_is_not_kept_where_the_cloud_takes_it() -> None:
    operation = replacing(cause=UNHEALTHY)
    record = replace(with_work(operation), spots=(make_spot("a1"),))
    at = make_situation(
        make_snapshot(NODES, [make_pod("web", node_name="a2")]), record=record, settings=REPAIR
    )
    assert scale_down.advance(operation, at).state.abort_reason == ""


def test_each_node_is_asked_about_also_after_one_that_is_not_there() -> None:
    slots = (make_slot(state=READY, node_name="a9", instance_id="i-a9"),)
    goes = (make_removal("c1", unhealthy=True), make_removal("a1", unhealthy=True))
    operation = make_scale_down(*goes, cause=UNHEALTHY, replacements=slots)
    after, _ = advanced(operation, make_snapshot(NODES, [make_pod("web", node_name="a2")]), REPAIR)
    assert after.abort_cause is AbortCause.FIT_AGAIN


def test_a_node_that_gets_no_replacement_is_not_asked_about_when_that_would_be_ready() -> None:
    """It is silent and the last of its zone: whether it may go is for the gates at its end."""
    nodes = (replace(make_node("a1"), ready=False), *make_nodes("b1", "b2"))
    operation = make_scale_down(make_removal("a1", unhealthy=True), cause=UNHEALTHY)
    after, effects = advanced(operation, make_snapshot(nodes, [make_pod("web", node_name="b1")]), REPAIR)
    assert after.abort_reason == ""
    assert [type(effect) for effect in effects] == [SoftTaint]
