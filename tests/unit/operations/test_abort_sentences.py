"""What is said of a scale-down that is given up: one sentence for each cause, with names and numbers.

The tests of the operation ask for the cause.
"""

from __future__ import annotations

from ebbtide.core.operations import scale_down
from ebbtide.core.operations.removals import obstacle
from ebbtide.core.operations.stopping import why_yield
from ebbtide.model.operation import RemovalState, ScaleDown, SlotState
from ebbtide.model.pool import RemovalReason
from ebbtide.model.snapshot import Snapshot
from tests.builders import (
    NOW,
    make_node,
    make_nodes,
    make_pod,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.unit.operations import test_only_empty as only_empty
from tests.unit.operations import test_replaced as replaced
from tests.unit.operations.builders import cordoned, make_situation, with_work
from tests.unit.operations.test_yielding import ONE, pending, seen

DRAINED = make_scale_down(make_removal("a1", state=RemovalState.DRAINED))
EMPTY = make_scale_down(only_empty.DRAINING, only_empty=True)


def yields(operation: ScaleDown, snapshot: Snapshot) -> str:
    stop = why_yield(operation, make_situation(snapshot, record=with_work(operation)))
    assert stop is not None
    return stop.says


def test_why_it_gives_way_to_load_or_to_a_pod() -> None:
    assert yields(ONE, seen(pending())) == "default/new is pending and would fit there"
    assert yields(ONE, seen(cpu=0.95)) == "CPU 0.95 is above cpu_up 0.70"
    assert yields(DRAINED, seen(cpu=0.5)) == "CPU would be 0.75 with 2 workers left, cpu_up is 0.70"


def test_why_a_node_is_not_replaced() -> None:
    failed = make_slot(state=SlotState.FAILED, reason="no capacity anywhere")
    assert replaced.advanced(replaced.replacing(failed))[0].abort_reason == (
        "op-0 did not come: no capacity anywhere"
    )
    well = make_snapshot(replaced.NODES, [make_pod("web", node_name="a1")])
    unwell = replaced.replacing(cause=RemovalReason.UNHEALTHY)
    assert replaced.advanced(unwell, well, replaced.REPAIR)[0].abort_reason == "a1 is well again"
    young = replaced.advanced(replaced.replacing(), well, make_settings())[0]
    assert young.abort_reason == "a1 is no longer expired"
    pods = [make_pod("big", 3000, 100, node_name="a1")]
    pods += [make_pod(f"fill-{name}", 2000, 100, node_name=name) for name in ("a2", "b1", "a9")]
    full = replaced.advanced(replaced.replacing(), make_snapshot(replaced.NODES, pods))[0]
    assert full.abort_reason.startswith("a1 cannot go: default/big would fit on no other node")


def test_why_consolidation_leaves_an_empty_node() -> None:
    came, _ = only_empty.after(EMPTY, make_pod(node_name="a1"))
    assert came.abort_reason == "default/web-1 came onto a1"
    waits, _ = only_empty.after(EMPTY, pending("other"))
    assert waits.abort_reason == "default/other is pending"
    short, _ = only_empty.looked(EMPTY, 899)
    idle = "it has been empty for 14 min 59 s, consolidation.min_idle_sec is 15 min"
    assert short.abort_reason == f"a1 cannot go: {idle}"


def test_why_all_of_it_ends() -> None:
    nodes = make_snapshot([cordoned("a1"), make_node("a2"), *make_nodes("b1")])

    def said(operation: ScaleDown, now: int = NOW, paused: bool = False) -> str:
        record = with_work(operation, paused=paused)
        situation = make_situation(nodes, record=record, now=now)
        return scale_down.advance(operation, situation).state.abort_reason

    assert said(ONE, paused=True) == "removals were paused"
    assert said(ONE, NOW + 900) == "not finished after 15 min: its pods had not left"
    assert said(make_scale_down(make_removal("a1", state=RemovalState.RELEASED))) == "a1 was given up"
    irrevocable = make_scale_down(make_removal("a1", state=RemovalState.TERMINATING))
    assert said(irrevocable, NOW + 900) == "not finished after 15 min"


def test_what_kept_a_removal_is_said_by_its_own_reason_where_it_has_one() -> None:
    waiting = make_removal("a1", state=RemovalState.DRAINING, reason="its budget allows none")
    assert obstacle(waiting) == "its budget allows none"
    assert obstacle(make_removal("a1", state=RemovalState.DRAINING)) != ""
