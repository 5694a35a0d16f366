"""A rebalance recommendation is voluntary: the replacement first, then every gate of a removal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.operations import machine, spot
from ebbtide.core.operations.situation import Situation
from ebbtide.core.operations.spot import EndWhy
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.effect import Cordon, Effect, SoftTaint, Terminate
from ebbtide.model.operation import (
    AbortCause,
    RemovalCause,
    RemovalState,
    SlotCause,
    SlotState,
    Spot,
    SpotEnd,
    SpotKind,
)
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.snapshot import InstanceState, Ownership, Snapshot
from tests.builders import (
    NOW,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_spot,
)
from tests.unit.operations.builders import (
    TOKEN,
    breaches,
    cordoned,
    fleet,
    make_situation,
    with_instance,
    with_pods,
    with_work,
    without_instance,
)

ID = "spot:i-a1"
SEEN = fleet(make_node("a1"))
READY = make_slot(f"{ID}-0", state=SlotState.READY, node_name="b9", instance_id="i-b9")
LAPSE = NOW + 900


def recommended(**overrides: Any) -> Spot:
    return make_spot(**{"kind": SpotKind.REBALANCE, "deadline": NOW + 600, **overrides})


def situation(
    work: Spot,
    snapshot: Snapshot = SEEN,
    *,
    now: int = NOW,
    max_workers: int = 10,
    pools: tuple[Pool, ...] = (make_pool(),),
    **record: Any,
) -> Situation:
    written = make_record(**{"spots": (work,), **record})
    settings = make_settings(max_workers=max_workers, pools=pools)
    return make_situation(snapshot, record=written, settings=settings, now=now)


def without_node(snapshot: Snapshot, name: str) -> Snapshot:
    nodes = tuple(node for node in snapshot.cluster.nodes if node.name != name)
    return replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))


def advance(work: Spot, snapshot: Snapshot = SEEN, **given: Any) -> tuple[Spot, tuple[Effect, ...]]:
    step = spot.advance(work, situation(work, snapshot, **given))
    assert breaches(spot.check_invariants(work, step.state)) == []
    return step.state, step.effects


def test_the_replacement_comes_first_and_the_node_is_not_touched() -> None:
    after, effects = advance(recommended())
    assert after.slot is not None
    assert (after.slot.state, after.removal, effects) == (SlotState.RESERVED, None, ())
    launching, _ = advance(after)
    assert launching.slot is not None
    assert (launching.slot.state, launching.removal) == (SlotState.LAUNCHING, None)


def test_once_the_replacement_is_ready_the_node_is_removed_like_any_other() -> None:
    planned, effects = advance(recommended(slot=READY))
    assert effects == ()
    after, effects = advance(planned)
    assert after.removal is not None
    assert (after.removal.state, effects) == (RemovalState.PLANNED, (SoftTaint("a1", "uid-a1", ID),))
    after, effects = advance(after, fleet(make_node("a1", owner=Ownership(ID, TOKEN, cordoned=False))))
    assert after.removal is not None
    assert (after.removal.state, effects) == (RemovalState.DRAINING, (Cordon("a1", "uid-a1", ID),))
    drained = replace(after, removal=replace(after.removal, state=RemovalState.DRAINED, since=NOW - 10))
    after, effects = advance(drained, fleet(cordoned("a1", ID)))
    assert after.removal is not None
    assert after.removal.state is RemovalState.TERMINATING
    assert effects == (Terminate("i-a1", "a1", "uid-a1", ID),)


def test_a_gate_that_fails_when_terminating_is_entered_gives_the_node_back() -> None:
    work = recommended(slot=READY, removal=make_removal(state=RemovalState.DRAINED, since=NOW - 10))
    after, _ = advance(work, fleet(cordoned("a1", ID), "b1"), worker_count=2)
    assert after.removal is not None
    assert after.removal.state is RemovalState.RELEASING
    assert after.removal.about == Gate.MINIMUM_KEPT


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"operation": make_scale_up(make_slot())}, "no operation in progress"),
        ({"paused": True}, Gate.NOT_PAUSED),
        ({"worker_count": 40}, Gate.PLAUSIBLE),
        (
            {"set_aside": make_scale_down(make_removal("b1"), id="old")},
            Gate.NOT_PAUSED,
        ),
    ],
)
def test_a_recommendation_waits_for_the_gates_and_lapses(record: dict[str, Any], why: str) -> None:
    work = recommended()
    assert advance(work, now=LAPSE - 1, **record) == (work, ())
    after, effects = advance(work, now=LAPSE, **record)
    assert (after.closing, effects) == (SpotEnd.LAPSED, ())
    assert spot.why_ended(after, situation(after, now=LAPSE, **record)).about == why


@pytest.mark.parametrize(
    ("pools", "why"),
    [
        ((make_pool(may_be_empty=True),), NodeCause.POOL_SLEEPS),
        ((make_pool("other"),), NodeCause.NO_POOL),
    ],
)
def test_a_recommendation_is_not_followed_in_a_pool_that_would_launch_no_other_node(
    pools: tuple[Pool, ...], why: NodeCause
) -> None:
    assert advance(recommended(), pools=pools) == (recommended(), ())
    after, effects = advance(recommended(), pools=pools, now=LAPSE)
    assert (after.closing, effects) == (SpotEnd.LAPSED, ())
    assert spot.why_ended(after, situation(after, pools=pools, now=LAPSE)).cause is why


def test_a_recommendation_waits_for_room_within_the_maximum_and_lapses() -> None:
    assert advance(recommended(), max_workers=4) == (recommended(), ())
    after, _ = advance(recommended(), max_workers=4, now=LAPSE)
    assert after.closing is SpotEnd.LAPSED
    seen = situation(after, max_workers=4, now=LAPSE)
    assert spot.why_ended(after, seen).cause is NodeCause.NO_REPLACEMENT


def test_without_a_replacement_it_is_not_followed() -> None:
    failed = replace(READY, state=SlotState.FAILED, reason="no capacity anywhere", why=SlotCause.NO_CAPACITY)
    after, effects = advance(recommended(slot=failed))
    assert after.closing is SpotEnd.NO_REPLACEMENT
    assert spot.why_ended(after, situation(after)) == EndWhy(failed.why, failed.reason)
    assert effects == ()


def test_pausing_gives_the_node_back() -> None:
    work = recommended(slot=READY, removal=make_removal(state=RemovalState.DRAINING))
    after, _ = advance(work, fleet(cordoned("a1", ID)), paused=True)
    assert after.removal is not None
    assert (after.removal.state, after.removal.about) == (RemovalState.RELEASING, AbortCause.PAUSED)


def test_a_node_is_not_kept_cordoned_forever_for_a_recommendation() -> None:
    work = recommended(slot=READY, removal=make_removal(state=RemovalState.DRAINED, since=NOW - 10))
    sick: dict[str, Any] = {"worker_count": 40}
    waiting, _ = advance(work, fleet(cordoned("a1", ID)), now=LAPSE + 899, **sick)
    assert waiting.removal is not None
    assert waiting.removal.state is RemovalState.DRAINED
    after, _ = advance(work, fleet(cordoned("a1", ID)), now=LAPSE + 900, **sick)
    assert after.removal is not None
    assert (after.removal.state, after.removal.about) == (RemovalState.RELEASING, AbortCause.TOO_LONG)


def test_what_is_terminating_is_not_given_back_however_long_it_takes() -> None:
    work = recommended(slot=READY, removal=make_removal(state=RemovalState.TERMINATING))
    after, _ = advance(work, fleet(cordoned("a1", ID)), now=LAPSE + 86_400, paused=True)
    assert after.removal is not None
    assert after.removal.state is RemovalState.SET_ASIDE
    assert after.closing is SpotEnd.SET_ASIDE
    assert spot.why_ended(after, make_situation()).cause is RemovalCause.NOT_GONE
    closed = spot.close(with_work(after), after, make_settings(), NOW)
    (kept,) = closed.record.refused
    assert (kept.operation_id, kept.removal.state) == (ID, RemovalState.TERMINATING)


def removed_by_a_scale_down() -> Record:
    return make_record(operation=make_scale_down(make_removal("a1", state=RemovalState.DRAINING)))


def test_a_node_that_a_scale_down_removes_is_never_replaced() -> None:
    work = recommended(replace=False)
    operation = removed_by_a_scale_down().operation
    assert advance(work, operation=operation) == (work, ())
    assert advance(work, without_instance(SEEN, "i-a1")) == (work, ())
    after, effects = advance(work, with_instance(SEEN, "i-a1", state=InstanceState.GONE))
    assert (after.slot, effects) == (None, ())
    assert after.closing is SpotEnd.REMOVED_MEANWHILE


def test_a_ready_replacement_stays_when_the_recommendation_lapses() -> None:
    after, effects = advance(recommended(slot=READY), paused=True, now=LAPSE)
    assert (after.closing, effects) == (SpotEnd.LAPSED, ())
    assert spot.why_ended(after, situation(after, paused=True, now=LAPSE)).about == Gate.NOT_PAUSED


def test_a_replacement_that_is_ready_is_counted_once() -> None:
    """It stands in the cluster already: counted as still to come too, a node too many would go."""
    seen, minimum = fleet(make_node("a1"), "a2", "b9"), 3
    work = recommended(slot=READY)
    record = make_record(spots=(work,))
    given = make_situation(seen, record=record, settings=make_settings(min_workers=minimum))
    assert spot.advance(work, given).state == work, "of three workers one would go, and two are too few"
    given = make_situation(seen, record=record, settings=make_settings(min_workers=minimum - 1))
    assert spot.advance(work, given).state.removal is not None


def test_why_a_recommendation_lapsed_names_the_node_or_that_there_is_none() -> None:
    lapsed = recommended(closing=SpotEnd.LAPSED)
    away = spot.why_ended(lapsed, situation(lapsed, without_node(SEEN, "a1"), now=LAPSE))
    assert (away.cause, away.about) == (NodeCause.CHANGED, "i-a1")
    kept = fleet(make_node("a1", unschedulable=True))
    why = spot.why_ended(lapsed, situation(lapsed, kept, now=LAPSE))
    assert (why.cause, why.about) == (NodeCause.CORDONED, "a1")


def test_an_answer_that_came_off_needs_no_reason() -> None:
    gone = make_removal("a1", state=RemovalState.GONE, reason="something stood in the way")
    answered = recommended(slot=READY, removal=gone, closing=SpotEnd.ANSWERED)
    assert spot.why_ended(answered, situation(answered)) == EndWhy()
    stays = replace(gone, state=RemovalState.RELEASED, why=RemovalCause.CHECK, about=Gate.MINIMUM_KEPT)
    kept = recommended(removal=stays, closing=SpotEnd.NODE_STAYS)
    assert spot.why_ended(kept, situation(kept)) == EndWhy(stays.why, stays.reason, stays.about)
    assert machine.close(kept, situation(kept)).reason == stays.reason


def test_a_replacement_that_is_to_come_is_counted_where_it_will_stand() -> None:
    """With it the minimum and the zone are kept; a node that cannot be drained gets none."""
    seen = fleet(make_node("a1"), "b1", "b2")
    work = recommended()
    settings = make_settings(min_workers=3)
    given = make_situation(seen, record=make_record(spots=(work,)), settings=settings)
    slot = spot.advance(work, given).state.slot
    assert slot is not None
    assert slot.zone == "a"
    bare = make_pod("bare", node_name="a1", controller="")
    given = make_situation(with_pods(seen, bare), record=make_record(spots=(work,)), settings=settings)
    assert spot.advance(work, given).state == work


def test_why_a_recommendation_lapsed_names_the_pod_that_keeps_its_node() -> None:
    kept = with_pods(SEEN, make_pod("kept", node_name="a1", do_not_disrupt=True))
    after, _ = advance(recommended(), kept, now=LAPSE)
    why = spot.why_ended(after, situation(after, kept, now=LAPSE))
    assert (after.closing, why.about) == (SpotEnd.LAPSED, "default/kept")
