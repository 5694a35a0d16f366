"""The edges of a launch: exactly at a maximum, whose node it is, and what is written with each step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import slots
from ebbtide.core.operations.situation import handed_over
from ebbtide.model.effect import Launch, Outcome, OutcomeKind
from ebbtide.model.operation import SlotCause, SlotState
from ebbtide.model.snapshot import ClusterView, InstanceState
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_pool,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.unit.operations.builders import advance_slot, make_situation, with_work
from tests.unit.operations.test_slots_join import LAUNCHED, OTHERS, RECLAIMING, TERMINATING, seen
from tests.unit.operations.test_slots_launch import LAUNCHING, NODES, answer


@pytest.mark.parametrize(
    "limits",
    [{"max_workers": 3}, {"pools": (make_pool(max_workers=3),)}],
    ids=["of all", "of its pool"],
)
def test_the_maximum_itself_may_be_reached(limits: dict[str, object]) -> None:
    slot = make_slot()
    record, settings = with_work(make_scale_up(slot)), make_settings(**limits)
    after, effects = advance_slot(
        slot, make_situation(make_snapshot(NODES), record=record, settings=settings)
    )
    assert (after.state, effects) == (SlotState.LAUNCHING, (Launch(after, "op"),))


def test_each_step_of_a_join_is_written_with_its_time_and_its_node() -> None:
    joined, _ = advance_slot(LAUNCHED, make_situation(seen(make_node("a1")), now=NOW + 50))
    assert (joined.state, joined.node_name, joined.since) == (SlotState.JOINED, "a1", NOW)
    renamed = replace(joined, node_name="its-name-before")
    ready, _ = advance_slot(renamed, make_situation(seen(make_node("a1")), now=NOW + 60))
    assert (ready.state, ready.node_name, ready.since) == (SlotState.READY, "a1", NOW + 60)


def test_a_failure_is_written_with_its_time() -> None:
    failed = answer(LAUNCHING, OutcomeKind.REFUSED, detail := "no such type")
    assert (failed.since, failed.reason) == (NOW + 5, detail)


def test_only_offers_without_capacity_are_named_as_such() -> None:
    full, refused = make_slot("op-0"), make_slot("op-1")
    outcomes = (
        Outcome(Launch(full, "op"), OutcomeKind.NO_CAPACITY, "none left"),
        Outcome(Launch(refused, "op"), OutcomeKind.REFUSED, "no such type"),
        Outcome(Launch(make_slot("op-2"), "op"), OutcomeKind.LATER, "throttled"),
    )
    assert slots.without_capacity(outcomes) == {"op-0"}


def test_the_next_offer_remembers_why_the_one_before_was_not_taken() -> None:
    after = answer(LAUNCHING, OutcomeKind.NO_CAPACITY, detail := "none left in a")
    assert (after.state, after.why, after.reason) == (SlotState.RESERVED, SlotCause.NO_CAPACITY, detail)


def test_a_machine_that_came_after_all_keeps_no_reason_of_its_delay() -> None:
    late = replace(RECLAIMING, why=SlotCause.NO_NODE)
    after, _ = advance_slot(late, make_situation(seen(make_node("a1"))))
    assert (after.state, after.reason, after.why) == (SlotState.READY, "", SlotCause.NONE)


def test_who_waits_for_a_stranger_says_so() -> None:
    launched = replace(LAUNCHED, since=NOW - 600)
    nobodys = make_node("stranger", provider_id="", private_ip="", created_at=NOW - 500)
    waits, _ = advance_slot(launched, make_situation(make_snapshot([nobodys], instances=seen().instances)))
    assert (waits.state, waits.why) == (SlotState.LAUNCHED, SlotCause.STRANGER)
    assert waits.reason


LONG_AGO = NOW - 5000
"""When the cloud says that it was launched: long before a join would have been given up."""


@pytest.mark.parametrize("state", [SlotState.RECLAIMING, SlotState.TERMINATING])
@pytest.mark.parametrize(
    ("launched_at", "joined_at", "spared"),
    [
        pytest.param(LONG_AGO, LONG_AGO + 100, True, id="since the launch"),
        pytest.param(LONG_AGO, LONG_AGO - 100, False, id="before the launch"),
        pytest.param(0, NOW - 500, True, id="within the time of a join"),
        pytest.param(0, NOW - 1000, False, id="before that time"),
    ],
)
def test_no_machine_is_terminated_whose_node_may_be_one_that_came_since_its_launch(
    state: SlotState, launched_at: int, joined_at: int, spared: bool
) -> None:
    slot = make_slot(
        state=state, instance_id="i-a9", since=NOW - 90, terminated=state is SlotState.TERMINATING
    )
    stranger = make_node("stranger", provider_id="", private_ip="", created_at=joined_at)
    instance = make_instance("i-a9", key=slot.key, launched_at=launched_at)
    after, effects = advance_slot(slot, make_situation(make_snapshot([stranger], instances=[instance])))
    assert (after.state is slot.state and effects == ()) == spared


def test_a_node_that_is_not_ready_does_not_contradict_that_its_machine_is_gone() -> None:
    missing = replace(TERMINATING, missing_since=NOW)
    for ready, state in ((True, SlotState.TERMINATING), (False, SlotState.RECLAIMED)):
        node = make_node("a1", instance_id="i-a1", provider_id="", ready=ready)
        view = ClusterView((*OTHERS, node))
        snapshot = replace(seen(state=None), cluster=view)
        after, _ = advance_slot(missing, make_situation(snapshot, now=NOW + 60))
        assert after.state is state


def test_a_machine_that_went_away_says_when_and_why() -> None:
    went, _ = advance_slot(LAUNCHED, make_situation(seen(None, InstanceState.GONE), now=NOW + 40))
    assert (went.state, went.since, went.why) == (SlotState.RECLAIMED, NOW + 40, SlotCause.WENT_AWAY)
    assert went.reason


def test_only_what_could_not_be_terminated_is_handed_over() -> None:
    gone = replace(TERMINATING, state=SlotState.RECLAIMED)
    stuck = replace(TERMINATING, state=SlotState.FAILED, instance_id="i-a2")
    given_up = replace(RECLAIMING, state=SlotState.FAILED, instance_id="i-a3")
    assert [one.removal.instance_id for one in handed_over((gone, stuck, given_up), "op", NOW)] == ["i-a2"]
