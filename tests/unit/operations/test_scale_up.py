"""Scale-up: begin, record, verify, then complete or fail."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.operations import scale_up
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Breach, Launch, Outcome, OutcomeKind
from ebbtide.model.operation import SlotState
from ebbtide.model.record import DrainBackoff
from tests.builders import (
    NOW,
    make_instance,
    make_nodes,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.unit.operations.builders import breaches, make_situation, with_work

TWO = make_scale_up(make_slot("op-0"), make_slot("op-1", zone="b"))
SEEN = make_snapshot(make_nodes("a1", "b1"))


def test_begin_writes_what_was_decided_before_anything_is_asked_of_the_cloud() -> None:
    decision = Decision("d", NOW, Action.SCALE_UP, "CPU is high", (), slots=TWO.slots)
    started = scale_up.begin(decision, "op")
    assert started == replace(TWO, reason="CPU is high")
    assert (started.requested, started.started_at) == (2, NOW)


def test_every_slot_is_advanced_and_every_answer_reaches_its_own_slot() -> None:
    situation = make_situation(SEEN, record=with_work(TWO))
    step = scale_up.advance(TWO, situation)
    assert [slot.state for slot in step.state.slots] == [SlotState.LAUNCHING] * 2
    first, second = step.effects
    made = make_instance("i-b9", key="op-1")
    outcomes = [
        Outcome(first, OutcomeKind.NO_CAPACITY, "none"),
        Outcome(second, OutcomeKind.DONE, instance=made),
    ]
    after = scale_up.absorb(step.state, outcomes, situation)
    assert [(slot.state, slot.zone) for slot in after.slots] == [
        (SlotState.RESERVED, "b"),
        (SlotState.LAUNCHED, "b"),
    ]
    assert breaches(scale_up.check_invariants(step.state, after)) == []
    assert isinstance(first, Launch)


def test_it_is_settled_once_every_slot_is() -> None:
    ready, failed = make_slot(state=SlotState.READY), make_slot(state=SlotState.FAILED)
    assert scale_up.is_settled(make_scale_up(ready, failed))
    assert not scale_up.is_settled(make_scale_up(ready, make_slot(state=SlotState.RECLAIMING)))


def test_one_ready_node_completes_it_starts_the_cooldown_and_forgets_failures() -> None:
    ready = make_slot(state=SlotState.READY, instance_id="i-a9", node_name="a9")
    lost = make_slot("op-1", state=SlotState.FAILED, reason="no capacity anywhere")
    record = with_work(
        make_scale_up(ready, lost), launch_failures=3, launch_backoff_until=NOW + 9, unclean_runs=1
    )
    closed = scale_up.close(record, make_scale_up(ready, lost), make_settings(), NOW)
    assert closed.succeeded
    assert closed.record == make_record(last_scale_at=NOW)
    assert not closed.record.scaling_in_progress


def test_no_ready_node_fails_it_and_starts_a_growing_back_off_without_a_cooldown() -> None:
    lost = make_slot(state=SlotState.RECLAIMED, instance_id="i-a9", reason="no node 10 min after launch")
    record = with_work(make_scale_up(lost), last_scale_at=7, launch_failures=1, unclean_runs=1)
    closed = scale_up.close(record, make_scale_up(lost), make_settings(), NOW)
    assert not closed.succeeded
    assert closed.record == make_record(last_scale_at=7, launch_failures=2, launch_backoff_until=NOW + 120)


def test_an_orphan_that_was_reclaimed_does_not_hold_up_the_next_launch() -> None:
    lost = make_slot(state=SlotState.RECLAIMED, instance_id="i-a9", reason="no node 10 min after launch")
    adopted = replace(make_scale_up(lost), requested=0)
    closed = scale_up.close(with_work(adopted), adopted, make_settings(), NOW)
    assert closed.record == make_record()


def test_an_instance_that_could_not_be_reclaimed_rests_before_it_is_adopted_again() -> None:
    stuck = make_slot(state=SlotState.FAILED, instance_id="i-a9", reason="it could not be reclaimed")
    closed = scale_up.close(with_work(make_scale_up(stuck)), make_scale_up(stuck), make_settings(), NOW)
    assert closed.record.rests == (DrainBackoff("i-a9", NOW + 3600, "it could not be reclaimed"),)


def test_a_scale_up_without_slots_fails_at_once_instead_of_lasting_forever() -> None:
    empty = make_scale_up()
    assert scale_up.is_settled(empty)
    assert not scale_up.close(make_record(), empty, make_settings(), NOW).succeeded


def test_invariants_hold_for_the_number_of_slots_and_for_each_of_them() -> None:
    fewer = replace(TWO, slots=TWO.slots[:1])
    assert breaches(scale_up.check_invariants(TWO, fewer)) == [(Breach.LOST, "op")]
    jumped = replace(TWO, slots=(replace(TWO.slots[0], state=SlotState.READY), TWO.slots[1]))
    assert breaches(scale_up.check_invariants(TWO, jumped)) == [(Breach.STATE, "op-0")]


def test_the_cooldown_counts_from_the_last_node_that_became_ready_and_not_from_one_that_never_joined() -> (
    None
):
    ready = make_slot(state=SlotState.READY, node_name="a9", since=NOW - 500)
    lost = make_slot("op-1", state=SlotState.RECLAIMED, instance_id="i-a8")
    operation = make_scale_up(ready, lost)
    closed = scale_up.close(with_work(operation), operation, make_settings(), NOW)
    assert closed.record.last_scale_at == NOW - 500


def test_slots_are_appended_and_nothing_that_was_there_changes() -> None:
    adopted = make_slot("other", state=SlotState.LAUNCHED, instance_id="i-9")
    decision = Decision("d", NOW + 60, Action.SCALE_UP, "more", (), slots=(make_slot("d-0"), adopted))
    extended = scale_up.extend(TWO, decision)
    assert extended.slots == (*TWO.slots, make_slot("d-0"), adopted)
    assert (extended.requested, extended.extended_at) == (TWO.requested + 1, NOW + 60)
    assert breaches(scale_up.check_invariants(TWO, extended)) == []
    only_adopted = scale_up.extend(TWO, replace(decision, slots=(adopted,)))
    assert (only_adopted.requested, only_adopted.extended_at) == (TWO.requested, 0)
    wrong = replace(TWO, requested=0, slots=(*TWO.slots, TWO.slots[0], make_slot("x", state=SlotState.READY)))
    assert breaches(scale_up.check_invariants(TWO, wrong)) == [
        (Breach.APPENDED, "op-0"),
        (Breach.APPENDED, "x"),
        (Breach.TAKEN_BACK, "op"),
    ]
