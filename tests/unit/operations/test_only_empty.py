"""A scale-down on behalf of consolidation: a node goes only while nothing is on it and no pod is pending."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import scale_down
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Evict
from ebbtide.model.operation import AbortCause, RemovalState, ScaleDown
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import Emptied
from tests.builders import NOW, make_pod, make_removal, make_scale_down
from tests.unit.operations.builders import cordoned, fleet, make_situation, with_pods, with_work

DRAINING = make_removal("a1", state=RemovalState.DRAINING, drain_deadline=NOW + 300)


def after(operation: ScaleDown, *pods: Pod) -> tuple[ScaleDown, int]:
    """After one step with these pods there, and how many evictions that asks for."""
    return looked(operation, 900, *pods)


def looked(operation: ScaleDown, idle_seconds: int, *pods: Pod) -> tuple[ScaleDown, int]:
    """The same where the node has been seen empty for so long."""
    record = with_work(operation, emptied=(Emptied("uid-a1", NOW - idle_seconds),))
    situation = make_situation(with_pods(fleet(cordoned("a1")), *pods), record=record)
    step = scale_down.advance(operation, situation)
    return step.state, sum(isinstance(effect, Evict) for effect in step.effects)


def test_a_pod_that_came_is_not_evicted_but_keeps_its_node() -> None:
    operation, evictions = after(make_scale_down(DRAINING, only_empty=True), make_pod(node_name="a1"))
    assert (operation.abort_cause, evictions) == (AbortCause.CHANGED, 0)
    assert operation.removals[0].state is RemovalState.RELEASING
    ordinary, evictions = after(make_scale_down(DRAINING), make_pod(node_name="a1"))
    assert (ordinary.abort_reason, evictions) == ("", 1)


def test_a_pod_that_is_pending_for_a_node_keeps_it() -> None:
    waiting = make_pod("other", phase=PodPhase.PENDING, ready=False)
    operation, _ = after(make_scale_down(DRAINING, only_empty=True), waiting)
    assert operation.abort_cause is AbortCause.PODS_WAITING


def test_without_any_it_continues() -> None:
    daemon = make_pod("agent", controller="DaemonSet", node_name="a1")
    operation, _ = after(make_scale_down(DRAINING, only_empty=True), daemon)
    assert (operation.abort_reason, operation.removals[0].state) == ("", RemovalState.DRAINED)


@pytest.mark.parametrize("state", [RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED])
def test_a_break_in_what_was_seen_of_its_idle_time_keeps_a_node(state: RemovalState) -> None:
    """A list that was empty or old may have hidden a pod that came."""
    asked = replace(DRAINING, state=state)
    operation, _ = looked(make_scale_down(asked, only_empty=True), 899)
    assert operation.abort_cause is AbortCause.NOT_IDLE
    ordinary, _ = looked(make_scale_down(asked), 0)
    assert ordinary.abort_reason == ""


def test_what_is_irrevocable_rolls_forward_and_what_is_released_does_not_matter() -> None:
    terminating = replace(DRAINING, state=RemovalState.TERMINATING)
    operation, _ = after(make_scale_down(terminating, only_empty=True), make_pod(node_name="a1"))
    assert operation.removals[0].state is RemovalState.TERMINATING
    operation, _ = looked(make_scale_down(terminating, only_empty=True), 0)
    assert operation.abort_reason == ""
    released = replace(DRAINING, state=RemovalState.RELEASED, reason="given up")
    operation, _ = after(make_scale_down(released, only_empty=True), make_pod(node_name="a1"))
    assert operation.abort_reason == "given up"


def test_it_is_begun_as_such() -> None:
    decision = Decision("d", NOW, Action.CONSOLIDATE, "why", (), removals=(make_removal("a1"),))
    assert scale_down.begin(decision, "op", only_empty=True).only_empty
    assert not scale_down.begin(decision, "op").only_empty
