"""Where an offer has no capacity, only what serves the pods it was chosen for is launched instead."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.operations import scale_up
from ebbtide.model.effect import Launch, Outcome, OutcomeKind
from ebbtide.model.operation import ScaleUp, Slot, SlotCause, SlotState
from ebbtide.model.pod import Pod, PodPhase, Scheduling, Spread
from ebbtide.model.pool import Headroom
from tests.builders import (
    make_nodes,
    make_pod,
    make_pool,
    make_scale_up,
    make_selector,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)
from tests.unit.operations.builders import make_situation, with_work

ZONE = "topology.kubernetes.io/zone"
NODES = make_nodes("a1", "b1")
FULL = [make_pod(f"full-{node.name}", 3800, node_name=node.name) for node in NODES]
TYPES = (make_type(), make_type("tiny", 1000, 2048, "0.01"))
IN_ZONE_A = Scheduling(node_selector=((ZONE, "a"),))
VOLUME_IN_A = Scheduling(volume_zones=("a",))
WEB = (("app", "web"),)
SPREAD = Scheduling(spread=(Spread(ZONE, 1, make_selector(app="web")),))


def pending(name: str = "new", cpu_milli: int = 2000, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING, **overrides)


def refused(*pods: Pod, slots: tuple[Slot, ...] = (), **settings: Any) -> Slot:
    """How a slot in zone a ends for which the cloud has no capacity."""
    slot = make_slot("op-0", state=SlotState.LAUNCHING)
    operation = make_scale_up(slot, *slots)
    return absorbed(operation, *pods, **settings).slots[0]


def absorbed(operation: ScaleUp, *pods: Pod, **settings: Any) -> ScaleUp:
    situation = make_situation(
        make_snapshot(NODES, [*FULL, *pods]), record=with_work(operation), settings=make_settings(**settings)
    )
    no = Outcome(Launch(operation.slots[0], "op"), OutcomeKind.NO_CAPACITY, "none left")
    return scale_up.absorb(operation, [no], situation)


@pytest.mark.parametrize("scheduling", [IN_ZONE_A, VOLUME_IN_A])
def test_no_node_is_launched_in_a_zone_where_the_pods_it_is_for_cannot_run(scheduling: Scheduling) -> None:
    """Nodes that helped nobody were launched every few minutes, up to the maximum."""
    after = refused(pending(scheduling=scheduling))
    assert (after.state, after.why) == (SlotState.FAILED, SlotCause.NO_CAPACITY)
    assert after.refused == ("a/on-demand/small",)


def test_no_node_is_launched_where_a_spread_lets_none_of_its_pods_run() -> None:
    there = [make_pod(f"web-{n}", 100, node_name="b1", labels=WEB, scheduling=SPREAD) for n in range(2)]
    assert refused(pending(labels=WEB, scheduling=SPREAD), *there).state is SlotState.FAILED
    assert refused(pending(labels=WEB, scheduling=SPREAD)).zone == "b"


def test_no_smaller_type_is_launched_that_takes_none_of_its_pods() -> None:
    only_a = make_pool(types=TYPES, zones=("a",))
    assert refused(pending(), pools=(only_a,)).state is SlotState.FAILED
    after = refused(pending(cpu_milli=500), pools=(only_a,))
    assert (after.state, after.instance_type) == (SlotState.RESERVED, "tiny")


def test_another_type_in_the_zone_comes_before_another_zone_where_only_that_helps() -> None:
    after = refused(pending(cpu_milli=500, scheduling=IN_ZONE_A), pools=(make_pool(types=TYPES),))
    assert (after.state, after.zone, after.instance_type) == (SlotState.RESERVED, "a", "tiny")


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (pending(),),
        (pending(), pending("bound", scheduling=IN_ZONE_A)),
        (pending(cpu_milli=9000),),
        (pending(controller="DaemonSet", scheduling=IN_ZONE_A),),
        (pending(cpu_milli=100, scheduling=IN_ZONE_A),),
    ],
    ids=["none asked", "anywhere", "one of them anywhere", "too large for any", "DaemonSet", "has room"],
)
def test_what_may_run_anywhere_or_was_not_asked_for_by_a_pod_goes_to_the_next_zone(
    pods: tuple[Pod, ...],
) -> None:
    after = refused(*pods)
    assert (after.state, after.zone) == (SlotState.RESERVED, "b")


def test_a_pod_that_another_slot_serves_does_not_keep_this_one_in_its_zone() -> None:
    other = make_slot("op-1", state=SlotState.LAUNCHING)
    after = refused(pending(scheduling=IN_ZONE_A), slots=(other,))
    assert (after.state, after.zone) == (SlotState.RESERVED, "b")


def test_headroom_that_is_wanted_in_one_zone_is_not_launched_in_another() -> None:
    """Headroom that has its room keeps nothing in its zone."""
    assert refused(headroom=(Headroom(2000, 1024, 1, zones=("a",)),)).state is SlotState.FAILED
    assert refused(headroom=(Headroom(100, 128, 1, zones=("a",)),)).zone == "b"


def test_a_slot_of_a_pool_or_a_type_that_is_no_longer_configured_has_no_substitute() -> None:
    bound = pending(scheduling=IN_ZONE_A)
    assert refused(bound, pools=(make_pool("other"),)).state is SlotState.FAILED
    after = refused(bound, pools=(make_pool(types=(make_type("large", 8000),)),))
    assert (after.state, after.instance_type) == (SlotState.RESERVED, "large")
