"""The edges of a consolidation: whose pod, whose mark, which answer, and what is not counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import consolidate, machine, moves
from ebbtide.model.effect import Breach, Evict, Launch, Outcome, OutcomeKind, SoftTaint, Uncordon
from ebbtide.model.operation import AbortCause, MoveState, SlotState, SourceState
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import DrainBackoff
from ebbtide.model.snapshot import Node, Ownership
from tests.builders import (
    NOW,
    make_budget,
    make_consolidate,
    make_move,
    make_node,
    make_pod,
    make_settings,
    make_slot,
    make_snapshot,
    make_source,
)
from tests.unit.operations.builders import MINUTE, breaches, make_situation
from tests.unit.operations.test_consolidate import MARKED, OTHERS, at, evicting, planned, pods_of, seen

LONG = make_settings().consolidation.move_timeout_seconds
MARKED_SOURCE = make_source("a1", state=SourceState.MARKED)
FULL = tuple(make_pod(f"full-{node.name}", 3500, node_name=node.name) for node in OTHERS)


def large(pod: Pod) -> Pod:
    return replace(pod, requests=replace(pod.requests, cpu_milli=3000))


def evicted(step: object) -> list[str]:
    return [effect.name for effect in step.effects if isinstance(effect, Evict)]  # type: ignore[attr-defined]


def test_the_last_new_node_is_written_as_ready_before_anything_is_marked() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.JOINED, instance_id="i-b1", node_name="b1")
    operation = make_consolidate([make_source("a1")], [make_move(pod, "op-0")], slots=(slot,))
    step = consolidate.advance(operation, at(seen(pod, source=make_node("a1")), operation))
    assert (step.state.slots[0].state, step.state.sources, step.effects) == (
        SlotState.READY,
        operation.sources,
        (),
    )


def test_a_launch_that_is_refused_is_told_as_that_and_not_as_a_no_of_the_cluster() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.LAUNCHING)
    operation = make_consolidate([make_source("a1")], [make_move(pod, "op-0")], slots=(slot,))
    situation = at(seen(pod, source=make_node("a1")), operation)
    refused = Outcome(Launch(slot, "op"), OutcomeKind.REFUSED, "no such type")
    after = consolidate.absorb(operation, [refused], situation)
    assert (after.abort_cause, after.slots[0].state) == (AbortCause.NONE, SlotState.FAILED)
    assert consolidate.advance(after, situation).state.abort_cause is AbortCause.NO_NODE


def test_why_an_eviction_is_put_off_is_told_of_its_own_pod_alone() -> None:
    first, second = pods_of("one", "two")
    left = make_move(second, state=MoveState.LEFT, reason="before")
    operation = replace(planned(first, second), moves=(evicting(first), evicting(second)))
    situation = at(seen(first, second), operation)
    put_off = Outcome(moves.eviction(first), OutcomeKind.LATER, "the budget is used up")
    after = consolidate.absorb(operation, [put_off], situation)
    assert [move.reason for move in after.moves] == [put_off.detail, ""]
    marked = Outcome(SoftTaint("a1", "uid-a1", "op"), OutcomeKind.LATER, "throttled")
    assert consolidate.absorb(operation, [marked], situation) == operation
    over = replace(operation, moves=(evicting(first), left))
    late = Outcome(moves.eviction(second), OutcomeKind.LATER, "the budget is used up")
    assert consolidate.absorb(over, [late], situation) == over


def test_a_machine_that_could_not_be_reclaimed_rests_after_its_consolidation() -> None:
    (pod,) = pods_of("web")
    stuck = make_slot("op-0", state=SlotState.FAILED, instance_id="i-b9", reason="it does not go")
    operation = replace(
        planned(pod, slots=(stuck,)),
        abort_reason="a node did not come",
        sources=(make_source("a1", state=SourceState.RELEASED),),
        moves=(make_move(pod, state=MoveState.LEFT),),
    )
    closed = machine.close(operation, at(seen(pod), operation))
    until = NOW + make_settings().node_rest_seconds
    assert closed.record.rests == (DrainBackoff("i-b9", until, "it does not go"),)


def test_an_abort_may_be_written_once_and_leaves_what_was_evicted_before_it() -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    aborted = replace(operation, abort_reason="load is back", abort_cause=AbortCause.LOAD)
    assert breaches(machine.check_invariants(operation, aborted)) == []
    assert breaches(machine.check_invariants(aborted, replace(aborted, abort_reason=""))) == [
        (Breach.TAKEN_BACK, "op")
    ]


def test_what_is_over_takes_no_room_from_what_is_still_to_move() -> None:
    """Its pod may be listed again: an old list had left it out."""
    first, second = map(large, pods_of("one", "two"))
    room = (FULL[0],)
    operation = replace(planned(second), moves=(make_move(first, state=MoveState.LEFT), make_move(second)))
    step = moves.next_moves(operation, at(seen(first, second, *room), operation))
    assert [pod.name for _, pod in step.started] == [second.name]


def test_a_pod_without_room_forbids_the_rest_although_another_is_over_already() -> None:
    first, second = map(large, pods_of("one", "two"))
    operation = replace(planned(second), moves=(make_move(first, state=MoveState.LEFT), make_move(second)))
    stop = moves.next_moves(operation, at(seen(second, *FULL), operation)).forbids
    assert stop is not None
    assert stop.cause is AbortCause.NO_ROOM


def test_a_pod_that_ends_by_itself_needs_no_room() -> None:
    (pod,) = map(large, pods_of("web"))
    operation = planned(pod)
    ending = replace(pod, terminating=True, ready=False)
    following = moves.next_moves(operation, at(seen(ending, *FULL), operation))
    assert (following.forbids, following.started) == (None, ())


def test_while_one_is_on_its_way_another_is_not_evicted_again() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first), evicting(second)))
    ending = seen(replace(first, terminating=True, ready=False), second)
    following = moves.next_moves(operation, at(ending, operation))
    assert following.started == ()
    assert following.waits


def test_at_the_limit_of_an_hour_it_is_said_that_this_is_waited_for() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    limit = make_settings().consolidation.moves_allowed(1)
    following = moves.next_moves(operation, at(seen(pod), operation, evictions=(NOW - 60,) * limit))
    assert following.started == ()
    assert following.waits
    first, second = pods_of("one", "two")
    operation = planned(first, second)
    one_left = at(seen(first, second), operation, evictions=(NOW - 60,) * (limit - 1))
    assert len(moves.next_moves(operation, one_left).started) == 1


def test_a_move_begins_when_it_is_asked_for_and_for_the_controller_that_the_pod_has_by_then() -> None:
    (pod,) = pods_of("new")
    move = make_move(pod, owner_uid="old", since=NOW - 500)
    operation = make_consolidate([MARKED_SOURCE], [move])
    ending = replace(pod, uid="e", name="ending", node_name="b1", terminating=True)
    ((started, _),) = moves.next_moves(operation, at(seen(pod, ending), operation)).started
    assert (started.owner_uid, started.since, started.state) == ("new", NOW, MoveState.EVICTING)
    assert started.owner_ready == 1, "one that is ending is ready for nobody"


def test_what_is_over_does_not_end_the_list_of_what_may_go_next() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(make_move(first, state=MoveState.MOVED), make_move(second)))
    assert evicted(consolidate.advance(operation, at(seen(second), operation))) == [second.name]


def test_pods_of_others_that_fit_nowhere_do_not_end_a_move_on_its_way() -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    strange = make_pod("strange", 9000, owner_uid="other", phase=PodPhase.PENDING, ready=False)
    assert moves.why_stop(operation, at(seen(strange), operation)) is None
    own = replace(strange, owner_uid="web")
    stop = moves.why_stop(operation, at(seen(own), operation))
    assert stop is not None
    assert stop.cause is AbortCause.NO_ROOM


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(OTHERS, id="not there"),
        pytest.param((replace(MARKED, uid="another"), *OTHERS), id="another"),
        pytest.param((replace(MARKED, control_plane=True), *OTHERS), id="no worker any more"),
    ],
)
def test_a_source_is_seen_only_while_it_is_the_same_worker(nodes: tuple[Node, ...]) -> None:
    assert moves.observed_node(MARKED_SOURCE, make_situation(make_snapshot(nodes))) is None


def test_a_source_is_seen_only_while_its_instance_is_listed() -> None:
    snapshot = make_snapshot((MARKED, *OTHERS))
    assert moves.observed_node(MARKED_SOURCE, make_situation(snapshot)) == MARKED
    assert moves.observed_node(MARKED_SOURCE, make_situation(replace(snapshot, instances=()))) is None


def test_a_mark_that_is_seen_before_it_was_written_is_written_all_the_same() -> None:
    source, effects = moves.mark(make_source("a1"), "op", make_situation(seen()))
    assert source.state is SourceState.MARKED
    assert effects == (SoftTaint("a1", "uid-a1", "op"),)
    assert source.fence_until == NOW + MINUTE, "what is sent under this token is waited for"
    assert moves.mark(source, "op", make_situation(seen())) == (source, ())


def test_a_mark_is_asked_for_while_its_node_is_not_listed() -> None:
    _, effects = moves.mark(MARKED_SOURCE, "op", make_situation(make_snapshot(OTHERS)))
    assert effects == (SoftTaint("a1", "uid-a1", "op"),)


def test_only_a_marked_node_becomes_empty() -> None:
    for state in SourceState:
        source = make_source("a1", state=state)
        after = moves.emptied(source, make_situation(seen()))
        assert (after.state is SourceState.EMPTIED) == (state in (SourceState.MARKED, SourceState.EMPTIED))


def test_evictions_move_the_fence_of_their_source() -> None:
    fenced = moves.fence(MARKED_SOURCE, make_situation(seen()))
    assert (fenced.fence_token, fenced.fence_until) == (5, NOW + MINUTE)


@pytest.mark.parametrize("owner", [None, Ownership("another", 4, cordoned=True)])
def test_a_mark_that_is_not_ours_is_not_lifted(owner: Ownership | None) -> None:
    releasing = make_source("a1", state=SourceState.RELEASING, reason="given up")
    theirs = seen(source=make_node("a1", owner=owner))
    after, effects = moves.advance_release(releasing, "op", make_situation(theirs))
    assert (after.state, after.reason, effects) == (SourceState.RELEASED, "given up", ())


def test_only_a_source_that_is_being_given_back_is_let_go_by_a_refusal() -> None:
    refused = Outcome(Uncordon("a1", "uid-a1", "op", 5), OutcomeKind.REFUSED, "it is another's")
    situation = make_situation(seen())
    assert moves.absorb_source(MARKED_SOURCE, refused, situation) == MARKED_SOURCE
    releasing = replace(MARKED_SOURCE, state=SourceState.RELEASING)
    assert moves.absorb_source(releasing, refused, situation).state is SourceState.RELEASED


def test_a_consolidation_that_waits_for_its_nodes_is_not_stuck() -> None:
    """No source is marked yet, so nothing could be moved, however long the machines take."""
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.LAUNCHED, instance_id="i-b9", since=NOW)
    old = NOW - LONG - 1
    operation = make_consolidate(
        [make_source("a1", since=old)], [make_move(pod, "op-0", since=old)], slots=(slot,)
    )
    snapshot = seen(pod, source=make_node("a1"), budgets=[make_budget(0)])
    step = consolidate.advance(operation, at(snapshot, operation))
    assert step.state.abort_cause is AbortCause.NONE


def test_a_hard_no_ends_it_although_the_mark_is_not_seen() -> None:
    """Asked for again and again, a mark that never shows would hide why nothing is moved."""
    (pod,) = pods_of("web")
    operation = planned(replace(pod, do_not_disrupt=True))
    snapshot = seen(replace(pod, do_not_disrupt=True), source=make_node("a1"), now=NOW + LONG)
    step = consolidate.advance(operation, at(snapshot, operation, NOW + LONG))
    assert step.state.abort_cause is AbortCause.OTHER


def test_a_new_node_that_is_being_terminated_will_not_come() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.TERMINATING, terminated=True, instance_id="i-b9")
    operation = make_consolidate([make_source("a1")], [make_move(pod, "op-0")], slots=(slot,))
    step = consolidate.advance(operation, at(seen(pod, source=make_node("a1")), operation))
    assert step.state.abort_cause is AbortCause.NO_NODE


def test_one_new_node_of_two_is_not_enough_to_move_a_pod() -> None:
    (pod,) = pods_of("web")
    slots = (make_slot("op-0", state=SlotState.READY), make_slot("op-1", state=SlotState.JOINED))
    before = planned(pod, slots=slots)
    after = replace(before, moves=(evicting(pod),))
    assert breaches(machine.check_invariants(before, after)) == [(Breach.TOO_EARLY, pod.full_name)]
    ready = replace(slots[1], state=SlotState.READY)
    both = replace(before, slots=(slots[0], ready)), replace(after, slots=(slots[0], ready))
    assert breaches(machine.check_invariants(*both)) == []
