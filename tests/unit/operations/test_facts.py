"""What is logged of operations: typed, with the operation's id, whatever the sentence says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import facts
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    SoftTaint,
    Terminate,
    Uncordon,
)
from ebbtide.model.events import (
    AlarmKind,
    DrainResult,
    EffectKind,
    Kept,
    OperationBegun,
    OperationClosed,
    OperationKind,
    PartKind,
    Transition,
)
from ebbtide.model.operation import (
    MoveState,
    RemovalState,
    SlotState,
    SourceState,
    Spot,
    SpotEnd,
    SpotKind,
)
from tests.builders import (
    NOW,
    make_consolidate,
    make_instance,
    make_move,
    make_pod,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_source,
    make_spot,
)

LAUNCH = Launch(make_slot("op-0"), "op")


@pytest.mark.parametrize(
    ("effect", "kind", "name", "instance_id"),
    [
        (LAUNCH, EffectKind.LAUNCH, "op-0", ""),
        (Terminate("i-a1", "a1", "uid-a1", "op"), EffectKind.TERMINATE, "i-a1", "i-a1"),
        (Evict("default", "web", "uid", "a1", 30), EffectKind.EVICT, "a1", ""),
        (DeleteNode("a1", "uid-a1"), EffectKind.DELETE_NODE, "a1", ""),
        (Cordon("a1", "uid-a1", "op"), EffectKind.CORDON, "a1", ""),
        (Uncordon("a1", "uid-a1", "op"), EffectKind.UNCORDON, "a1", ""),
        (SoftTaint("a1", "uid-a1", "op"), EffectKind.SOFT_TAINT, "a1", ""),
    ],
)
def test_every_effect_says_what_was_done_to_what_for_which_operation(
    effect: Effect, kind: EffectKind, name: str, instance_id: str
) -> None:
    fact = facts.effect_done(Outcome(effect, OutcomeKind.LATER, "busy"), make_scale_down(make_removal()))
    assert (fact.operation_id, fact.operation) == ("op", OperationKind.SCALE_DOWN)
    assert (fact.effect, fact.name, fact.instance_id) == (kind, name, instance_id)
    assert (fact.outcome, fact.detail) == (OutcomeKind.LATER, "busy")
    assert fact.pod == ("default/web" if kind is EffectKind.EVICT else "")


def test_a_launch_says_its_offer_and_the_instance_that_it_made() -> None:
    fact = facts.effect_done(
        Outcome(LAUNCH, OutcomeKind.DONE, instance=make_instance("i-b9")), make_scale_up()
    )
    assert (fact.instance_id, fact.instance_type, fact.market, fact.zone) == (
        "i-b9",
        "small",
        "on-demand",
        "a",
    )


def test_each_change_of_state_is_one_fact_and_the_end_of_a_drain_is_told_apart() -> None:
    before = make_scale_down(make_removal("a1", state=RemovalState.DRAINING), make_removal("a2"))
    blocked = make_removal("a1", state=RemovalState.PLANNED, reason="a bare pod", attempts=2)
    (fact,) = facts.transitions(before, make_scale_down(blocked, make_removal("a2")))
    assert fact == DrainResult(
        operation_id="op",
        operation=OperationKind.SCALE_DOWN,
        part=PartKind.REMOVAL,
        name="a1",
        before="DRAINING",
        after="PLANNED",
        reason="a bare pod",
        instance_id="i-a1",
        node_name="a1",
        attempts=2,
    )


def test_a_move_is_told_with_the_node_that_it_leaves() -> None:
    pod = make_pod("web-1", node_name="a1")
    before = make_consolidate([make_source("a1")], [make_move(pod)])
    after = replace(before, moves=(replace(before.moves[0], state=MoveState.EVICTING),))
    assert list(facts.transitions(before, after)) == [
        Transition(
            operation_id="op",
            operation=OperationKind.CONSOLIDATION,
            part=PartKind.MOVE,
            name="default/web-1",
            before="PLANNED",
            after="EVICTING",
            node_name="a1",
        )
    ]


def test_the_emptying_of_a_node_is_told_with_its_instance() -> None:
    before = make_consolidate([make_source("a1")], [])
    (fact,) = facts.transitions(before, make_consolidate([make_source("a1", state=SourceState.MARKED)], []))
    assert (fact.part, fact.name, fact.instance_id, fact.after) == (PartKind.EMPTYING, "a1", "i-a1", "MARKED")


def test_slots_are_told_apart_and_followed_through_their_offers_whatever_letters_their_keys_hold() -> None:
    keys = ("17-rarer-0", "17-rarer-1")
    before = make_scale_up(*(make_slot(key, state=SlotState.LAUNCHING) for key in keys))
    refused = replace(before.slots[0], key="17-rarer-0r1", state=SlotState.RESERVED, refused=("a/x/y",))
    after = replace(before, slots=(refused, replace(before.slots[1], state=SlotState.FAILED)))
    assert [(fact.name, fact.before, fact.after) for fact in facts.transitions(before, after)] == [
        ("17-rarer-0r1", "LAUNCHING", "RESERVED"),
        ("17-rarer-1", "LAUNCHING", "FAILED"),
    ]
    assert [(fact.key, fact.pool) for fact in facts.transitions(before, after)] == [
        ("17-rarer-0", "workers"),
        ("17-rarer-1", "workers"),
    ]


def test_a_new_part_is_told_as_new() -> None:
    before, after = make_spot(), make_spot(removal=make_removal(), slot=make_slot("k"))
    assert [(fact.name, fact.before, fact.after, fact.part) for fact in facts.transitions(before, after)] == [
        ("a1", "new", "PLANNED", PartKind.REMOVAL),
        ("k", "new", "RESERVED", PartKind.LAUNCH),
    ]


def test_what_begins_says_how_much_of_what_and_for_which_decision() -> None:
    pod = make_pod("web-1", node_name="a1")
    work = make_consolidate([make_source("a1")], [make_move(pod)], slots=(make_slot(),), reason="cheaper")
    decision = Decision("d-1", NOW, Action.CONSOLIDATE, "cheaper", ())
    assert facts.started(decision, work) == OperationBegun(
        operation_id="op",
        operation=OperationKind.CONSOLIDATION,
        action="consolidate",
        decision_id="d-1",
        launches=1,
        nodes=("a1",),
        moves=1,
        reason="cheaper",
    )


def test_a_scale_down_that_ends_says_what_went_and_what_stays_and_why() -> None:
    kept = make_removal("a2", state=RemovalState.RELEASED, reason="it holds a bare pod")
    work = make_scale_down(make_removal("a1", state=RemovalState.GONE, attempts=1), kept)
    assert facts.closed(work, succeeded=True) == OperationClosed(
        operation_id="op",
        operation=OperationKind.SCALE_DOWN,
        succeeded=True,
        started_at=work.started_at,
        removed=("a1",),
        kept=(Kept("a2", "it holds a bare pod"),),
    )


def test_a_scale_up_that_ends_says_what_is_ready_and_what_is_missing() -> None:
    ready = make_slot(state=SlotState.READY, node_name="a9")
    lost = make_slot("op-1", state=SlotState.FAILED, reason="no capacity anywhere")
    fact = facts.closed(make_scale_up(ready, lost), succeeded=True)
    assert (fact.ready, fact.kept) == (("a9",), (Kept("op-1", "no capacity anywhere"),))


def test_a_consolidation_that_ends_says_what_was_moved_and_emptied() -> None:
    pod = make_pod("web-1", node_name="a1")
    sources = [make_source("a1", state=SourceState.EMPTIED), make_source("a2", state=SourceState.RELEASED)]
    work = make_consolidate(sources, [make_move(pod, state=MoveState.MOVED)], abort_reason="paused")
    fact = facts.closed(work, succeeded=False)
    assert (fact.emptied, fact.moved, fact.abort_reason) == (("a1",), 1, "paused")
    assert [one.name for one in fact.kept] == ["a2"]


@pytest.mark.parametrize("kind", list(SpotKind))
def test_the_answer_to_a_notice_says_how_it_ended(kind: SpotKind) -> None:
    work: Spot = make_spot(
        kind=kind, removal=make_removal(state=RemovalState.GONE, attempts=1), closing=SpotEnd.LAPSED
    )
    fact = facts.closed(work, True, "paused")
    assert (fact.operation.value, fact.instance_id) == (kind.value, "i-a1")
    assert (fact.end, fact.reason, fact.removed) == (SpotEnd.LAPSED, "paused", ("a1",))


def test_what_has_no_node_yet_has_the_name_of_its_instance() -> None:
    before = make_scale_down(replace(make_removal("a1"), node_name=""))
    after = replace(before, removals=(replace(before.removals[0], state=RemovalState.RELEASED),))
    assert [changed.name for changed in facts.transitions(before, after)] == ["i-a1"]
    stuck = make_scale_up(make_slot(state=SlotState.FAILED, instance_id="i-b9"))
    assert [kept.name for kept in facts.closed(stuck, False).kept] == ["i-b9"]


def test_moves_are_told_apart_by_their_pods() -> None:
    first, second = (make_move(make_pod(name, node_name="a1")) for name in ("one", "two"))
    evicting = replace(second, state=MoveState.EVICTING)
    before = make_consolidate([make_source("a1")], [first, evicting])
    after = replace(before, moves=(replace(first, state=MoveState.EVICTING), evicting))
    told = [(changed.name, changed.before) for changed in facts.transitions(before, after)]
    assert told == [(first.pod_name, MoveState.PLANNED)]


def test_only_pods_that_have_moved_are_counted() -> None:
    moved, left = (make_move(make_pod(name, node_name="a1")) for name in ("one", "two"))
    operation = make_consolidate(
        [make_source("a1", state=SourceState.EMPTIED)],
        [replace(moved, state=MoveState.MOVED), replace(left, state=MoveState.LEFT)],
        slots=(make_slot(state=SlotState.READY),),
    )
    assert facts.closed(operation, True).moved == 1


def test_a_cloud_that_refuses_to_terminate_raises_one_alarm() -> None:
    terminating = make_removal("a1", state=RemovalState.TERMINATING)
    before = make_scale_down(terminating, make_removal("a2"), replacements=(make_slot(),))
    refusing = replace(before.removals[0], refused_since=NOW, reason="not allowed")
    after = replace(before, removals=(refusing, before.removals[1]))
    ((about, alarm),) = facts.alarms(before, after)
    assert (about, alarm.alarm, alarm.operation_id) == ("i-a1", AlarmKind.TERMINATE_REFUSED, "op")
    assert list(facts.alarms(after, after)) == []


def test_launches_are_told_apart_by_their_keys_and_named_by_what_is_known_of_them() -> None:
    asked, waits = make_slot("op-0"), make_slot("op-1", state=SlotState.LAUNCHED, instance_id="i-b2")
    known = replace(asked, state=SlotState.LAUNCHED, instance_id="i-b1")
    told = list(facts.transitions(make_scale_up(asked, waits), make_scale_up(known, waits)))
    assert {changed.operation for changed in told} == {OperationKind.SCALE_UP}
    assert [(changed.name, changed.before) for changed in told] == [("i-b1", SlotState.RESERVED)]


def test_only_the_end_of_a_drain_is_told_as_one() -> None:
    planned = make_scale_down(make_removal("a1"))
    draining, drained = (
        replace(planned, removals=(replace(planned.removals[0], state=state, attempts=1),))
        for state in (RemovalState.DRAINING, RemovalState.DRAINED)
    )
    (begun,), (ended,) = facts.transitions(planned, draining), facts.transitions(draining, drained)
    assert type(begun) is Transition
    assert isinstance(ended, DrainResult)
    assert ended.attempts == 1
