"""What can happen with two lanes: a test for each row of the table in ARCHITECTURE.md."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.adapters.stores.codec import record as items
from ebbtide.engine.ports import Ports
from ebbtide.errors import Final, NewerRecord
from ebbtide.model.operation import RemovalState, ScaleDown, SlotState
from ebbtide.model.record import Record
from ebbtide.ports import Cloud
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import ActKind
from tests.builders import make_scale_up, make_slot
from tests.simulation.stories import (
    NO_REMOVALS,
    SETTINGS,
    Story,
    StoryRun,
    busy_cluster,
    first_never_joins,
    idle_cluster,
)

CRASHES = pytest.mark.parametrize("how", [Strike.CRASH_BEFORE, Strike.CRASH_AFTER])
CALLS = pytest.mark.parametrize("number", range(3, 24, 2))
"""At which call of its tick the runner dies."""


def draining(record: Record) -> bool:
    operation = record.removing
    return isinstance(operation, ScaleDown) and operation.removals[0].state is RemovalState.DRAINING


def refused(record: Record) -> bool:
    operation = record.removing
    return isinstance(operation, ScaleDown) and operation.removals[0].refused_since > 0


def struck(story_run: StoryRun, number: int, how: Strike) -> None:
    with suppress(RunnerCrashed):
        story_run.tick(story_run.ports(CrashPlan(number, how)), "struck")


def go_on(story_run: StoryRun, ticks: int = 60) -> None:
    for _ in range(ticks):
        story_run.wait(30)
        story_run.tick(owner="another")
    story_run.checker.finish(story_run.record)


class Protected:
    """A cloud that says a definite no to every terminate."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner

    def terminate(self, instance_id: str) -> None:
        raise Final(f"{instance_id} is protected")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def protecting(story_run: StoryRun, plan: CrashPlan | None = None) -> Ports:
    opened = story_run.ports(plan or CrashPlan())
    return replace(opened, cloud=cast(Cloud, Protected(opened.cloud)))


@CRASHES
@CALLS
def test_crash_between_the_write_that_extends_a_launch_and_its_calls(number: int, how: Strike) -> None:
    eager = replace(NO_REMOVALS, cooldown_up_seconds=0, max_batch_up=1, max_workers=6)
    story_run = StoryRun(Story("extended", lambda: busy_cluster(Rules(boot=Span(40, 50))), 4, eager))
    first = story_run.tick_until(lambda record: record.launching is not None).launching
    assert first is not None
    first_never_joins(story_run.world, story_run.store)
    story_run.world.plan(story_run.world.now, "wanted", "default/web=13")
    story_run.wait(30)
    struck(story_run, number, how)
    story_run.wait(30)
    story_run.tick(owner="another")
    extended = story_run.record.launching
    assert extended is not None
    assert (extended.id, extended.slots[0].instance_id != "") == (first.id, True)
    assert len(extended.slots) > 1, "the first never joins, and holds up nobody"
    go_on(story_run)
    assert story_run.checker.violations == []
    assert [pod.name for pod in story_run.world.inventory.pods.values() if pod.waiting] == []


@CRASHES
@CALLS
def test_the_cloud_refuses_to_terminate_and_the_runner_dies_as_it_is_set_aside(
    number: int, how: Strike
) -> None:
    story_run = StoryRun(Story("protected", idle_cluster, 2, replace(SETTINGS, stuck_seconds=120), 80))
    story_run.tick_until(refused, protecting(story_run))
    story_run.wait(120)
    with suppress(RunnerCrashed):
        story_run.tick(protecting(story_run, CrashPlan(number, how)), "struck")
    for _ in range(15):
        story_run.wait(30)
        story_run.tick(protecting(story_run), owner="another")
    assert len(story_run.record.refused) >= 1
    kept = story_run.record.refused[0].removal
    assert story_run.world.inventory.nodes[kept.node_name].unschedulable
    assert [act for act in story_run.checker.acts if act.kind is ActKind.UNCORDON] == []
    go_on(story_run, 80)
    assert story_run.problems() == []
    assert kept.node_name not in story_run.world.inventory.nodes


@CRASHES
@CALLS
def test_demand_returns_while_a_node_is_drained_and_the_runner_dies(number: int, how: Strike) -> None:
    slow = replace(SETTINGS, max_workers=4)
    story_run = StoryRun(Story("demand", lambda: idle_cluster(Rules(detach=Span(100, 100))), 4, slow))
    story_run.tick_until(draining)
    story_run.world.plan(story_run.world.now, "wanted", "default/web=22")
    story_run.wait(20)
    struck(story_run, number, how)
    go_on(story_run)
    assert story_run.checker.violations == []
    assert (story_run.ready_workers(), story_run.record.operations) == (4, ())
    assert [act for act in story_run.checker.acts if act.kind is ActKind.TERMINATE] == []


def test_an_older_version_meets_a_record_with_both_lanes_open(monkeypatch: pytest.MonkeyPatch) -> None:
    story_run = StoryRun(Story("both", idle_cluster, 4))
    record = story_run.tick_until(draining)
    one = items.to_item(record)
    launching = make_scale_up(make_slot(state=SlotState.LAUNCHED), id="up")
    both = items.to_item(replace(record, launching=launching))
    assert (one["formatVersion"], both["formatVersion"]) == (1, 2)
    assert items.from_item(both, record.cluster).launching == launching
    monkeypatch.setattr(items, "FORMAT_VERSION", 1)
    assert items.from_item(one, record.cluster).removing == record.removing
    with pytest.raises(NewerRecord, match="it was left as it is"):
        items.from_item(both, record.cluster)
