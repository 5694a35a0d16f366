"""Row 35: all gates and the drain rules are asked before anything is launched for a recommendation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS
from ebbtide.core.operations import spot
from ebbtide.model.check import NodeCause
from ebbtide.model.operation import Spot, SpotEnd, SpotKind
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import DrainBackoff
from ebbtide.model.snapshot import Reading, Snapshot
from tests.builders import (
    NOW,
    make_budget,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import fleet, make_situation, with_pods

SEEN = fleet(make_node("a1"))
PLAYED = make_pod("mc-0", 500, 2048, node_name="a1", annotations=((PLAN, "balanced"), (PLAYERS, "3")))
BARE = make_pod("bare", node_name="a1", controller="")
GUARDED = make_pod("db", node_name="a1", labels=(("app", "db"),))


def advanced(snapshot: Snapshot, now: int = NOW, **given: Any) -> Spot:
    work = make_spot(kind=SpotKind.REBALANCE, deadline=NOW + 600)
    record = make_record(**{"spots": (work,), **given.pop("record", {})})
    settings = make_settings(**given)
    return spot.advance(work, make_situation(snapshot, record=record, settings=settings, now=now)).state


def test_a_node_that_nothing_keeps_is_replaced() -> None:
    assert advanced(SEEN).slot is not None


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (PLAYED, NodeCause.POD_BLOCKS),
        (BARE, NodeCause.POD_BLOCKS),
        (GUARDED, NodeCause.POD_WAITS),
    ],
)
def test_nothing_is_launched_for_a_node_that_cannot_be_drained(pod: Pod, why: NodeCause) -> None:
    seen = with_pods(SEEN, pod)
    seen = replace(seen, cluster=replace(seen.cluster, budgets=(make_budget(0, app="db"),)))
    assert advanced(seen).slot is None
    late = advanced(seen, NOW + 900)
    assert late.closing is SpotEnd.LAPSED
    situation = make_situation(seen, record=make_record(spots=(late,)), now=NOW + 900)
    assert spot.why_ended(late, situation).cause is why


def test_nothing_is_launched_for_a_node_that_somebody_cordoned_or_that_is_skipped() -> None:
    assert advanced(fleet(make_node("a1", unschedulable=True))).slot is None
    rest = DrainBackoff("i-a1", NOW + 60, "it would not drain")
    assert advanced(SEEN, record={"rests": (rest,)}).slot is None
    assert advanced(replace(SEEN, cluster=replace(SEEN.cluster, nodes=SEEN.cluster.nodes[1:]))).slot is None


@pytest.mark.parametrize("cpu", [None, 0.70, 0.95])
def test_nothing_is_launched_while_the_load_is_unknown_or_would_not_fit(cpu: float | None) -> None:
    """With the replacement as many carry it as now."""
    assert advanced(replace(SEEN, cpu=Reading(cpu, NOW, "" if cpu else "unknown"))).slot is None
    assert advanced(replace(SEEN, cpu=Reading(0.69, NOW))).slot is not None


def test_nothing_is_launched_while_a_pod_is_pending() -> None:
    assert advanced(with_pods(SEEN, make_pod("new", phase=PodPhase.PENDING, node_name=""))).slot is None


def test_the_minimum_and_the_zones_are_asked_as_if_the_replacement_were_there() -> None:
    assert advanced(SEEN, min_workers=4).slot is not None, "four are left"
    assert advanced(SEEN, min_workers=5).slot is None
    lone = make_snapshot([make_node("a1"), make_node("b1"), make_node("b2")])
    assert advanced(lone).slot is not None, "its replacement comes into zone a, which has the fewest"
    elsewhere = make_pool(zones=("b",))
    assert advanced(lone, pools=(elsewhere,)).slot is None, "zone a would be left without a worker"


def test_a_pool_that_is_no_longer_configured_is_not_replaced() -> None:
    assert advanced(SEEN, pools=(make_pool("other"),)).slot is None
