"""Weights, limits and the fallback of spot pools: where the next node is launched."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.capacity import held_by_pool, why_over_limits
from ebbtide.core.nodes.offers import next_offer, resting_offers
from ebbtide.core.nodes.sizing import plan_launch
from ebbtide.core.operations.slots import advance_slot
from ebbtide.model.operation import SlotCause, SlotState
from ebbtide.model.pod import PlanStop, Pod, PodPhase, Resources, StopCause
from ebbtide.model.pool import PoolLimits
from ebbtide.model.record import CapacityBackoff, Counted, Record
from ebbtide.model.snapshot import Market
from tests.builders import (
    NOW,
    make_instance,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)
from tests.unit.operations.builders import make_situation, with_work

CHEAP = make_pool("cheap", zones=("a",), types=(make_type("c", price="0.05"),))
RESERVED = make_pool("reserved", zones=("a",), types=(make_type("r", price="0.20"),), weight=10)
SPOT = make_pool("spot", zones=("a", "b"), types=(make_type("s", spot_price="0.02"),), market=Market.SPOT)


def pending(count: int, cpu_milli: int = 3000) -> list[Pod]:
    return [make_pod(f"p-{n}", cpu_milli, 512, phase=PodPhase.PENDING) for n in range(count)]


def launched(pods: int, *pools: Any, record: Record | None = None, **overrides: Any) -> list[str]:
    settings = make_settings(**{"pools": pools, "max_workers": 50, "max_batch_up": 50, **overrides})
    snapshot = make_snapshot((), pending(pods))
    plan = plan_launch(snapshot, record or make_record(), settings, 0)
    return sorted(f"{o.pool.name}/{o.zone}/{o.market}" for o in plan.offers)


def test_a_pool_of_more_weight_comes_first_whatever_it_costs() -> None:
    assert launched(2, CHEAP, RESERVED) == ["reserved/a/on-demand"] * 2
    assert launched(2, CHEAP, replace(RESERVED, weight=0)) == ["cheap/a/on-demand"] * 2


def test_weight_decides_also_where_no_pod_is_pending() -> None:
    settings = make_settings(pools=(CHEAP, RESERVED), max_batch_up=2)
    plan = plan_launch(make_snapshot((), []), make_record(), settings, 2)
    assert [offer.pool.name for offer in plan.offers] == ["reserved"] * 2


def test_a_pool_that_is_full_leaves_the_rest_to_the_next() -> None:
    full = replace(RESERVED, max_workers=1)
    assert launched(3, CHEAP, full) == ["cheap/a/on-demand"] * 2 + ["reserved/a/on-demand"]
    limited = replace(RESERVED, limits=PoolLimits(cpu_milli=8000))
    assert launched(3, CHEAP, limited) == ["cheap/a/on-demand"] + ["reserved/a/on-demand"] * 2
    by_memory = replace(RESERVED, limits=PoolLimits(memory_mib=8192))
    assert launched(3, CHEAP, by_memory) == ["cheap/a/on-demand"] * 2 + ["reserved/a/on-demand"]


def test_a_pool_of_more_weight_without_capacity_is_skipped() -> None:
    resting = make_record(offer_rests=(CapacityBackoff("a/on-demand/r", NOW + 60),))
    assert launched(1, CHEAP, RESERVED, record=resting) == ["cheap/a/on-demand"]
    assert launched(1, RESERVED, record=resting) == ["reserved/a/on-demand"]


def test_smaller_types_use_what_larger_ones_would_exceed() -> None:
    types = (make_type("l", 8000, 16384, "0.08"), make_type("s", 2000, 4096, "0.03"))
    pool = make_pool(zones=("a",), types=types, limits=PoolLimits(cpu_milli=10_000))
    settings = make_settings(pools=(pool,), max_workers=50, max_batch_up=50)
    plan = plan_launch(make_snapshot((), pending(9, 1900)), make_record(), settings, 0)
    assert sorted(offer.node_type.name for offer in plan.offers) == ["l", "s"]
    assert plan.stopped == PlanStop(StopCause.AT_LIMITS)


def test_nodes_that_exist_and_slots_of_every_lane_count_against_the_limits() -> None:
    pool = make_pool(limits=PoolLimits(cpu_milli=12_000))
    nodes = make_nodes("a1", "b1")
    snapshot = make_snapshot(nodes, pending(3))
    settings = make_settings(pools=(pool,), max_batch_up=9, max_workers=9)
    assert held_by_pool(snapshot, make_record(), pool) == Resources(8000, 16384)
    assert len(plan_launch(snapshot, make_record(), settings, 0).offers) == 1
    coming = make_record(operation=make_scale_up(make_slot()))
    assert held_by_pool(snapshot, coming, pool) == Resources(12_000, 24_576)
    assert plan_launch(snapshot, coming, settings, 0).offers == ()


def test_what_is_not_listed_for_one_look_still_counts() -> None:
    pool = make_pool(limits=PoolLimits(cpu_milli=12_000))
    before = make_record(counted_before=(Counted("workers", 2),))
    assert held_by_pool(make_snapshot(()), before, pool).cpu_milli == 8000
    assert held_by_pool(make_snapshot(()), before, pool, cautious=False).cpu_milli == 0


def test_a_type_that_the_pool_no_longer_has_counts_as_its_node_says() -> None:
    pool = make_pool(limits=PoolLimits(cpu_milli=12_000))
    odd = make_nodes("a1", instance_type="old", allocatable=Resources(16_000, 1024))
    assert held_by_pool(make_snapshot(odd), make_record(), pool).cpu_milli == 16_000
    lone = make_snapshot((), [], extra_instances=[make_instance("i-x1", instance_type="old")])
    assert held_by_pool(lone, make_record(), pool).cpu_milli == 4000
    unmatched = make_snapshot(make_nodes("a1"), [], instances=())
    assert held_by_pool(unmatched, make_record(), pool).cpu_milli == 4000


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (PoolLimits(cpu_milli=7000), "8000m CPU, its limit is 7000m"),
        (PoolLimits(memory_mib=9000), "16384 MiB memory, its limit is 9000 MiB"),
        (PoolLimits(cpu_milli=8000, memory_mib=16384), ""),
        (None, ""),
    ],
)
def test_a_slot_that_would_exceed_a_limit_is_not_asked_for(limits: PoolLimits | None, says: str) -> None:
    """The pool may have been given limits, or another lane may have launched, after it was planned."""
    pool = make_pool(limits=limits)
    slot = make_slot()
    record = with_work(make_scale_up(slot))
    settings = make_settings(pools=(pool,))
    situation = make_situation(make_snapshot(make_nodes("a1")), record=record, settings=settings)
    after, effects = advance_slot(slot, "op", situation)
    asked = f"with it, the nodes of pool workers offer {says}" if says else ""
    assert why_over_limits(situation.snapshot, record, pool) == asked
    assert (after.state is SlotState.FAILED, len(effects)) == (bool(says), not says)
    assert after.why is (SlotCause.MAXIMUM if says else SlotCause.NONE)


def test_spot_without_capacity_is_replaced_by_on_demand_in_the_same_pool() -> None:
    one = make_record(offer_rests=(CapacityBackoff("a/spot/s", NOW + 60),))
    both = make_record(
        offer_rests=(CapacityBackoff("a/spot/s", NOW + 60), CapacityBackoff("b/spot/s", NOW + 60))
    )
    assert launched(1, SPOT) == ["spot/a/spot"]
    assert launched(1, SPOT, record=one) == ["spot/b/spot"]
    assert launched(1, SPOT, record=both) == ["spot/a/on-demand"]
    assert launched(1, replace(SPOT, on_demand_fallback=False), record=both) == ["spot/a/spot"]
    assert launched(1, SPOT, replace(CHEAP, weight=1), record=both) == ["cheap/a/on-demand"]
    assert launched(1, replace(SPOT, weight=1), CHEAP, record=both) == ["spot/a/on-demand"]


def test_an_open_launch_remembers_what_had_no_capacity_for_as_long_as_an_offer_rests() -> None:
    slot = make_slot(refused=("a/spot/s", "b/spot/s"), since=NOW - 100)
    record = make_record(operation=make_scale_up(slot))
    settings = make_settings(pools=(SPOT,), offer_rest_seconds=600)
    assert resting_offers(record, settings, NOW) == {"a/spot/s", "b/spot/s"}
    assert resting_offers(record, settings, NOW + 500) == frozenset()
    assert resting_offers(make_record(), settings, NOW) == frozenset()


def test_a_slot_that_began_on_demand_asks_for_spot_last() -> None:
    settings = make_settings(pools=(SPOT,))
    began_on_demand = make_slot(
        pool="spot", instance_type="s", market=Market.ON_DEMAND, refused=("a/on-demand/s",)
    )
    began_spot = make_slot(pool="spot", instance_type="s", market=Market.SPOT, refused=("a/spot/s",))
    assert next_offer(began_on_demand, settings) == ("b", Market.ON_DEMAND, "s")
    assert next_offer(began_spot, settings) == ("b", Market.SPOT, "s")
