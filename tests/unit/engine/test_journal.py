"""What the log says, and decisions read back so that they can be computed again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.decide import decide
from ebbtide.engine import journal
from ebbtide.engine.journal import Inputs, decision_entry, read_decision, read_inputs
from ebbtide.errors import Usage
from ebbtide.model.decision import Action
from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    Terminate,
    Uncordon,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, ScaleDown, ScaleUp, SlotState
from tests.builders import (
    NOW,
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


def test_inputs_survive_even_when_what_is_derived_from_them_was_computed() -> None:
    small = Small()
    hold = small.hold()
    inputs = Inputs(hold.snapshot, hold.record, hold.settings, hold.now)
    decision = decide(hold.snapshot, hold.record, hold.settings, hold.now, "d")
    entry = decision_entry(decision, inputs)
    assert read_inputs(entry) == inputs
    assert (entry.id, entry.kind, entry.subject) == ("d", LogKind.DECISION, "d")


@pytest.mark.parametrize("work", [make_scale_up(make_slot()), make_scale_down(make_removal())])
def test_inputs_survive_with_an_operation_of_either_kind_in_the_record(work: ScaleUp | ScaleDown) -> None:
    hold = Small().hold()
    record = replace(hold.record, set_aside=work, spots=(make_spot(removal=make_removal()),))
    inputs = Inputs(hold.snapshot, record, hold.settings, hold.now)
    decision = decide(hold.snapshot, record, hold.settings, hold.now, "d")
    assert read_inputs(decision_entry(decision, inputs)) == inputs


def test_an_entry_that_is_no_decision_says_so() -> None:
    alarm = LogEntry("x-1", NOW, LogKind.ALARM, "smoke")
    for read in (read_decision, read_inputs):
        with pytest.raises(Usage, match="x-1 is no decision but alarm"):
            read(alarm)
    with pytest.raises(Usage):
        read_inputs(replace(alarm, kind=LogKind.DECISION))


@pytest.mark.parametrize(
    ("effect", "name", "subject"),
    [
        (Launch(make_slot("op-0"), "op"), "launch op-0 (small, on-demand, a)", "op-0"),
        (Terminate("i-a1", "a1", "uid-a1", "op"), "terminate i-a1", "i-a1"),
        (Evict("default", "web", "uid", "a1", 30), "evict default/web from a1", "a1"),
        (DeleteNode("a1", "uid-a1"), "delete node a1", "a1"),
        (Cordon("a1", "uid-a1", "op"), "cordon a1", "a1"),
        (Uncordon("a1", "uid-a1", "op"), "uncordon a1", "a1"),
    ],
)
def test_every_effect_has_a_name_and_a_subject(effect: Effect, name: str, subject: str) -> None:
    assert journal.effect_subject(effect) == subject
    assert journal.told(Outcome(effect, OutcomeKind.DONE)) == f"{name}: done"
    assert journal.told(Outcome(effect, OutcomeKind.LATER, "busy")) == f"{name}: later (busy)"


def test_each_change_of_state_is_one_sentence_and_the_end_of_a_drain_is_told_apart() -> None:
    before = make_scale_down(make_removal("a1", state=RemovalState.DRAINING), make_removal("a2"))
    after = make_scale_down(
        make_removal("a1", state=RemovalState.PLANNED, reason="a bare pod"), make_removal("a2")
    )
    assert list(journal.transitions(before, after)) == [
        (LogKind.DRAIN_RESULT, "a1", "a1 DRAINING -> PLANNED: a bare pod")
    ]


def test_slots_are_told_apart_and_followed_through_their_offers_whatever_letters_their_keys_hold() -> None:
    keys = ("17-rarer-0", "17-rarer-1")
    before = make_scale_up(*(make_slot(key, state=SlotState.LAUNCHING) for key in keys))
    refused = replace(before.slots[0], key="17-rarer-0r1", state=SlotState.RESERVED, refused=("a/x/y",))
    after = replace(before, slots=(refused, replace(before.slots[1], state=SlotState.FAILED)))
    assert [says for _, _, says in journal.transitions(before, after)] == [
        "17-rarer-0r1 LAUNCHING -> RESERVED",
        "17-rarer-1 LAUNCHING -> FAILED",
    ]


def test_a_new_part_is_told_as_new() -> None:
    before, after = make_spot(), make_spot(removal=make_removal(), slot=make_slot("k"))
    assert [says for _, _, says in journal.transitions(before, after)] == [
        "a1 new -> PLANNED",
        "k new -> RESERVED",
    ]


def test_an_operation_that_does_not_move_says_what_it_waits_for() -> None:
    work = make_scale_up(
        make_slot(state=SlotState.LAUNCHED, instance_id="i-9"), make_slot("op-1", reason="throttled")
    )
    assert journal.waits(work) == "op goes on: i-9 LAUNCHED, op-1 RESERVED (throttled)"
