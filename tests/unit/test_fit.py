"""A pod fits a node by requests, pod count, taints, selector, affinity and volume zone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.room import Room, refused_by_node, room_of, room_of_new, tolerates
from ebbtide.model.pod import (
    FitCause,
    Misfit,
    Pod,
    PodPhase,
    Requirement,
    Resources,
    Scheduling,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
)
from ebbtide.model.snapshot import ClusterView, Node
from tests.builders import make_node, make_pod, make_pool, make_snapshot, make_type

GPU = "nvidia.com/gpu"


def why_not(pod: Pod, node: Node, *there: Pod) -> Misfit | None:
    room = room_of(node, there)
    return Placement([room]).why_not(pod, room)


def refusal(node: Node, **wishes: Any) -> Misfit | None:
    return refused_by_node(Scheduling(**wishes), room_of(node, ()))


def test_a_pod_fits_where_exactly_enough_is_free() -> None:
    assert why_not(make_pod(cpu_milli=1500), make_node(), make_pod("other", cpu_milli=2500)) is None


def test_a_pod_that_asks_for_more_cpu_than_is_free_is_told_both_numbers() -> None:
    reason = why_not(make_pod(cpu_milli=1501), make_node(), make_pod("other", cpu_milli=2500))
    assert reason == Misfit(FitCause.CPU, 1501, 1500)


def test_a_pod_that_asks_for_more_memory_than_is_free_is_told_both_numbers() -> None:
    assert why_not(make_pod(memory_mib=9000), make_node()) == Misfit(FitCause.MEMORY, 9000, 8192)


def test_a_node_with_all_its_pods_takes_no_more_however_small() -> None:
    assert why_not(make_pod(), make_node(max_pods=1), make_pod("other")) == Misfit(FitCause.SLOTS, 1)


def test_an_extended_resource_must_be_offered_by_the_node() -> None:
    asks = make_pod(requests=Resources(100, 100, ((GPU, 1),)))
    one_gpu = make_node(allocatable=Resources(4000, 8192, ((GPU, 1),)))
    assert why_not(asks, one_gpu) is None
    assert why_not(asks, make_node()) == Misfit(FitCause.EXTENDED, 1, 0, GPU)
    assert why_not(asks, one_gpu, asks) == Misfit(FitCause.EXTENDED, 1, 0, GPU)
    assert why_not(asks, make_node(), asks) == Misfit(FitCause.EXTENDED, 1, 0, GPU), (
        "an overdraft is not a free amount"
    )


def test_a_pod_that_asks_for_nothing_fits_on_a_node_that_is_overdrawn() -> None:
    hog = make_pod("hog", cpu_milli=5000, memory_mib=9000)
    assert why_not(make_pod(cpu_milli=0, memory_mib=0), make_node(), hog) is None
    assert why_not(make_pod(cpu_milli=1), make_node(), hog) == Misfit(FitCause.CPU, 1, 0)


@settings(deadline=None)
@given(
    nodes=st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 8192), st.integers(0, 5)), max_size=4),
    pods=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 4096)), max_size=20),
)
def test_placing_never_overfills_a_room(
    nodes: list[tuple[int, int, int]], pods: list[tuple[int, int]]
) -> None:
    placement = Placement(
        room_of(make_node(f"a{n}", allocatable=Resources(cpu, memory), max_pods=slots), ())
        for n, (cpu, memory, slots) in enumerate(nodes)
    )
    for n, (cpu, memory) in enumerate(pods):
        pod = make_pod(f"p{n}", cpu, memory)
        room = placement.first_fit(pod)
        if room is None:
            assert all(placement.why_not(pod, other) for other in placement.rooms.values())
        else:
            placement.place(pod, room)
    for room in placement.rooms.values():
        assert min(room.cpu_milli, room.memory_mib, room.slots) >= 0


@pytest.mark.parametrize("effect", [TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE])
def test_a_taint_that_is_not_tolerated_keeps_a_pod_away(effect: TaintEffect) -> None:
    tainted = make_node(taints=(Taint("gpu", effect, "yes"),))
    assert refusal(tainted) == Misfit(FitCause.TAINT, about="gpu")
    assert refusal(tainted, tolerations=(Toleration("gpu", value="yes"),)) is None


def test_a_preference_not_to_schedule_forbids_nothing() -> None:
    assert refusal(make_node(taints=(Taint("gpu", TaintEffect.PREFER_NO_SCHEDULE),))) is None


def test_every_taint_needs_a_toleration_of_its_own() -> None:
    taints = (Taint("gpu", TaintEffect.NO_SCHEDULE), Taint("spot", TaintEffect.NO_SCHEDULE))
    assert refusal(make_node(taints=taints), tolerations=(Toleration("gpu", exists=True),)) == Misfit(
        FitCause.TAINT, about="spot"
    )


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration("gpu", value="yes"), True),
        (Toleration("gpu", value="no"), False),
        (Toleration("gpu"), False),
        (Toleration("gpu", exists=True), True),
        (Toleration(exists=True), True),
        (Toleration("cpu", exists=True), False),
        (Toleration("gpu", exists=True, effect=TaintEffect.NO_SCHEDULE), True),
        (Toleration("gpu", exists=True, effect=TaintEffect.NO_EXECUTE), False),
    ],
)
def test_a_toleration_matches_by_effect_key_and_value_as_in_kubernetes(
    toleration: Toleration, expected: bool
) -> None:
    assert tolerates(toleration, Taint("gpu", TaintEffect.NO_SCHEDULE, "yes")) is expected


def test_a_node_selector_needs_every_label_with_its_value() -> None:
    ssd = make_node(labels=(("disk", "ssd"),))
    assert refusal(ssd, node_selector=(("disk", "ssd"),)) is None
    assert refusal(ssd, node_selector=(("disk", "hdd"),)) == Misfit(FitCause.NODE_SELECTOR, about="disk=hdd")
    assert refusal(ssd, node_selector=(("disk", "ssd"), ("gpu", "yes"))) == Misfit(
        FitCause.NODE_SELECTOR, about="gpu=yes"
    )


def test_one_term_of_the_node_affinity_must_hold_whole() -> None:
    in_a = Requirement("topology.kubernetes.io/zone", SelectorOperator.IN, ("a",))
    ssd = Requirement("disk", SelectorOperator.EXISTS)
    hdd_free = Requirement("disk", SelectorOperator.NOT_IN, ("hdd",))
    node = make_node(zone="a")
    assert refusal(node, node_affinity=((in_a, hdd_free),)) is None, "NotIn holds for a missing label"
    assert refusal(node, node_affinity=((in_a, ssd),)) == Misfit(FitCause.NODE_AFFINITY)
    assert refusal(node, node_affinity=((in_a, ssd), (hdd_free,))) is None


def test_an_empty_term_of_the_node_affinity_matches_no_node() -> None:
    assert refusal(make_node(), node_affinity=((),)) == Misfit(FitCause.NODE_AFFINITY)


def test_a_pod_stays_in_the_zones_of_its_volumes() -> None:
    assert refusal(make_node(zone="a"), volume_zones=("a", "b")) is None
    assert refusal(make_node(zone="c"), volume_zones=("a", "b")) == Misfit(FitCause.VOLUME_ZONE, about="a, b")


def test_what_is_not_understood_fits_nowhere_with_that_reason() -> None:
    assert refusal(make_node(), unsupported=("minDomains",)) == Misfit(
        FitCause.UNSUPPORTED, about="minDomains"
    )


def test_a_node_without_a_zone_has_no_zone_label() -> None:
    exists = Requirement("topology.kubernetes.io/zone", SelectorOperator.EXISTS)
    assert refusal(make_node(zone=""), node_affinity=((exists,),)) == Misfit(FitCause.NODE_AFFINITY)
    assert refusal(make_node(zone="a"), node_affinity=((exists,),)) is None


def test_a_node_that_would_be_launched_has_what_its_pool_and_type_promise() -> None:
    taint = Taint("gpu", TaintEffect.NO_SCHEDULE)
    pool = make_pool(labels=(("tier", "web"),), taints=(taint,))
    room = room_of_new("new", pool, make_type(cpu_milli=2000, max_pods=7), "b")
    assert (room.cpu_milli, room.memory_mib, room.slots, room.zone) == (2000, 8192, 7, "b")
    assert room.taints == (taint,)
    asked = (("tier", "web"), ("topology.kubernetes.io/zone", "b"), ("kubernetes.io/os", "linux"))
    assert refused_by_node(Scheduling(asked, tolerations=(Toleration("gpu", exists=True),)), room) is None


def test_only_ready_nodes_that_are_not_cordoned_take_pods() -> None:
    nodes = (make_node("a1"), make_node("a2", ready=False), make_node("a3", unschedulable=True))
    view = ClusterView((*nodes, make_node("a4")))
    assert list(placement_of(view, without=["a4"]).rooms) == ["a1"]


def test_a_finished_pod_takes_no_room() -> None:
    done = make_pod("done", cpu_milli=4000, node_name="a1", phase=PodPhase.SUCCEEDED)
    busy = make_pod("busy", cpu_milli=1000, node_name="a1")
    rooms = placement_of(make_snapshot([make_node()], [done, busy]).cluster).rooms
    assert rooms["a1"].cpu_milli == 3000


def test_the_first_room_that_fits_is_taken_of_those_asked_for() -> None:
    small, large = (Room(name, "a", (), ()) for name in ("small", "large"))
    small.offer(Resources(100, 8192), 10)
    large.offer(Resources(4000, 8192), 10)
    placement = Placement([small, large])
    assert placement.first_fit(make_pod(cpu_milli=200)) is large
    assert placement.first_fit(make_pod(cpu_milli=200), [small]) is None
