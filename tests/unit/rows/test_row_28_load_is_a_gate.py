"""Row 28: load that is back releases a scale-down; entering TERMINATING asks for load and demand again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.nodes import gates
from ebbtide.core.operations import scale_down
from ebbtide.model.check import Gate
from ebbtide.model.effect import Terminate
from ebbtide.model.operation import AbortCause, RemovalState
from ebbtide.model.pod import PodPhase
from ebbtide.model.snapshot import Node, Reading, Snapshot
from tests.builders import (
    NOW,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_snapshot,
    values_of,
)
from tests.unit.operations.builders import cordoned, fleet, make_situation, with_pods, with_work

DRAINING, DRAINED = RemovalState.DRAINING, RemovalState.DRAINED
RELEASING, TERMINATING = RemovalState.RELEASING, RemovalState.TERMINATING
DONE = make_removal("a1", state=DRAINED, attempts=1, since=NOW - 60)
OPERATION = make_scale_down(DONE)


def at(cpu: float | None, *, seen: Snapshot | None = None) -> Snapshot:
    reading = Reading(cpu, NOW, "CPU is unknown: no answer" if cpu is None else "")
    return replace(seen or fleet(cordoned()), cpu=reading)


def advanced(snapshot: Snapshot, state: RemovalState = DRAINED) -> tuple[RemovalState, str, bool]:
    """Its state, the check or the cause of the abort that holds it, and whether it was terminated."""
    operation = make_scale_down(replace(DONE, state=state, drain_deadline=NOW + 300))
    step = scale_down.advance(operation, make_situation(snapshot, record=with_work(operation)))
    removal = step.state.removals[0]
    terminated = any(isinstance(effect, Terminate) for effect in step.effects)
    return removal.state, removal.about, terminated


@pytest.mark.parametrize("state", [RemovalState.PLANNED, DRAINING, DRAINED])
def test_a_scale_down_is_released_when_cpu_is_above_cpu_up(state: RemovalState) -> None:
    assert advanced(at(0.95), state) == (RELEASING, AbortCause.LOAD, False)


def test_cpu_at_cpu_up_is_not_above_it() -> None:
    assert advanced(at(0.70), DRAINING)[0] is not RELEASING


def test_what_is_terminating_rolls_forward_whatever_the_load() -> None:
    assert advanced(at(0.95), TERMINATING) == (TERMINATING, "", True)


def test_load_does_not_bring_back_a_node_that_could_not_take_any_of_it() -> None:
    dead = with_pods(fleet(make_node("a1", ready=False)))
    assert advanced(at(0.95, seen=dead), RemovalState.PLANNED)[0] is RemovalState.PLANNED


@pytest.mark.parametrize(
    ("cpu", "state", "why"),
    [
        (0.52, TERMINATING, ""),
        (0.53, RELEASING, AbortCause.LOAD),
        (None, DRAINED, Gate.CPU_KNOWN),
    ],
)
def test_the_write_that_enters_terminating_asks_that_the_rest_can_carry_the_load(
    cpu: float | None, state: RemovalState, why: str
) -> None:
    """Four Ready workers at 0.53 are three at 0.71; unknown is not idle, and is waited for."""
    assert advanced(at(cpu)) == (state, why, state is TERMINATING)


def test_a_pod_that_is_pending_by_then_is_waited_for() -> None:
    pending = make_pod("new", phase=PodPhase.PENDING, node_name="")
    seen = with_pods(fleet(cordoned()), pending)
    assert advanced(at(0.1, seen=seen)) == (DRAINED, Gate.NO_POD_PENDING, False)


def test_a_node_that_consolidation_found_empty_may_go_although_the_cpu_is_unknown() -> None:
    record = make_record(operation=replace(OPERATION, only_empty=True))
    assert gates.may_terminate(DONE, at(None), record, make_settings()) is None
    hot = gates.may_terminate(DONE, at(0.53), record, make_settings())
    assert hot is not None
    assert hot.name == Gate.LOAD_FITS


def sleeping(*nodes: Node) -> tuple[Snapshot, bool]:
    settings = make_settings(pools=(make_pool(may_be_empty=True),), min_workers=0)
    seen = make_snapshot(nodes, cpu=0.1)
    return seen, gates.load_fits(seen, make_record(), settings, (make_removal("a1"),)).passed


def test_the_last_worker_may_go_only_where_every_pool_may_be_empty() -> None:
    seen, passed = sleeping(*make_nodes("a1"))
    assert passed
    check = gates.load_fits(seen, make_record(), make_settings(), (make_removal("a1"),))
    assert values_of(check) == (Gate.LOAD_FITS, False, None, 0.7, "")
