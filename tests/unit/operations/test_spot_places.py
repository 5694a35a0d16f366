"""Where the replacement of a spot node comes: where the pods of the node can run."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.operations import spot
from ebbtide.core.operations.situation import Situation
from ebbtide.core.operations.spot import EndWhy
from ebbtide.model.check import NodeCause
from ebbtide.model.effect import Launch, Outcome, OutcomeKind
from ebbtide.model.operation import Slot, SlotCause, SlotState, Spot, SpotEnd, SpotKind
from ebbtide.model.pod import Pod, Scheduling
from tests.builders import (
    NOW,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import make_situation

NODES = make_nodes("b1", "b2", "b3", "a1")
FULL = [make_pod(f"full-{node.name}", 3800, node_name=node.name) for node in NODES[1:]]
ANYWHERE = make_pod("web", 2000, node_name="b1")
VOLUME_IN_B = make_pod("db", 2000, node_name="b1", scheduling=Scheduling(volume_zones=("b",)))
VOLUME_IN_C = make_pod("db", 2000, node_name="b1", scheduling=Scheduling(volume_zones=("c",)))
RECOMMENDED, INTERRUPTED = SpotKind.REBALANCE, SpotKind.INTERRUPTION


def notice(kind: SpotKind, **overrides: Any) -> Spot:
    return make_spot("b1", **{"kind": kind, "deadline": NOW + 120, **overrides})


def situation(work: Spot, pod: Pod, now: int = NOW) -> Situation:
    return make_situation(
        make_snapshot(NODES, [pod, *FULL]),
        record=make_record(spots=(work,)),
        settings=make_settings(pools=(make_pool(zones=("a", "b")),), max_workers=9),
        now=now,
    )


def zone_of(kind: SpotKind, pod: Pod) -> str:
    work = notice(kind)
    slot = spot.advance(work, situation(work, pod)).state.slot
    return "" if slot is None else slot.zone


@pytest.mark.parametrize("kind", [RECOMMENDED, INTERRUPTED])
def test_a_replacement_comes_where_the_pods_can_run(kind: SpotKind) -> None:
    """It came where the fewest workers are, and a pod with a volume was left without a place."""
    assert zone_of(kind, ANYWHERE) == "a"
    assert zone_of(kind, VOLUME_IN_B) == "b"


def test_where_the_pods_can_run_nowhere_only_an_interruption_is_answered() -> None:
    assert zone_of(INTERRUPTED, VOLUME_IN_C) == "a"
    assert zone_of(RECOMMENDED, VOLUME_IN_C) == ""
    lapsed = notice(RECOMMENDED, closing=SpotEnd.LAPSED)
    why = spot.why_ended(lapsed, situation(lapsed, VOLUME_IN_C))
    assert (why.cause, type(why)) == (NodeCause.NO_REPLACEMENT, EndWhy)


def test_a_node_stays_whose_pods_do_not_fit_where_its_replacement_came() -> None:
    ready = make_slot("s", state=SlotState.READY, node_name="a1", instance_id="i-a1")
    work = notice(RECOMMENDED, slot=ready)
    assert spot.advance(work, situation(work, VOLUME_IN_B)).state.removal is None


def absorbed(kind: SpotKind, pod: Pod, asked: Slot) -> Slot:
    """How a slot ends for which the cloud has no capacity."""
    work = notice(kind, slot=asked)
    no = Outcome(Launch(asked, work.id), OutcomeKind.NO_CAPACITY, "none left")
    slot = spot.absorb(work, (no,), situation(work, pod)).slot
    assert slot is not None
    return slot


def test_where_there_is_no_capacity_a_recommendation_launches_nothing_that_would_not_help() -> None:
    assert absorbed(RECOMMENDED, ANYWHERE, make_slot("s", state=SlotState.LAUNCHING)).zone == "b"
    asked = make_slot("s", state=SlotState.LAUNCHING, zone="b")
    slot = absorbed(RECOMMENDED, VOLUME_IN_B, asked)
    assert (slot.state, slot.why) == (SlotState.FAILED, SlotCause.NO_CAPACITY)
    assert absorbed(INTERRUPTED, VOLUME_IN_B, asked).zone == "a"
