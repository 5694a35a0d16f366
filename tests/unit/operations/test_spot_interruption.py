"""An interruption: cordon, evict, replace within the maximum, terminate nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import spot
from ebbtide.model.effect import Cordon, Effect, Launch, Outcome, OutcomeKind, Uncordon
from ebbtide.model.operation import Operation, RemovalCause, RemovalState, SlotState, Spot, SpotEnd
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import InstanceState, Node, Ownership, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
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
    without_instance,
)

ID = "spot:i-a1"
CORDON = Cordon("a1", "uid-a1", ID)
SEEN = fleet(make_node("a1"))
GOING = make_removal("a1", state=RemovalState.DRAINED)
READY = make_slot(f"{ID}-0", state=SlotState.READY, node_name="b9", instance_id="i-b9")


def advance(
    work: Spot,
    snapshot: Snapshot = SEEN,
    *,
    now: int = NOW,
    settings: Settings | None = None,
    operation: Operation | None = None,
) -> tuple[Spot, tuple[Effect, ...]]:
    record = make_record(spots=(work,), operation=operation)
    step = spot.advance(work, make_situation(snapshot, record=record, settings=settings, now=now))
    assert breaches(spot.check_invariants(work, step.state)) == []
    return step.state, step.effects


def shut() -> Node:
    return cordoned("a1", ID)


def lost(state: InstanceState = InstanceState.GONE) -> Snapshot:
    return with_instance(SEEN, "i-a1", state=state)


def test_what_is_to_be_done_is_written_before_the_node_or_the_cloud_is_touched() -> None:
    after, effects = advance(make_spot())
    assert after.removal is not None
    assert after.slot is not None
    assert (after.removal.state, after.slot.state) == (RemovalState.PLANNED, SlotState.RESERVED)
    assert (after.slot.key, after.slot.since) == (f"{ID}-{NOW}", NOW)
    assert effects == ()


def test_the_node_is_cordoned_and_its_replacement_launched() -> None:
    planned, _ = advance(make_spot())
    after, effects = advance(planned)
    assert after.removal is not None
    assert after.slot is not None
    assert (after.removal.state, after.removal.drain_deadline) == (RemovalState.DRAINING, NOW + 110)
    assert after.slot.state is SlotState.LAUNCHING
    assert effects == (CORDON, Launch(after.slot, ID))


@pytest.mark.parametrize("state", [RemovalState.PLANNED, RemovalState.DRAINING])
def test_the_mark_of_a_closed_operation_is_lifted_before_the_node_is_cordoned(state: RemovalState) -> None:
    """Swarm seed 16710: its cordon was refused, for as long as the mark had its grace."""
    marked = fleet(make_node("a1", owner=Ownership("op", 3)))
    work = make_spot(removal=make_removal("a1", state=state, drain_deadline=NOW + 110), slot=READY)
    after, effects = advance(work, marked)
    assert effects == (Uncordon("a1", "uid-a1", "op", 3),)
    _, effects = advance(after)
    assert effects == (CORDON,)


def test_the_mark_of_an_open_operation_is_its_own() -> None:
    """The cordon is refused, until that operation has given the node up."""
    marked = fleet(make_node("a1", owner=Ownership("op", 3)))
    work = make_spot(removal=make_removal("a1", state=RemovalState.DRAINING), slot=READY)
    _, effects = advance(work, marked, operation=make_scale_down(make_removal("b1"), id="op"))
    assert effects == (CORDON,)


@pytest.mark.parametrize(
    "settings", [make_settings(max_workers=4), make_settings(pools=(make_pool(max_workers=4),))]
)
def test_a_replacement_waits_for_room_within_the_maximum(settings: Settings) -> None:
    planned, _ = advance(make_spot(), settings=settings)
    after, effects = advance(planned, settings=settings)
    assert (after.slot, effects) == (None, (CORDON,))
    later, _ = advance(replace(after, removal=GOING), lost(), settings=settings)
    assert later.slot is not None


def test_a_pool_that_is_no_longer_configured_gets_no_replacement() -> None:
    after, _ = advance(make_spot(pool="old"))
    assert (after.slot, after.replace) == (None, False)


def test_a_pool_that_sleeps_gets_no_replacement() -> None:
    after, effects = advance(make_spot(), settings=make_settings(pools=(make_pool(may_be_empty=True),)))
    assert (after.slot, after.replace) == (None, False)
    after, effects = advance(after, settings=make_settings(pools=(make_pool(may_be_empty=True),)))
    assert (after.slot, effects) == (None, (CORDON,))


def test_an_instance_that_has_no_node_yet_is_replaced_all_the_same() -> None:
    seen = replace(SEEN, instances=(*SEEN.instances, make_instance("i-a9")))
    planned, _ = advance(make_spot("a9"), seen)
    after, effects = advance(planned, seen)
    assert after.slot is not None
    assert (after.removal, after.slot.state, after.closing) == (None, SlotState.LAUNCHING, SpotEnd.OPEN)
    assert effects == (Launch(after.slot, "spot:i-a9"),)


def test_the_cloud_takes_the_node_itself_so_nothing_is_terminated() -> None:
    """However long it has been drained, and although every gate would let it go."""
    work = make_spot(removal=replace(GOING, since=NOW - 60), slot=READY)
    assert advance(work, fleet(shut())) == (work, ())


def test_pods_are_evicted_whatever_happens_to_the_replacement() -> None:
    removal = replace(GOING, state=RemovalState.DRAINING)
    seen = with_pods(fleet(shut()), make_pod("web", node_name="a1"))
    launching = make_slot(f"{ID}-0", state=SlotState.LAUNCHING)
    _, effects = advance(make_spot(removal=removal, slot=launching), seen)
    assert [type(effect).__name__ for effect in effects] == ["Evict", "Launch"]


def test_it_ends_once_the_node_is_gone_and_the_replacement_is_ready() -> None:
    gone = replace(GOING, state=RemovalState.GONE)
    after, _ = advance(make_spot(removal=gone, slot=replace(READY, state=SlotState.JOINED)), lost())
    assert after.closing is SpotEnd.OPEN
    after, _ = advance(make_spot(removal=gone, slot=READY), lost())
    assert after.closing is SpotEnd.ANSWERED


def test_it_waits_for_room_for_a_replacement_no_longer_than_the_notice_means_anything() -> None:
    work, full = make_spot(removal=replace(GOING, state=RemovalState.GONE)), make_settings(max_workers=3)
    assert advance(work, lost(), now=NOW + 179, settings=full)[0].closing is SpotEnd.OPEN
    after, _ = advance(work, lost(), now=NOW + 180, settings=full)
    assert after.closing is SpotEnd.ANSWERED


def test_an_interruption_whose_replacement_failed_is_over_all_the_same() -> None:
    gone = replace(GOING, state=RemovalState.GONE)
    after, _ = advance(make_spot(removal=gone, slot=replace(READY, state=SlotState.FAILED)), lost())
    assert after.closing is SpotEnd.ANSWERED


def test_an_interruption_that_does_not_come_gives_the_node_back() -> None:
    work = make_spot(removal=GOING, slot=READY)
    after, effects = advance(work, fleet(shut()), now=NOW + 180)
    assert after.removal is not None
    assert (after.removal.state, effects) == (RemovalState.RELEASING, ())
    assert advance(after, fleet(shut()), now=NOW + 180) == (after, (Uncordon("a1", "uid-a1", ID, TOKEN),))
    after, _ = advance(after, now=NOW + 181)
    assert after.closing is SpotEnd.NODE_STAYS
    assert spot.why_ended(after, make_situation(now=NOW + 181)).cause is RemovalCause.LAPSED


def test_a_node_that_a_scale_down_removes_is_left_to_it_without_a_replacement() -> None:
    operation = make_scale_down(make_removal("a1", state=RemovalState.DRAINING))
    work = make_spot(replace=False)
    assert advance(work, operation=operation) == (work, ())
    after, _ = advance(work, lost())
    assert (after.slot, after.closing) == (None, SpotEnd.REMOVED_MEANWHILE)


def test_a_node_that_the_scale_down_gave_up_is_drained_and_replaced_after_all() -> None:
    giving_back = make_scale_down(make_removal("a1", state=RemovalState.RELEASING))
    waiting, _ = advance(make_spot(replace=False), operation=giving_back)
    assert (waiting.removal, waiting.replace) == (None, False)
    given_back = make_scale_down(make_removal("a1", state=RemovalState.RELEASED))
    after, _ = advance(make_spot(replace=False), operation=given_back)
    assert after.replace
    assert after.slot is not None
    assert after.removal is not None
    assert after.removal.state is RemovalState.PLANNED


def test_an_interruption_is_not_closed_because_one_list_lacked_its_instance() -> None:
    seen = without_instance(SEEN, "i-a1")
    after, effects = advance(make_spot(replace=False), seen)
    assert (after.closing, after.removal, effects) == (SpotEnd.OPEN, None, ())
    late, _ = advance(make_spot(replace=False), seen, now=NOW + 180)
    assert late.closing is SpotEnd.NOT_LISTED


def test_a_machine_that_is_interrupted_before_it_joined_is_emptied_once_it_has() -> None:
    unjoined = replace(SEEN, cluster=replace(SEEN.cluster, nodes=()))
    waiting, effects = advance(make_spot(slot=READY), unjoined)
    assert (waiting.removal, waiting.closing, effects) == (None, SpotEnd.OPEN, ())
    after, _ = advance(waiting, SEEN, now=NOW + 60)
    assert after.removal is not None
    assert (after.removal.state, after.removal.node_name) == (RemovalState.PLANNED, "a1")
    late, _ = advance(waiting, unjoined, now=NOW + 180)
    assert late.closing is SpotEnd.NEVER_JOINED


def test_nothing_is_done_on_a_partial_observation_or_after_the_end() -> None:
    blind = replace(SEEN, problems=("the cloud could not be read",))
    assert advance(make_spot(), blind) == (make_spot(), ())
    ended = make_spot(closing=SpotEnd.ANSWERED)
    assert advance(ended) == (ended, ())


def test_answers_reach_the_slot_and_the_removal_and_nobody_where_there_is_neither() -> None:
    launching = make_slot(f"{ID}-0", state=SlotState.LAUNCHING)
    work = make_spot(removal=replace(GOING, state=RemovalState.DRAINING), slot=launching)
    made = Outcome(Launch(launching, ID), OutcomeKind.DONE, instance=make_instance("i-b9"))
    refused = Outcome(CORDON, OutcomeKind.REFUSED, "a person cordoned it")
    after = spot.absorb(work, [made, refused], make_situation(SEEN, record=make_record()))
    assert after.slot is not None
    assert after.removal is not None
    assert (after.slot.state, after.removal.state) == (SlotState.LAUNCHED, RemovalState.RELEASING)
    assert spot.absorb(make_spot(), [made, refused], make_situation(SEEN)) == make_spot()
