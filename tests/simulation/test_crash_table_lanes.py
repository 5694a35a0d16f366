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
from ebbtide.simulator.faults.calls import CrashPlan, Strike
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import ActKind
from tests.builders import make_scale_up, make_slot
from tests.simulation.stories import (
    NO_REMOVALS,
    SETTINGS,
    Story,
    Telling,
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


def struck(telling: Telling, number: int, how: Strike) -> None:
    with suppress(RunnerCrashed):
        telling.tick(telling.ports(CrashPlan(number, how)), "struck")


def go_on(telling: Telling, ticks: int = 60) -> None:
    for _ in range(ticks):
        telling.wait(30)
        telling.tick(owner="another")
    telling.checker.finish(telling.record)


class Protected:
    """A cloud that says a definite no to every terminate."""

    def __init__(self, inner: Cloud) -> None:
        self._inner = inner

    def terminate(self, instance_id: str) -> None:
        raise Final(f"{instance_id} is protected")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def protecting(telling: Telling, plan: CrashPlan | None = None) -> Ports:
    doors = telling.ports(plan or CrashPlan())
    return replace(doors, cloud=cast(Cloud, Protected(doors.cloud)))


@CRASHES
@CALLS
def test_crash_between_the_write_that_extends_a_launch_and_its_calls(number: int, how: Strike) -> None:
    eager = replace(NO_REMOVALS, cooldown_up_seconds=0, max_batch_up=1, max_workers=6)
    telling = Telling(Story("extended", lambda: busy_cluster(Rules(boot=Span(40, 50))), 4, eager))
    first = telling.tick_until(lambda record: record.launching is not None).launching
    assert first is not None
    first_never_joins(telling.world, telling.store)
    telling.world.plan(telling.world.now, "wanted", "default/web=13")
    telling.wait(30)
    struck(telling, number, how)
    telling.wait(30)
    telling.tick(owner="another")
    extended = telling.record.launching
    assert extended is not None
    assert (extended.id, extended.slots[0].instance_id != "") == (first.id, True)
    assert len(extended.slots) > 1, "the first never joins, and holds up nobody"
    go_on(telling)
    assert telling.checker.violations == []
    assert [pod.name for pod in telling.world.inventory.pods.values() if pod.waiting] == []


@CRASHES
@CALLS
def test_the_cloud_refuses_to_terminate_and_the_runner_dies_as_it_is_set_aside(
    number: int, how: Strike
) -> None:
    telling = Telling(Story("protected", idle_cluster, 2, replace(SETTINGS, stuck_seconds=120), 80))
    telling.tick_until(refused, protecting(telling))
    telling.wait(120)
    with suppress(RunnerCrashed):
        telling.tick(protecting(telling, CrashPlan(number, how)), "struck")
    for _ in range(15):
        telling.wait(30)
        telling.tick(protecting(telling), owner="another")
    assert len(telling.record.refused) >= 1
    kept = telling.record.refused[0].removal
    assert telling.world.inventory.nodes[kept.node_name].unschedulable
    assert [act for act in telling.checker.acts if act.kind is ActKind.UNCORDON] == []
    go_on(telling, 80)
    assert telling.problems() == []
    assert kept.node_name not in telling.world.inventory.nodes


@CRASHES
@CALLS
def test_demand_returns_while_a_node_is_drained_and_the_runner_dies(number: int, how: Strike) -> None:
    slow = replace(SETTINGS, max_workers=4)
    telling = Telling(Story("demand", lambda: idle_cluster(Rules(detach=Span(100, 100))), 4, slow))
    telling.tick_until(draining)
    telling.world.plan(telling.world.now, "wanted", "default/web=22")
    telling.wait(20)
    struck(telling, number, how)
    go_on(telling)
    assert telling.checker.violations == []
    assert (telling.ready_workers(), telling.record.operations) == (4, ())
    assert [act for act in telling.checker.acts if act.kind is ActKind.TERMINATE] == []


def test_an_older_version_meets_a_record_with_both_lanes_open(monkeypatch: pytest.MonkeyPatch) -> None:
    telling = Telling(Story("both", idle_cluster, 4))
    record = telling.tick_until(draining)
    one = items.to_item(record)
    launching = make_scale_up(make_slot(state=SlotState.LAUNCHED), id="up")
    both = items.to_item(replace(record, launching=launching))
    assert (one["formatVersion"], both["formatVersion"]) == (1, 2)
    assert items.from_item(both, record.cluster).launching == launching
    monkeypatch.setattr(items, "FORMAT_VERSION", 1)
    assert items.from_item(one, record.cluster).removing == record.removing
    with pytest.raises(NewerRecord, match="it was left as it is"):
        items.from_item(both, record.cluster)
