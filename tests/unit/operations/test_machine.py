"""One face for the four machines."""

from __future__ import annotations

import pytest

from ebbtide.core.operations import machine
from ebbtide.core.operations.machine import Work
from ebbtide.model.effect import Breach, Outcome, OutcomeKind, Terminate
from ebbtide.model.operation import RemovalState, SlotState, SourceState, SpotEnd
from tests.builders import (
    NOW,
    make_consolidate,
    make_node,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_source,
    make_spot,
)
from tests.unit.operations.builders import breaches, fleet, make_situation, with_work

UP = make_scale_up(make_slot())
DOWN = make_scale_down(make_removal())
MOVING = make_consolidate([make_source("a1")], [])
SPOT = make_spot()
ENDED: list[Work] = [
    make_scale_up(make_slot(state=SlotState.FAILED, reason="none left")),
    make_scale_down(make_removal(state=RemovalState.GONE)),
    make_consolidate([make_source("a1", state=SourceState.EMPTIED)], []),
    make_spot(closing=SpotEnd.ANSWERED),
]


@pytest.mark.parametrize("work", [UP, DOWN, MOVING, SPOT], ids=["up", "down", "moving", "spot"])
def test_any_work_is_advanced_written_and_keeps_its_invariants(work: Work) -> None:
    situation = make_situation(fleet(make_node("a1")), record=with_work(work))
    step = machine.advance(work, situation)
    assert step.state != work
    assert breaches(machine.check_invariants(work, step.state)) == []
    assert not machine.is_settled(step.state)
    written = machine.written(situation.record, step.state)
    assert step.state in (written.operation, *written.spots)
    nothing = Outcome(Terminate("i-else", "", "", "other"), OutcomeKind.DONE)
    assert machine.absorb(step.state, [nothing], situation) == step.state


@pytest.mark.parametrize("work", ENDED, ids=["up", "down", "moving", "spot"])
def test_any_work_that_is_settled_is_closed_out_of_the_record(work: Work) -> None:
    assert machine.is_settled(work)
    closed = machine.close(work, make_situation(record=with_work(work), now=NOW))
    assert (closed.record.operation, closed.record.spots) == (None, ())


def test_work_never_changes_its_kind() -> None:
    assert breaches(machine.check_invariants(UP, DOWN)) == [(Breach.IDENTITY, "op")]
    assert breaches(machine.check_invariants(SPOT, UP)) == [(Breach.IDENTITY, "spot:i-a1")]


def test_only_its_own_place_in_the_record_is_written() -> None:
    other = make_spot("b1")
    record = make_record(operation=DOWN, spots=(other, SPOT))
    assert machine.written(record, UP).spots == record.spots
    changed = make_spot(closing=SpotEnd.ANSWERED)
    assert machine.written(record, changed) == make_record(operation=DOWN, spots=(other, changed))
