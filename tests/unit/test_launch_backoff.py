"""A launch that failed for want of capacity holds up nothing but what had none; any other failure nothing but
its pool."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.offers import names_of_offers
from ebbtide.core.operations import scale_up
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.operation import Slot, SlotCause, SlotState
from ebbtide.model.pod import Pod, PodPhase, Scheduling
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Market, Snapshot
from tests.builders import (
    NOW,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
    values_of,
)

GPU_LABEL = (("kind", "gpu"),)
GENERAL = make_pool(zones=("a",))
GPU = make_pool("gpu", types=(make_type("large", 16000, 65536, "0.90"),), zones=("a",), labels=GPU_LABEL)
POOLS = (GENERAL, GPU)
SOLD_OUT, OTHER = "a/on-demand/large", "a/on-demand/small"
NODES = make_nodes("a1", "a2")
FULL = [make_pod(f"full-{node.name}", 4000, node_name=node.name) for node in NODES]
TRAIN = make_pod("train", 8000, phase=PodPhase.PENDING, scheduling=Scheduling(node_selector=GPU_LABEL))
WEB = make_pod("web", 1000, phase=PodPhase.PENDING)


def without_capacity(*offers: str, key: str = "op-0", **overrides: Any) -> Slot:
    given = {"state": SlotState.FAILED, "why": SlotCause.NO_CAPACITY, "since": NOW, "refused": offers}
    return make_slot(key, **{**given, **overrides})


def closed(*slots: Slot, **before: Any) -> tuple[int, int, tuple[str, ...]]:
    operation = make_scale_up(*slots)
    record = make_record(operation=operation, **before)
    after = scale_up.close(record, operation, make_settings(backoff_seconds=60), NOW).record
    return after.launch_failures, after.launch_backoff_until - NOW, after.launch_backoff_offers


def waiting(**overrides: Any) -> Record:
    failed = {"launch_failures": 5, "launch_backoff_until": NOW + 900, "launch_backoff_offers": (SOLD_OUT,)}
    return make_record(**{"pending_since": NOW - 600, **failed, **overrides})


def seen(*pods: Pod, cpu: float = 0.5) -> Snapshot:
    return make_snapshot(NODES, [*FULL, *pods], cpu=cpu)


def decided(snapshot: Snapshot, record: Record, **settings: Any) -> Decision:
    return decide(snapshot, record, make_settings(**{"pools": POOLS, **settings}), NOW, "d1")


def backoff_of(decision: Decision) -> Check:
    up = next(verdict for verdict in decision.verdicts if verdict.action is Action.SCALE_UP)
    return next(check for check in up.checks if check.name == "back-off over")


def test_what_had_no_capacity_is_remembered_with_the_back_off() -> None:
    assert closed(without_capacity(SOLD_OUT)) == (1, 60, (SOLD_OUT,))
    assert closed(without_capacity(SOLD_OUT), launch_failures=2) == (3, 240, (SOLD_OUT,))


def test_what_launches_wait_for_already_is_waited_for_as_long_as_the_new() -> None:
    """Otherwise two pools that are sold out would be asked for in turn, with every tick."""
    before = {"launch_failures": 1, "launch_backoff_until": NOW + 30, "launch_backoff_offers": (SOLD_OUT,)}
    assert closed(without_capacity(OTHER, SOLD_OUT), **before) == (2, 120, (SOLD_OUT, OTHER))
    over = {**before, "launch_backoff_until": NOW}
    assert closed(without_capacity(OTHER), **over) == (2, 120, (OTHER,))


@pytest.mark.parametrize(
    ("slots", "about"),
    [
        ((make_slot(pool="gpu", state=SlotState.RECLAIMED, since=NOW, why=SlotCause.NO_NODE),), ("gpu",)),
        ((make_slot(pool="gpu", state=SlotState.FAILED, since=NOW, why=SlotCause.REFUSED),), ("gpu",)),
        (
            (
                without_capacity(SOLD_OUT, pool="gpu"),
                make_slot("op-1", pool="web", state=SlotState.FAILED, since=NOW, why=SlotCause.NO_ANSWER),
            ),
            (SOLD_OUT, "web"),
        ),
    ],
)
def test_any_other_failure_holds_up_its_pool(slots: tuple[Slot, ...], about: tuple[str, ...]) -> None:
    assert closed(*slots)[2] == about


def test_a_back_off_of_every_launch_is_not_narrowed_while_it_lasts() -> None:
    before = {"launch_failures": 1, "launch_backoff_until": NOW + 30}
    assert closed(without_capacity(SOLD_OUT), **before) == (2, 120, ())


def never_joined(pool: str, key: str = "op-0") -> Slot:
    return make_slot(key, pool=pool, state=SlotState.RECLAIMED, since=NOW, why=SlotCause.NO_NODE)


def test_where_a_second_pool_fails_every_launch_waits() -> None:
    """A broken image, or a token that is no longer valid: each pool would be tried in turn, all night."""
    assert closed(never_joined("gpu"), never_joined("web", "op-1")) == (1, 60, ())
    once = {"launch_failures": 1, "launch_backoff_until": NOW - 5, "launch_backoff_offers": ("gpu",)}
    assert closed(never_joined("web"), **once) == (2, 120, ())
    assert closed(never_joined("gpu"), **once) == (2, 120, ("gpu",))
    every = {"launch_failures": 2, "launch_backoff_until": NOW - 5}
    assert closed(never_joined("gpu"), **every) == (3, 240, ()), "as it was before"


@pytest.mark.parametrize(
    ("pool", "left", "expected"),
    [("web", 900, (3, 900, ("gpu",))), ("web", 0, (0, -NOW, ())), ("gpu", 900, (0, -NOW, ()))],
)
def test_a_node_of_another_pool_does_not_end_the_back_off_of_a_broken_one(
    pool: str, left: int, expected: tuple[int, int, tuple[str, ...]]
) -> None:
    held = {"launch_failures": 3, "launch_backoff_until": NOW + left, "launch_backoff_offers": ("gpu",)}
    assert closed(make_slot(pool=pool, state=SlotState.READY, since=NOW), **held) == expected


def test_a_node_that_never_joined_does_not_end_the_back_off_of_its_pool_because_another_did() -> None:
    held = {"launch_failures": 3, "launch_backoff_until": NOW + 900, "launch_backoff_offers": ("gpu",)}
    ready = make_slot("op-1", pool="web", state=SlotState.READY, since=NOW)
    assert closed(never_joined("gpu"), ready, **held) == (3, 900, ("gpu",))


def test_a_node_that_became_ready_ends_it() -> None:
    ready = make_slot("op-1", state=SlotState.READY, since=NOW)
    assert closed(without_capacity(SOLD_OUT), ready, launch_backoff_offers=(OTHER,)) == (0, -NOW, ())


@pytest.mark.parametrize("about", [SOLD_OUT, "gpu"])
def test_a_pod_of_another_pool_gets_its_node_while_launches_of_one_pool_fail(about: str) -> None:
    """It waited for up to an hour, since one back-off held for all launches."""
    decision = decided(seen(TRAIN, WEB), waiting(launch_backoff_offers=(about,)))
    assert (decision.action, [slot.pool for slot in decision.slots]) == (Action.SCALE_UP, [GENERAL.name])
    assert backoff_of(decision).passed


def test_pools_of_the_same_types_do_not_hold_up_each_other_unless_capacity_is_missing() -> None:
    twin = replace(GENERAL, name="twin")
    held = waiting(launch_backoff_offers=(GENERAL.name,))
    assert [slot.pool for slot in decided(seen(WEB), held, pools=(GENERAL, twin)).slots] == ["twin"]
    sold_out = waiting(launch_backoff_offers=(OTHER,))
    assert decided(seen(WEB), sold_out, pools=(GENERAL, twin)).action is Action.NOTHING


def test_what_is_left_out_is_no_reason_where_it_would_not_help() -> None:
    """The pod has room on a node that is on its way, or is too large for all that there is."""
    coming = make_scale_up(make_slot(state=SlotState.LAUNCHED))
    on_its_way = decided(seen(WEB), waiting(operation=replace(coming, started_at=NOW - 600)))
    assert backoff_of(on_its_way).passed
    giant = make_pod("giant", 64_000, phase=PodPhase.PENDING)
    assert backoff_of(decided(seen(giant), waiting())).passed


def test_the_pod_of_the_pool_that_is_sold_out_waits() -> None:
    check = backoff_of(decided(seen(TRAIN), waiting()))
    assert values_of(check) == ("back-off over", False, 900, 0, "")
    later = decided(seen(TRAIN), waiting(launch_backoff_until=NOW))
    assert [slot.pool for slot in later.slots] == [GPU.name]


def test_where_every_launch_backs_off_no_pool_launches() -> None:
    assert not backoff_of(decided(seen(TRAIN, WEB), waiting(launch_backoff_offers=()))).passed


def test_while_a_launch_is_open_what_it_found_sold_out_holds_up_nothing_else() -> None:
    operation = make_scale_up(without_capacity(SOLD_OUT), make_slot("op-1", state=SlotState.LAUNCHED))
    record = make_record(pending_since=NOW - 600, operation=replace(operation, started_at=NOW - 600))
    web = [replace(WEB, name=f"web-{n}", uid=f"uid-{n}") for n in range(5)]
    decision = decided(seen(TRAIN, *web), record)
    assert [slot.pool for slot in decision.slots] == [GENERAL.name]


@pytest.mark.parametrize("overrides", [{"min_workers": 1}, {"min_workers": 1, "waking": True}])
@pytest.mark.parametrize("about", [SOLD_OUT, "gpu"])
def test_no_node_of_another_pool_stands_in_for_the_minimum_of_the_one_that_fails(
    overrides: dict[str, Any], about: str
) -> None:
    pools = (GENERAL, replace(GPU, **overrides))
    record = waiting(pending_since=0, short_since=NOW - 600, launch_backoff_offers=(about,))
    assert decided(seen(), record, pools=pools).action is Action.NOTHING
    hot = decided(seen(cpu=0.9), record, pools=pools)
    assert [slot.pool for slot in hot.slots] == [GENERAL.name], "load is no concern of that pool alone"


def test_a_pool_keeps_its_minimum_while_one_of_its_zones_is_sold_out() -> None:
    pools = (GENERAL, replace(GPU, zones=("a", "b"), min_workers=1))
    decision = decided(seen(), waiting(pending_since=0, short_since=NOW - 600), pools=pools)
    assert [(slot.pool, slot.zone) for slot in decision.slots] == [(GPU.name, "b")]


def test_a_spot_pool_that_falls_back_offers_on_demand_as_well() -> None:
    spot = replace(GPU, market=Market.SPOT)
    assert list(names_of_offers(replace(spot, on_demand_fallback=False))) == ["a/spot/large"]
    both = ["a/spot/large", "a/on-demand/large"]
    assert list(names_of_offers(replace(spot, on_demand_fallback=True))) == both
