"""A consolidation that must stop: nothing more is moved, and nothing is forced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.operations import consolidate, machine, moves
from ebbtide.core.words import a_while
from ebbtide.model.effect import Evict, Launch, Outcome, OutcomeKind, SoftTaint
from ebbtide.model.operation import AbortCause, Consolidate, MoveState, SlotState, SourceState
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import EmptiedNode, Record
from ebbtide.model.snapshot import InstanceState, Ownership, Reading, Snapshot
from tests.builders import (
    NOW,
    lanes,
    make_budget,
    make_consolidate,
    make_move,
    make_node,
    make_pod,
    make_scale_down,
    make_settings,
    make_slot,
    make_source,
    make_spot,
)
from tests.unit.operations.builders import make_situation, with_instance
from tests.unit.operations.test_consolidate import MARKED, at, evicting, planned, pods_of, seen

LONG = make_settings().consolidation.move_timeout_seconds
PLAIN_SOURCE = make_node("a1")


def stopped(operation: Consolidate, snapshot: Snapshot, now: int = NOW, **record: object) -> Consolidate:
    """The operation after one step, which asks for nothing."""
    step = consolidate.advance(operation, at(snapshot, operation, now, **record))
    assert step.effects == ()
    return step.state


@pytest.mark.parametrize(
    ("record", "cause"),
    [
        ({"paused": True}, AbortCause.PAUSED),
        ({"set_aside": make_scale_down()}, AbortCause.PAUSED),
        ({"spots": (make_spot("b1"),)}, AbortCause.SPOT),
        ({"pending_since": NOW - 180}, AbortCause.PODS_WAITING),
    ],
)
def test_what_cannot_wait_stops_it_at_once(record: dict[str, Any], cause: AbortCause) -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first), make_move(second)))
    after = stopped(operation, seen(second), **record)
    assert after.abort_cause is cause
    assert [move.state for move in after.moves] == [MoveState.LEFT, MoveState.LEFT]
    assert (after.sources[0].state, after.sources[0].reason) == (SourceState.RELEASING, after.abort_reason)


def test_it_stops_at_once_where_consolidation_was_turned_off() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first), make_move(second)))
    situation = replace(at(seen(second), operation), settings=make_settings())
    step = consolidate.advance(operation, situation)
    assert (step.effects, step.state.abort_cause) == ((), AbortCause.NOT_ALLOWED)
    assert [move.state for move in step.state.moves] == [MoveState.LEFT, MoveState.LEFT]


def test_it_is_given_up_after_a_long_time() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod, started_at=NOW - 2700)
    assert stopped(operation, seen(pod)).abort_cause is AbortCause.TOO_LONG


def test_row_28_load_that_is_back_stops_it_at_once() -> None:
    (pod,) = pods_of("web")
    hot = replace(seen(pod), cpu=Reading(0.95, NOW))
    assert stopped(planned(pod), hot).abort_cause is AbortCause.LOAD
    warm = replace(seen(pod), cpu=Reading(0.70, NOW))
    step = consolidate.advance(planned(pod), at(warm, planned(pod)))
    assert step.state.abort_cause is AbortCause.NONE


def test_a_new_node_that_does_not_come_stops_it_before_anything_is_touched() -> None:
    (pod,) = pods_of("web")
    failed = make_slot("op-0", state=SlotState.FAILED, reason="no quota")
    other = make_slot("op-1")
    operation = make_consolidate([make_source("a1")], [make_move(pod)], slots=(failed, other))
    after = stopped(operation, seen(pod, source=PLAIN_SOURCE))
    assert after.abort_cause is AbortCause.NO_NODE
    assert (after.slots[1].state, after.sources[0].state) == (SlotState.FAILED, SourceState.RELEASED)
    closed = machine.close(after, at(seen(pod), after))
    assert not closed.succeeded
    assert closed.record.leaving == ()


def test_another_offer_than_the_planned_one_is_not_taken() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.LAUNCHING)
    operation = make_consolidate([make_source("a1")], [make_move(pod)], slots=(slot,))
    refused = Outcome(Launch(slot, "op"), OutcomeKind.NO_CAPACITY, "none left")
    situation = at(seen(pod, source=PLAIN_SOURCE), operation)
    after = consolidate.absorb(operation, [refused], situation)
    assert (after.slots[0].key, after.slots[0].state) == ("op-0r1", SlotState.RESERVED)
    assert stopped(after, seen(pod, source=PLAIN_SOURCE)).abort_cause is AbortCause.NO_NODE


def test_a_launch_in_progress_is_followed_to_its_end_after_the_abort() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.LAUNCHING)
    operation = make_consolidate([make_source("a1")], [make_move(pod)], slots=(slot,))
    after = stopped(operation, seen(pod, source=PLAIN_SOURCE), paused=True)
    assert after.slots[0].state is SlotState.LAUNCHING
    step = consolidate.advance(after, at(seen(pod, source=PLAIN_SOURCE), after))
    assert [type(effect) for effect in step.effects] == [Launch]
    assert not machine.is_settled(step.state)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (replace(MARKED, uid="another"), "a1 is no longer the same node"),
        (replace(MARKED, pool=""), "a1 is no longer the same node"),
        (replace(MARKED, unschedulable=True), "a1 was cordoned meanwhile"),
        (replace(MARKED, owner=Ownership("other", 1)), "a1 belongs to operation other"),
    ],
)
def test_a_source_that_changed_stops_it(source: object, says: str) -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    assert stopped(operation, seen(pod, source=source)).abort_reason == says  # type: ignore[arg-type]


def test_a_source_whose_instance_is_going_stops_it() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    going = with_instance(seen(pod), "i-a1", state=InstanceState.TERMINATING)
    assert stopped(operation, going).abort_cause is AbortCause.CHANGED


def test_a_pod_that_came_onto_a_source_stops_it_and_one_that_ends_does_not() -> None:
    pod, other = pods_of("web", "new")
    operation = planned(pod)
    assert stopped(operation, seen(pod, other)).abort_cause is AbortCause.CHANGED
    ending = consolidate.advance(operation, at(seen(pod, replace(other, terminating=True)), operation))
    assert ending.state.abort_cause is AbortCause.NONE


def test_what_happens_on_a_node_that_is_empty_already_does_not_stop_the_rest() -> None:
    pod, other = pods_of("web", "new")
    second = make_source("b1", state=SourceState.EMPTIED)
    operation = replace(planned(pod), sources=(*planned(pod).sources, second))
    step = consolidate.advance(operation, at(seen(pod, replace(other, node_name="b1")), operation))
    assert (step.state.abort_reason, len(step.effects)) == ("", 1)


def test_a_node_that_is_empty_already_does_not_hide_what_came_onto_the_next() -> None:
    pod, other = pods_of("web", "new")
    done = make_source("b1", state=SourceState.EMPTIED)
    operation = replace(planned(pod), sources=(done, *planned(pod).sources))
    assert stopped(operation, seen(pod, other)).abort_cause is AbortCause.CHANGED


def test_a_pod_that_is_not_ready_elsewhere_in_time_stops_it() -> None:
    pod, second = pods_of("web", "two")
    operation = replace(planned(pod), moves=(evicting(pod), make_move(second)))
    assert consolidate.advance(operation, at(seen(second), operation, NOW + LONG - 1)).state == operation
    after = stopped(operation, seen(second), NOW + LONG)
    assert after.abort_cause is AbortCause.NOT_READY


def test_a_pod_that_takes_too_long_to_end_stops_it() -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    ending = seen(replace(pod, terminating=True, ready=False))
    assert stopped(operation, ending, NOW + LONG).abort_cause is AbortCause.NOT_READY


def test_a_successor_that_fits_nowhere_stops_it_and_one_that_fits_is_waited_for() -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    new = make_pod("web-9", 9000, phase=PodPhase.PENDING, ready=False, owner_uid="web")
    assert stopped(operation, seen(new)).abort_cause is AbortCause.NO_ROOM
    small = replace(new, requests=replace(new.requests, cpu_milli=100))
    assert consolidate.advance(operation, at(seen(small), operation)).state == operation


def test_a_successor_does_not_fit_where_nodes_are_leaving() -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    new = make_pod("web-9", 100, phase=PodPhase.PENDING, ready=False, owner_uid="web")
    leaving = (EmptiedNode("a2", "uid-a2", "i-a2", "x", NOW + 9),)
    doomed = (make_spot("b1"),)
    after = stopped(operation, seen(new), leaving=leaving)
    assert after == operation
    record = Record(**lanes(operation), leaving=leaving, spots=doomed)
    situation = make_situation(seen(new), record=record)
    stop = moves.why_stop(operation, situation)
    assert stop is not None
    assert stop.cause is AbortCause.NO_ROOM


def test_room_that_is_gone_stops_it_before_the_eviction() -> None:
    pods = tuple(
        replace(pod, requests=replace(pod.requests, cpu_milli=3000)) for pod in pods_of("one", "two", "three")
    )
    operation = planned(*pods)
    assert stopped(operation, seen(*pods)).abort_cause is AbortCause.NO_ROOM


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"do_not_disrupt": True}, "default/web-0 is annotated do-not-disrupt"),
        (
            {"annotations": (("ebbtide.dev/plan", "reserved"), ("ebbtide.dev/tier", "small"))},
            "default/web-0 is on plan reserved; only payperplay and balanced are moved",
        ),
    ],
)
def test_a_pod_that_may_no_longer_be_moved_stops_it(change: dict[str, object], says: str) -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    assert stopped(operation, seen(replace(pod, **change))).abort_reason == says  # type: ignore[arg-type]


def test_players_that_came_meanwhile_stop_it() -> None:
    (pod,) = pods_of("web")
    pod = replace(
        pod,
        annotations=(("ebbtide.dev/plan", "payperplay"), ("ebbtide.dev/tier", "small")),
        requests=replace(pod.requests, memory_mib=4096),
    )
    operation = planned(pod)
    playing = replace(seen(pod), players=(("default/web-0", 3),))
    assert stopped(operation, playing).abort_cause is AbortCause.OTHER
    idle = consolidate.advance(operation, at(replace(seen(pod), players=(("default/web-0", 0),)), operation))
    assert len(idle.effects) == 1


def test_time_that_no_runner_saw_counts_for_no_timeout() -> None:
    """The runner that takes over gives a pod its time again; where it is not ready even then, that is the
    end."""
    pod, second = pods_of("web", "two")
    taken_over = NOW + 5 * LONG
    operation = replace(planned(pod), moves=(evicting(pod), make_move(second)), watched_since=taken_over)
    assert stopped(operation, seen(second), taken_over + LONG - 1).abort_cause is AbortCause.NONE
    after = stopped(operation, seen(second), taken_over + LONG)
    assert after.abort_cause is AbortCause.NOT_READY
    blocked = seen(pod, budgets=[make_budget(0)])
    waiting = replace(planned(pod), watched_since=taken_over)
    assert stopped(waiting, blocked, taken_over + LONG - 1).abort_cause is AbortCause.NONE
    assert stopped(waiting, blocked, taken_over + LONG).abort_cause is AbortCause.STUCK


def test_it_stops_when_nothing_could_be_moved_for_long() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    blocked = seen(pod, budgets=[make_budget(0)])
    assert stopped(operation, blocked, NOW + LONG - 1).abort_cause is AbortCause.NONE
    assert stopped(operation, blocked, NOW + LONG).abort_cause is AbortCause.STUCK


def test_it_stops_when_nothing_is_left_to_move_and_a_node_does_not_become_empty() -> None:
    pod, late = pods_of("web", "job")
    operation = replace(planned(pod), moves=(make_move(pod, state=MoveState.MOVED),))
    ending = seen(replace(late, terminating=True))
    assert stopped(operation, ending, NOW + LONG).abort_cause is AbortCause.STUCK


def test_time_without_a_runner_is_nobodys_fault() -> None:
    """What can continue continues, however long ago it was written."""
    pod, new = pods_of("web", "web")
    operation = planned(pod)
    resumed = consolidate.advance(operation, at(seen(pod), operation, NOW + 2 * LONG))
    assert [type(effect) for effect in resumed.effects] == [Evict]
    started = replace(operation, moves=(evicting(pod),))
    there = seen(replace(new, node_name="b1"))
    back = consolidate.advance(started, at(there, started, NOW + 2 * LONG))
    assert [move.state for move in back.state.moves] == [MoveState.MOVED]
    assert back.state.sources[0].state is SourceState.EMPTIED


def test_a_hard_no_after_long_is_told_as_that() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    after = stopped(operation, seen(replace(pod, do_not_disrupt=True)), NOW + LONG)
    assert after.abort_cause is AbortCause.OTHER, "it was not only stuck"


@pytest.mark.parametrize(
    "kind", [SoftTaint("a1", "uid-a1", "op"), Evict("default", "web-0", "uid-web-0", "a1", 30)]
)
def test_a_definite_no_of_the_cluster_stops_it(kind: SoftTaint | Evict) -> None:
    (pod,) = pods_of("web")
    operation = replace(planned(pod), moves=(evicting(pod),))
    after = consolidate.absorb(
        operation, [Outcome(kind, OutcomeKind.REFUSED, "not ours")], at(seen(pod), operation)
    )
    assert (after.abort_reason, after.moves[0].state) == ("not ours", MoveState.LEFT)
    again = consolidate.absorb(
        after, [Outcome(kind, OutcomeKind.REFUSED, "still not")], at(seen(pod), operation)
    )
    assert again.abort_reason == "not ours"


def test_an_eviction_that_is_put_off_says_why_and_is_tried_again() -> None:
    pod, second = pods_of("web", "two")
    operation = replace(planned(pod), moves=(evicting(pod), make_move(second)))
    put_off = Outcome(Evict("default", "web-0", "uid-web-0", "a1", 30), OutcomeKind.LATER, "budget used up")
    after = consolidate.absorb(operation, [put_off], at(seen(pod, second), operation))
    assert (after.moves[0].state, after.moves[0].reason) == (MoveState.EVICTING, "budget used up")
    assert after.moves[1] == operation.moves[1]


def test_why_it_stopped_is_said_with_names_and_numbers() -> None:
    """The words of each cause; the tests above ask for the cause."""
    pod, other = pods_of("web", "new")
    operation, evicted = planned(pod), replace(planned(pod), moves=(evicting(pod), make_move(other)))
    failed = make_slot("op-0", state=SlotState.FAILED, reason="no quota")
    launching = make_consolidate([make_source("a1")], [make_move(pod)], slots=(failed,))
    successor = make_pod("web-9", 9000, phase=PodPhase.PENDING, ready=False, owner_uid="web")
    large = [replace(one, requests=replace(one.requests, cpu_milli=3000)) for one in pods_of("1", "2", "3")]
    blocked = seen(pod, budgets=[make_budget(0)])
    never = seen(replace(pod, do_not_disrupt=True))
    said = [
        stopped(operation, replace(seen(pod), cpu=Reading(0.95, NOW))),
        stopped(launching, seen(pod, source=PLAIN_SOURCE)),
        stopped(operation, seen(pod, other)),
        stopped(evicted, seen(other), NOW + LONG),
        stopped(replace(operation, moves=(evicting(pod),)), seen(successor)),
        stopped(planned(*large), seen(*large)),
        stopped(operation, blocked, NOW + LONG),
        stopped(operation, never, NOW + LONG),
    ]
    assert [each.abort_reason for each in said] == [
        "CPU 0.95 is above cpu_up 0.70",
        "op-0 did not come: no quota",
        "default/new-1 came onto a1",
        f"default/web-0 was not ready elsewhere within {a_while(LONG)}",
        "default/web-9 waits, and fits on no node",
        "default/3-2 would fit on no other node any more",
        f"nothing could be moved for {a_while(LONG)}: "
        "default/web-0 must wait: PodDisruptionBudget web allows no disruption now",
        "default/web-0 is annotated do-not-disrupt",
    ]
