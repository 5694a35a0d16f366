"""Judged one by one, nodes that carry nothing go next to a launch and next to pending pods for another."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.decide import decide
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.model.pod import NOTHING, Pod, PodPhase, Scheduling
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import JudgedBy
from tests.builders import (
    NOW,
    kept_by,
    make_daemon,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    values_of,
)

NODES = make_nodes("a1", "a2", "a3", "b1")
FULL = [make_pod(f"full-{name}", 3000, node_name=name) for name in ("a3", "b1")]
SETTINGS = make_settings(
    scale_down_by=JudgedBy.NODE, idle_down_seconds=60, cooldown_down_seconds=0, min_workers=1
)
LAUNCHED = make_slot(state=SlotState.LAUNCHED, instance_id="i-late", since=NOW - 300)
LAUNCH = make_scale_up(LAUNCHED, id="1800000000-abcdef", started_at=NOW - 300)


def record(**overrides: Any) -> Record:
    underused = tuple(Emptied(f"uid-{name}", NOW - 600) for name in ("a1", "a2"))
    return make_record(
        **{"underused": underused, "worker_count": 4, "pod_count": 3, "launching": LAUNCH, **overrides}
    )


def decided(pods: list[Pod], seen: Record | None = None, **settings: Any) -> Decision:
    found = make_settings(
        **{"scale_down_by": JudgedBy.NODE, "idle_down_seconds": 60, "cooldown_down_seconds": 0, **settings}
    )
    snapshot = make_snapshot(NODES, [*FULL, *pods])
    return decide(snapshot, seen if seen is not None else record(), found, NOW, "d1")


def down(decision: Decision) -> tuple[list[str], dict[str, tuple[NodeCause, str]], Check | None]:
    """Who goes, who stays and why, and the check that failed."""
    verdict = next(v for v in decision.verdicts if v.action is Action.SCALE_DOWN)
    gone = [removal.node_name for removal in decision.removals]
    return gone, kept_by(verdict.refusals), verdict.failed


def pending(cpu_milli: int = 500, **overrides: Any) -> Pod:
    return make_pod("late", cpu_milli, **{"phase": PodPhase.PENDING, **overrides})


ELSEWHERE = Scheduling(node_selector=(("gpu", "yes"),))


def test_an_empty_node_goes_while_a_launch_is_open_and_one_with_pods_stays() -> None:
    small = make_pod("small", 500, node_name="a2")
    decision = decided([small])
    gone, kept, _ = down(decision)
    assert (decision.action, gone) == (Action.SCALE_DOWN, ["a1"])
    alone = decided([small, make_pod("other", 500, node_name="a1")])
    gone, kept, failed = down(alone)
    assert gone == []
    assert kept["a1"] == (NodeCause.LAUNCHING, LAUNCH.id)
    assert failed is not None
    assert failed.name == "a node can go"


def test_an_open_removal_still_comes_first() -> None:
    open_removal = make_scale_down(make_removal("b9", state=RemovalState.TERMINATING))
    failed = down(decided([], record(removing=open_removal)))[2]
    assert values_of(failed) == ("no operation in progress", False, None, None, "op")


def test_a_node_that_the_launch_still_follows_has_one_owner() -> None:
    followed = make_scale_up(
        make_slot(state=SlotState.JOINED, instance_id="i-a1", node_name="a1"), started_at=NOW - 300
    )
    gone, kept, _ = down(decided([], record(launching=followed)))
    assert gone == ["a2"]
    assert kept["a1"] == (NodeCause.LAUNCHING, "op")


def test_by_the_documents_nothing_goes_next_to_a_launch_or_a_pod_that_is_pending() -> None:
    idle = record(idle_since=NOW - 9000)
    failed = down(decided([], idle, scale_down_by=JudgedBy.AVERAGE))[2]
    assert values_of(failed) == ("no operation in progress", False, None, None, LAUNCH.id)
    lone = make_record(idle_since=NOW - 9000, worker_count=4, pod_count=3)
    unfit = pending(scheduling=ELSEWHERE)
    failed = down(decided([unfit], lone, scale_down_by=JudgedBy.AVERAGE))[2]
    assert values_of(failed) == (Gate.NO_POD_PENDING, False, 1, 0, "default/late")


@pytest.mark.parametrize(
    "unfit", [pending(scheduling=ELSEWHERE), pending(16_000), pending(controller="DaemonSet")]
)
def test_an_empty_node_goes_next_to_a_pod_that_it_could_never_take(unfit: Pod) -> None:
    decision = decided([unfit], record(launching=None))
    assert (decision.action, down(decision)[0]) == (Action.SCALE_DOWN, ["a1", "a2"][:1])
    said = next(v for v in decision.verdicts if v.action is Action.SCALE_DOWN).checks
    (check,) = [check for check in said if check.name == Gate.NO_POD_PENDING]
    assert check.passed


@pytest.mark.parametrize(
    "fitting",
    [pending(), pending(requests=NOTHING), pending(scheduling=Scheduling(unsupported=("a rule",)))],
)
def test_an_empty_node_that_a_pending_pod_may_go_onto_stays(fitting: Pod) -> None:
    failed = down(decided([fitting], record(launching=LAUNCH)))[2]
    assert values_of(failed) == (Gate.NO_POD_PENDING, False, 1, 0, "default/late")


def test_of_several_empty_nodes_only_those_go_that_no_pending_pod_may_go_onto() -> None:
    large = (make_node("a1", allocatable=make_node().allocatable.plus(make_node().allocatable)), *NODES[1:])
    snapshot = make_snapshot(large, [*FULL, make_daemon("a1"), pending(6000)])
    decision = decide(snapshot, record(), SETTINGS, NOW, "d1")
    gone, kept, _ = down(decision)
    assert gone == ["a2"]
    assert kept["a1"] == (NodeCause.CHECK, Gate.NO_POD_PENDING)


def test_the_last_gate_asks_the_same_of_the_pods_that_are_pending_by_then() -> None:
    removal = make_removal("a1", state=RemovalState.DRAINED)
    going = record(launching=None, removing=make_scale_down(removal))

    def gate(*pods: Pod, settings: Any = SETTINGS) -> Check | None:
        return gates.may_terminate(removal, make_snapshot(NODES, [*FULL, *pods]), going, settings)

    unfit = pending(scheduling=ELSEWHERE)
    assert gate(unfit) is None
    said = gate(pending())
    assert values_of(said) == (Gate.NO_POD_PENDING, False, 1, 0, "default/late")
    on_it = make_pod("back", 100, node_name="a1")
    said = gate(unfit, on_it)
    assert said is not None
    assert said.name == Gate.NO_POD_PENDING
    said = gate(unfit, settings=make_settings(min_workers=1))
    assert said is not None
    assert said.name == Gate.NO_POD_PENDING
