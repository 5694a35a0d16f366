"""Instances that are late to join: pods get other nodes, with spares; maxima still count them."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.capacity import is_late, spares
from ebbtide.core.nodes.question import LaunchBackoff, launch_backoff
from ebbtide.core.nodes.sizing import plan_launch
from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.pod import PodPhase
from tests.builders import (
    NOW,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)

POOLS = (make_pool(types=(make_type("small", cpu_milli=2000),), zones=("a",)),)


def slot(state: SlotState, age: int, number: int = 0) -> Slot:
    return make_slot(f"op-{number}", state=state, since=NOW - age, instance_type="small", zone="a")


def launches(pods: int, *slots: Slot, **overrides: Any) -> int:
    """How many nodes are launched for so many pods that fill one each."""
    pending = [make_pod(f"p{number}", 2000, phase=PodPhase.PENDING) for number in range(pods)]
    defaults = {"pools": POOLS, "late_join_seconds": 90, "batch_up_fraction": 1.0, "max_workers": 50}
    settings = make_settings(**{**defaults, **overrides})
    record = make_record(operation=make_scale_up(*slots)) if slots else make_record()
    return len(plan_launch(make_snapshot(pods=pending), record, settings, 0).offers)


def test_late_is_running_for_too_long_without_a_node() -> None:
    settings = make_settings(late_join_seconds=90)
    assert is_late(slot(SlotState.LAUNCHED, 90), settings, NOW)
    assert not is_late(slot(SlotState.LAUNCHED, 89), settings, NOW)
    assert not is_late(slot(SlotState.JOINED, 500), settings, NOW), "its Node object is there"
    assert not is_late(slot(SlotState.LAUNCHED, 500), make_settings(), NOW), "no time is set"


def test_a_pod_counts_on_an_instance_on_its_way_and_not_on_one_that_is_late() -> None:
    assert launches(1, slot(SlotState.LAUNCHED, 60)) == 0
    assert launches(1, slot(SlotState.LAUNCHED, 90)) == 2, "one for the pod, and a spare: all so far are late"
    assert launches(1, slot(SlotState.LAUNCHED, 90), late_join_seconds=0) == 0


@pytest.mark.parametrize(
    ("late", "ready", "count", "more"),
    [(0, 3, 4, 0), (1, 9, 4, 1), (1, 1, 10, 5), (2, 0, 3, 3), (1, 3, 0, 0)],
)
def test_there_are_as_many_spares_as_the_share_that_is_late_says(
    late: int, ready: int, count: int, more: int
) -> None:
    slots = [slot(SlotState.LAUNCHED, 200, number) for number in range(late)]
    slots += [slot(SlotState.READY, 100, 10 + number) for number in range(ready)]
    record = make_record(operation=make_scale_up(*slots))
    assert spares(record, make_settings(late_join_seconds=90), NOW, count) == more
    assert spares(make_record(), make_settings(late_join_seconds=90), NOW, count) == 0


def test_spares_stay_within_batch_and_maxima() -> None:
    late = slot(SlotState.LAUNCHED, 200)
    assert launches(3, late) == 6
    assert launches(3, late, batch_up_fraction=0.0, max_batch_up=4) == 4
    assert launches(3, late, max_workers=5) == 4, "the late one still counts"
    small = (make_pool(types=POOLS[0].types, zones=("a",), max_workers=5),)
    assert launches(3, late, pools=small) == 4


def test_what_never_joined_starts_no_backoff_where_a_node_became_ready_after_its_launch() -> None:
    settings = make_settings(backoff_seconds=60)
    never = slot(SlotState.RECLAIMING, 0)
    after_it = slot(SlotState.READY, settings.join_timeout_seconds - 1, 1)
    before_it = slot(SlotState.READY, settings.join_timeout_seconds + 1, 1)
    assert launch_backoff(make_record(operation=make_scale_up(never, after_it)), settings) == LaunchBackoff(
        0, 0
    )
    once = LaunchBackoff(1, NOW + 60, ("workers",))
    assert launch_backoff(make_record(operation=make_scale_up(never, before_it)), settings) == once
    refused = slot(SlotState.FAILED, 0, 2)
    assert launch_backoff(make_record(operation=make_scale_up(refused, after_it)), settings) == once
