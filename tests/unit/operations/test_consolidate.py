"""A consolidation that goes well: launch, mark, move a few at a time, and leave what is empty."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.consolidation.emptied_nodes import GRACE_SECONDS
from ebbtide.core.operations import consolidate, machine, moves
from ebbtide.core.operations.situation import Situation
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Evict, Launch, Outcome, OutcomeKind, SoftTaint
from ebbtide.model.operation import (
    Consolidate,
    Move,
    MoveState,
    ScaleDown,
    SlotState,
    SourceState,
)
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import EmptiedNode
from ebbtide.model.snapshot import Node, Ownership, Snapshot
from tests.builders import (
    NOW,
    make_budget,
    make_consolidate,
    make_daemon,
    make_instance,
    make_move,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_settings,
    make_slot,
    make_snapshot,
    make_source,
)
from tests.unit.operations.builders import TOKEN, make_situation, with_work

MARKED = make_node("a1", owner=Ownership("op", TOKEN, cordoned=False))
OTHERS = make_nodes("a2", "b1")


def pods_of(*owners: str, node_name: str = "a1") -> tuple[Pod, ...]:
    """One pod for each owner, with its UID."""
    return tuple(
        make_pod(f"{owner}-{n}", node_name=node_name, owner_uid=owner) for n, owner in enumerate(owners)
    )


def seen(*pods: Pod, source: Node = MARKED, now: int = NOW, **more: object) -> Snapshot:
    """The marked source and two other nodes, with these pods and an agent on each node."""
    nodes = (source, *OTHERS)
    agents = [make_daemon(node.name) for node in nodes]
    return make_snapshot(nodes, [*pods, *agents], at=now, **more)  # type: ignore[arg-type]


def planned(*pods: Pod, **overrides: object) -> Consolidate:
    source = make_source("a1", state=SourceState.MARKED)
    return make_consolidate([source], [make_move(pod) for pod in pods], **overrides)


def at(snapshot: Snapshot, operation: Consolidate, now: int = NOW, **record: object) -> Situation:
    return make_situation(snapshot, record=with_work(operation, **record), now=now)


def states(operation: Consolidate) -> list[MoveState]:
    return [move.state for move in operation.moves]


def evicting(pod: Pod, owner_ready: int = 1, **overrides: Any) -> Move:
    return make_move(pod, state=MoveState.EVICTING, owner_ready=owner_ready, **overrides)


def test_new_nodes_are_launched_before_anything_is_marked() -> None:
    (pod,) = pods_of("web")
    operation = make_consolidate([make_source("a1")], [make_move(pod, "op-0")], slots=(make_slot("op-0"),))
    step = consolidate.advance(operation, at(seen(pod, source=make_node("a1")), operation))
    assert [type(effect) for effect in step.effects] == [Launch]
    assert step.state.slots[0].state is SlotState.LAUNCHING
    assert step.state.sources == operation.sources
    launched = Outcome(step.effects[0], OutcomeKind.DONE, instance=make_instance("i-b9", key="op-0"))
    after = consolidate.absorb(step.state, [launched], at(seen(pod), step.state))
    assert after.slots[0].state is SlotState.LAUNCHED
    waiting = consolidate.advance(after, at(seen(pod, source=make_node("a1")), after))
    assert (waiting.state, waiting.effects) == (after, ())


def test_sources_are_marked_when_every_new_node_is_ready() -> None:
    (pod,) = pods_of("web")
    slot = make_slot("op-0", state=SlotState.READY, node_name="b1")
    operation = make_consolidate([make_source("a1")], [make_move(pod, "op-0")], slots=(slot,))
    step = consolidate.advance(operation, at(seen(pod, source=make_node("a1")), operation))
    assert step.effects == (SoftTaint("a1", "uid-a1", "op"),)
    assert step.state.sources[0].state is SourceState.MARKED
    assert step.state.sources[0].fence_token == TOKEN
    assert states(step.state) == [MoveState.PLANNED]


def test_a_mark_that_is_not_seen_is_asked_for_again_before_anything_moves() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    step = consolidate.advance(operation, at(seen(pod, source=make_node("a1")), operation))
    assert step.effects == (SoftTaint("a1", "uid-a1", "op"),)
    assert states(step.state) == [MoveState.PLANNED]


def test_a_few_pods_of_different_controllers_are_evicted_at_once() -> None:
    pods = pods_of("one", "one", "two", "three", "four", "five")
    operation = planned(*pods)
    step = consolidate.advance(operation, at(seen(*pods), operation))
    assert [effect.name for effect in step.effects if isinstance(effect, Evict)] == [
        "one-0",
        "two-2",
        "three-3",
        "four-4",
    ]
    assert len(step.effects) == 4
    first, second = step.state.moves[:2]
    assert (first.state, first.owner_ready, second.state) == (MoveState.EVICTING, 2, MoveState.PLANNED)
    assert step.state.sources[0].fence_token == TOKEN


def test_the_next_few_wait_until_those_before_have_settled() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first), make_move(second)))
    gone = at(seen(second), operation)
    assert consolidate.advance(operation, gone).state == operation
    going = at(seen(replace(first, terminating=True, ready=False), second), operation)
    assert consolidate.advance(operation, going).state == operation


def test_a_move_is_over_when_its_controller_has_as_many_ready_pods_as_before() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first, owner_ready=2), make_move(second)))
    new, other = pods_of("one", "one", node_name="b1")
    not_yet = at(seen(second, replace(new, uid="n", ready=False), replace(other, uid="o")), operation)
    assert consolidate.advance(operation, not_yet).state == operation
    back = at(seen(second, replace(new, uid="n"), replace(other, uid="o")), operation)
    step = consolidate.advance(operation, back)
    assert states(step.state) == [MoveState.MOVED, MoveState.PLANNED]
    assert step.effects == ()


def test_an_eviction_that_may_not_have_been_sent_is_sent_again() -> None:
    first, second = pods_of("one", "two")
    operation = replace(planned(second), moves=(evicting(first, since=NOW - 900), make_move(second)))
    step = consolidate.advance(operation, at(seen(first, second), operation))
    assert [effect.name for effect in step.effects if isinstance(effect, Evict)] == ["one-0"]
    assert step.state.moves[0].since == NOW
    assert step.state.abort_reason == ""


def test_a_pod_that_went_by_itself_needs_no_move() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    step = consolidate.advance(operation, at(seen(), operation))
    assert states(step.state) == [MoveState.LEFT]
    assert step.state.moves[0].reason == "it is no longer there"
    assert step.state.sources[0].state is SourceState.EMPTIED


def test_a_pod_without_controller_that_may_be_evicted_is_over_when_it_is_gone() -> None:
    (pod,) = pods_of("")
    pod = replace(pod, controller="", safe_to_evict=True)
    operation = planned(pod)
    step = consolidate.advance(operation, at(seen(pod), operation))
    assert step.state.moves[0].owner_ready == 0
    gone = consolidate.advance(step.state, at(seen(), step.state))
    assert states(gone.state) == [MoveState.MOVED]


def test_a_node_is_emptied_when_only_what_belongs_to_it_is_left() -> None:
    pod, late = pods_of("web", "job")
    operation = replace(planned(pod), moves=(evicting(pod),))
    (new,) = pods_of("web", node_name="b1")
    ending = at(seen(replace(new, uid="n"), replace(late, terminating=True)), operation)
    step = consolidate.advance(operation, ending)
    assert (states(step.state), step.state.sources[0].state) == (
        [MoveState.MOVED],
        SourceState.MARKED,
    )
    finished = replace(late, phase=PodPhase.SUCCEEDED)
    done = consolidate.advance(step.state, at(seen(replace(new, uid="n"), finished), step.state))
    assert done.state.sources[0].state is SourceState.EMPTIED
    assert machine.is_settled(done.state)


def test_with_nothing_left_to_move_it_waits_for_what_is_ending() -> None:
    pod, late = pods_of("web", "job")
    operation = planned(pod)
    moved = replace(operation, moves=(replace(operation.moves[0], state=MoveState.MOVED),))
    step = consolidate.advance(moved, at(seen(replace(late, terminating=True)), moved))
    assert (step.state, step.effects) == (moved, ())


@pytest.mark.parametrize(
    ("snapshot", "record"),
    [
        pytest.param({"budgets": [make_budget(0)]}, {}, id="disruption budget"),
        pytest.param({}, {"worker_count": 30}, id="implausible"),
    ],
)
def test_nothing_is_evicted_while_something_may_pass(
    snapshot: dict[str, Any], record: dict[str, Any]
) -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    step = consolidate.advance(operation, at(seen(pod, **snapshot), operation, **record))
    assert (step.state, step.effects) == (operation, ())


def test_nothing_is_evicted_while_many_nodes_are_not_ready() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    sick = tuple(make_node(f"sick{number}", ready=False) for number in range(5))
    snapshot = make_snapshot((MARKED, *OTHERS, *sick), [pod], at=NOW)
    step = consolidate.advance(operation, at(snapshot, operation))
    assert (step.state, step.effects) == (operation, ())
    waits = moves.next_moves(operation, at(snapshot, operation)).waits
    assert waits.startswith("5 of 8 workers are not ready")


def test_nothing_is_evicted_while_a_pod_is_pending() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    waiting = make_pod("other", phase=PodPhase.PENDING, ready=False)
    step = consolidate.advance(operation, at(seen(pod, waiting), operation, pending_since=NOW))
    assert (step.state, step.effects) == (operation, ())


def test_nothing_is_done_on_an_observation_with_a_problem() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod)
    step = consolidate.advance(operation, at(seen(pod, problems=("half read",)), operation))
    assert (step.state, step.effects) == (operation, ())


def test_room_is_kept_on_the_new_node_that_the_plan_names() -> None:
    """Another node has room as well; what is asked for is one place for each, not the same one twice."""
    pods = tuple(
        replace(pod, requests=replace(pod.requests, cpu_milli=3000)) for pod in pods_of("one", "two")
    )
    slot = make_slot("op-0", state=SlotState.READY, node_name="b1", instance_id="i-b1")
    operation = replace(
        planned(*pods, slots=(slot,)), moves=(make_move(pods[0], "op-0"), make_move(pods[1], "b7"))
    )
    step = consolidate.advance(operation, at(seen(*pods), operation))
    assert len(step.effects) == 2


def test_what_is_empty_leaves_under_the_same_id() -> None:
    (pod,) = pods_of("web")
    operation = replace(
        planned(pod),
        sources=(make_source("a1", state=SourceState.EMPTIED),),
        moves=(make_move(pod, state=MoveState.MOVED),),
    )
    settings = make_settings()
    closed = machine.close(operation, at(seen(), operation))
    until = NOW + settings.consolidation.min_idle_seconds + GRACE_SECONDS
    assert closed.record.leaving == (EmptiedNode("a1", "uid-a1", "i-a1", "op", until),)
    assert (closed.record.operation, closed.succeeded) == (None, True)


def decided(plan: ConsolidationPlan | None, *names: str) -> Decision:
    report = None if plan is None else ConsolidationReport((), plan=plan)
    removals = tuple(make_removal(name) for name in names)
    return Decision("d", NOW, Action.CONSOLIDATE, "why", (), (), removals, report)


def test_moves_make_an_operation_of_their_own_and_start_the_cooldown() -> None:
    (pod,) = pods_of("web")
    plan = ConsolidationPlan(
        empties=(make_removal("b1"),),
        sources=(make_removal("a1"),),
        moves=(make_move(pod, since=0),),
        cost_before=Decimal("0.3"),
        cost_after=Decimal("0.1"),
        currency="EUR",
    )
    record = consolidate.start(make_record(), decided(plan), "op", make_settings(), make_snapshot())
    assert record.last_consolidation_at == NOW
    operation = record.operation
    assert isinstance(operation, Consolidate)
    assert [source.node_name for source in operation.sources] == ["a1", "b1"]
    assert (operation.moves[0].since, operation.savings_per_hour) == (NOW, Decimal("0.2"))
    assert (operation.reason, record.leaving) == ("why", ())


def test_empty_nodes_are_removed_at_once_and_the_others_leave_after_them() -> None:
    plan = ConsolidationPlan(empties=(make_removal("a1"), make_removal("b1")))
    record = consolidate.start(make_record(), decided(plan, "a1"), "op", make_settings(), make_snapshot())
    assert isinstance(record.operation, ScaleDown)
    assert (record.operation.only_empty, record.operation.id) == (True, "op")
    assert [removal.node_name for removal in record.operation.removals] == ["a1"]
    assert [one.node_name for one in record.leaving] == ["a1", "b1"]
    assert record.last_consolidation_at == NOW


def test_what_an_earlier_consolidation_emptied_goes_under_its_id_and_starts_no_cooldown() -> None:
    before = make_record(leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "earlier", NOW + 60),))
    record = consolidate.start(before, decided(None, "a1"), "op", make_settings(), make_snapshot())
    assert isinstance(record.operation, ScaleDown)
    assert (record.operation.id, record.operation.only_empty) == ("earlier", True)
    assert record.last_consolidation_at == 0
