"""Whether a wake needs a node first, by the fit rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ebbtide.core.scale_to_zero.node_first import NodeRoom
from ebbtide.model.idle import NodeFirst, NodeNeed, Phase, Remembered
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import FitCause, PodPhase, Resources, Scheduling, Workload
from ebbtide.model.policy import Target
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView
from tests.builders import (
    NOW,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_scale_up,
    make_settings,
    make_slot,
)
from tests.policy_harness import make_policy, make_ref, make_state, make_workload

ASLEEP = make_state(Phase.ZERO, remembered=(Remembered(make_ref(), 2),))
EMPTY = Record("c")
ONE_NODE = ClusterView((make_node("a1"),))
FULL = ClusterView((make_node("a1"),), (make_pod("other", 3900, 100, node_name="a1"),))


def first(
    view: ClusterView = ONE_NODE, *workloads: Workload, record: Record = EMPTY, **settings: Any
) -> NodeFirst | None:
    room = NodeRoom(view, record, make_settings(**settings), NOW)
    return room.node_first(make_policy(), ASLEEP, workloads or (make_workload(replicas=0),))


def why_never(found: NodeFirst | None) -> FitCause:
    assert found is not None
    assert found.need is NodeNeed.NEVER
    return found.cause


def test_pods_that_fit_on_ready_nodes_need_none() -> None:
    assert first() == NodeFirst(NodeNeed.NONE)


def test_all_replicas_that_it_had_must_find_room_at_once() -> None:
    """Two of 1,000m: the second finds 900m left."""
    other = make_pod("other", 2100, 100, node_name="a1")
    assert first(ClusterView((make_node("a1"),), (other,))) == NodeFirst(NodeNeed.LAUNCH, "workers")
    assert first(ClusterView(make_nodes("a1", "b1"), (other,))) == NodeFirst(NodeNeed.NONE)


def test_a_node_that_takes_no_pods_is_no_room() -> None:
    assert first(ClusterView((make_node(ready=False),))) == NodeFirst(NodeNeed.LAUNCH, "workers")
    assert first(ClusterView((make_node(unschedulable=True),))) == NodeFirst(NodeNeed.LAUNCH, "workers")


def test_the_rules_of_its_pods_count_and_not_their_size_alone() -> None:
    picky = make_workload(replicas=0, scheduling=Scheduling(node_selector=(("gpu", "yes"),)))
    gpu = make_pool("gpu", labels=(("gpu", "yes"),))
    found = first(ONE_NODE, picky, pools=(make_pool(), gpu))
    assert found == NodeFirst(NodeNeed.LAUNCH, "gpu")


def test_the_pool_is_the_one_that_would_be_launched_from_first() -> None:
    heavy = make_pool("preferred", weight=5)
    assert first(FULL, pools=(make_pool(), heavy)) == NodeFirst(NodeNeed.LAUNCH, "preferred")


def test_a_pool_at_its_maximum_is_not_counted_on() -> None:
    small = make_pool(max_workers=1)
    assert first(FULL, pools=(small, make_pool("more"))) == NodeFirst(NodeNeed.LAUNCH, "more")
    assert why_never(first(FULL, pools=(small,))) is FitCause.POOLS_FULL
    assert why_never(first(FULL, max_workers=1)) is FitCause.POOLS_FULL


def test_what_no_type_can_take_is_never_ready() -> None:
    huge = make_workload(replicas=0, requests=Resources(9000, 100))
    assert why_never(first(ONE_NODE, huge)) is FitCause.CPU


def coming(since: int = NOW - 20) -> Record:
    slot = make_slot("k-1", state=SlotState.LAUNCHED, since=since, instance_id="i-9")
    return replace(EMPTY, launching=make_scale_up(slot))


def test_a_node_on_its_way_is_room_that_comes_later() -> None:
    assert first(FULL, record=coming()) == NodeFirst(NodeNeed.COMING, "workers", NOW - 20)


def test_pods_that_are_pending_come_first() -> None:
    """The node on its way is for the pod that is pending: there is no room for ours on it."""
    pending = make_pod("waits", 3900, 100, phase=PodPhase.PENDING)
    too_big = make_pod("too-big", 9900, 100, phase=PodPhase.PENDING)
    view = replace(FULL, pods=(*FULL.pods, pending, too_big))
    assert first(view, record=coming()) == NodeFirst(NodeNeed.LAUNCH, "workers")


def test_one_answer_does_not_change_the_next() -> None:
    room = NodeRoom(ONE_NODE, EMPTY, make_settings(), NOW)
    for _ in range(5):  # each time 2,000m of 4,000m
        assert room.node_first(make_policy(), ASLEEP, (make_workload(replicas=0),)) == NodeFirst(
            NodeNeed.NONE
        )


def test_of_a_workload_that_was_not_seen_nothing_is_said() -> None:
    room = NodeRoom(ONE_NODE, EMPTY, make_settings(), NOW)
    assert room.node_first(make_policy(), ASLEEP, ()) is None


def test_a_pool_that_sleeps_needs_its_own_node() -> None:
    policy = make_policy(target=Target(pool="workers"))

    def asked(view: ClusterView, record: Record = EMPTY, **settings: Any) -> NodeFirst | None:
        return NodeRoom(view, record, make_settings(**settings), NOW).node_first(policy, ASLEEP, ())

    assert asked(ONE_NODE) == NodeFirst(NodeNeed.NONE)
    assert asked(ClusterView()) == NodeFirst(NodeNeed.LAUNCH, "workers")
    assert asked(ClusterView(), coming()) == NodeFirst(NodeNeed.COMING, "workers", NOW - 20)
    assert why_never(asked(ClusterView(), pools=(make_pool("other"),))) is FitCause.NO_SUCH_POOL
