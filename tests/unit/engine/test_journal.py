"""Decisions in the log, read back to be computed again."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.engine.journal import decide_again, decision_entry, read_decision, read_inputs
from ebbtide.errors import StoreUnusable, Usage
from ebbtide.model.check import Values
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import Inputs
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import ScaleDown, ScaleUp
from tests.builders import (
    NOW,
    asides,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_spot,
)
from tests.unit.engine.builders import Small


def test_a_stored_decision_can_be_read_back_and_computed_again() -> None:
    small = Small()
    report = small.tick()
    assert report.decision is not None
    assert report.decision.action is Action.SCALE_DOWN
    entry = small.store.find_entry(report.decision.id)
    assert entry is not None
    assert read_decision(entry) == report.decision
    inputs = read_inputs(entry)
    again = decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, entry.id)
    assert again == report.decision


def test_the_values_of_checks_are_stored_and_a_decision_stored_without_them_is_still_the_same() -> None:
    """Versions before checks had values stored sentences alone."""
    small = Small()
    decision = small.tick().decision
    assert decision is not None
    entry = small.store.find_entry(decision.id)
    assert entry is not None
    assert values_in(read_decision(entry)) == values_in(decision)
    assert any(values_in(decision))
    data: dict[str, Any] = deepcopy(dict(entry.data))
    for verdict in data["decision"]["verdicts"]:
        for check in verdict["checks"]:
            del check["values"]
    stored, again = decide_again(replace(entry, data=data))
    assert not any(values_in(stored))
    assert stored == again == decision


def values_in(decision: Decision) -> list[Values | None]:
    return [check.values for verdict in decision.verdicts for check in verdict.checks]


def test_inputs_survive_even_when_what_is_derived_from_them_was_computed() -> None:
    small = Small()
    run = small.leased_run()
    inputs = Inputs(run.snapshot, run.record, run.settings, run.now)
    decision = decide(run.snapshot, run.record, run.settings, run.now, "d")
    entry = decision_entry(decision, inputs)
    assert read_inputs(entry) == inputs
    assert (entry.id, entry.kind, entry.subject) == ("d", LogKind.DECISION, "d")


def test_a_decision_that_was_logged_without_its_inputs_can_be_read_and_not_computed_again() -> None:
    """As a simulation writes it; nothing in the log is broken."""
    decision = Small().tick().decision
    assert decision is not None
    entry = decision_entry(decision, None)
    assert read_decision(entry) == decision
    with pytest.raises(Usage) as refused:
        read_inputs(entry)
    assert not isinstance(refused.value, StoreUnusable)


@pytest.mark.parametrize("work", [make_scale_up(make_slot()), make_scale_down(make_removal())])
def test_inputs_survive_with_an_operation_of_either_kind_in_the_record(work: ScaleUp | ScaleDown) -> None:
    run = Small().leased_run()
    record = replace(run.record, **asides(work), spots=(make_spot(removal=make_removal()),))
    inputs = Inputs(run.snapshot, record, run.settings, run.now)
    decision = decide(run.snapshot, record, run.settings, run.now, "d")
    assert read_inputs(decision_entry(decision, inputs)) == inputs


def stored(record_data: dict[str, Any]) -> LogEntry:
    run = Small().leased_run()
    decision = decide(run.snapshot, run.record, run.settings, run.now, "d")
    entry = decision_entry(decision, Inputs(run.snapshot, run.record, run.settings, run.now))
    data: dict[str, Any] = deepcopy(dict(entry.data))
    data["inputs"]["record"] |= record_data
    return replace(entry, data=data)


def as_data(work: ScaleUp | ScaleDown) -> dict[str, Any]:
    """As an entry of the log holds it."""
    run = Small().leased_run()
    record = replace(run.record, **asides(work))
    decision = decide(run.snapshot, run.record, run.settings, run.now, "d")
    entry = decision_entry(decision, Inputs(run.snapshot, record, run.settings, run.now))
    inputs: Any = entry.data["inputs"]
    data: dict[str, Any] = inputs["record"]["launching_aside"] or inputs["record"]["removing_aside"]
    return data


def test_what_a_newer_version_added_to_a_record_is_skipped() -> None:
    assert read_inputs(stored({"added_later": 1})).record == read_inputs(stored({})).record


@pytest.mark.parametrize("work", [make_scale_up(make_slot()), make_scale_down(make_removal())])
def test_a_record_from_before_there_were_two_lanes_is_read_into_them(work: ScaleUp | ScaleDown) -> None:
    data = as_data(work)
    found = read_inputs(stored({"operation": data, "set_aside": None})).record
    assert work in (found.launching, found.removing)
    assert (found.launching_aside, found.removing_aside) == (None, None)
    found = read_inputs(stored({"operation": None, "set_aside": data})).record
    aside = found.launching_aside if isinstance(work, ScaleUp) else found.removing_aside
    assert aside == work
    assert (found.launching, found.removing) == (None, None)


def test_a_decision_that_cannot_be_read_is_left_as_it_was_and_says_so() -> None:
    entry = stored({})
    broken = replace(entry, data={**entry.data, "decision": {"id": 3}})
    with pytest.raises(StoreUnusable, match="the decision d cannot be read"):
        read_decision(broken)


def test_an_entry_that_is_no_decision_says_so() -> None:
    alarm = LogEntry("x-1", NOW, LogKind.ALARM, "smoke")
    for read in (read_decision, read_inputs):
        with pytest.raises(Usage, match="x-1 is not a decision but alarm"):
            read(alarm)
    with pytest.raises(Usage):
        read_inputs(replace(alarm, kind=LogKind.DECISION))
    with pytest.raises(Usage):
        read_inputs(replace(stored({}), kind=LogKind.ALARM))
