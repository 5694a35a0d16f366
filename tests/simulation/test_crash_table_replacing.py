"""What can happen while a worker is replaced: a test for each row of the table in ARCHITECTURE.md."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.codec import record as items
from ebbtide.errors import NewerRecord
from ebbtide.model.operation import RemovalState, ScaleDown, SlotState
from ebbtide.model.record import Record
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.world import ActKind
from tests.simulation.replace_stories import EXPIRY, REPAIR, old_cluster, silent_cluster
from tests.simulation.stories import Story, StoryRun, first_never_joins

CRASHES = pytest.mark.parametrize("how", [Strike.CRASH_BEFORE, Strike.CRASH_AFTER])
CALLS = pytest.mark.parametrize("number", range(3, 18, 2))
"""At which call of its tick the runner dies."""


def replacing(record: Record) -> ScaleDown | None:
    operation = record.removing
    return operation if isinstance(operation, ScaleDown) and operation.slots else None


def launched(record: Record) -> bool:
    operation = replacing(record)
    return operation is not None and operation.slots[0].state is SlotState.LAUNCHED


def struck(run: StoryRun, number: int, how: Strike) -> None:
    with suppress(RunnerCrashed):
        run.tick(run.ports(CrashPlan(number, how)), "struck")


def go_on(run: StoryRun, ticks: int = 50) -> None:
    for _ in range(ticks):
        run.wait(30)
        run.tick(owner="another")
    run.checker.finish(run.record)


def acts(run: StoryRun, kind: ActKind) -> list[str]:
    found = [act for act in run.checker.acts if act.kind is kind]
    return [act.key if kind is ActKind.LAUNCH else act.node_name for act in found]


def first_worker(run: StoryRun) -> str:
    return next(m.node.name for m in run.world.machines.book.machines.values() if m.ours)


@CRASHES
@CALLS
def test_crash_between_the_write_that_begins_a_replacement_and_its_launch(number: int, how: Strike) -> None:
    run = StoryRun(Story("expiry", old_cluster, 3, EXPIRY))
    old = first_worker(run)
    struck(run, number, how)
    go_on(run)
    assert run.problems() == []
    assert len(set(acts(run, ActKind.LAUNCH))) == 1, "one key, however often it was asked for"
    assert old not in run.world.inventory.nodes
    kinds = [act.kind for act in run.checker.acts]
    assert kinds.index(ActKind.LAUNCH) < kinds.index(ActKind.SOFT_TAINT) < kinds.index(ActKind.TERMINATE)


@CRASHES
@CALLS
def test_the_replacement_never_joins_and_the_runner_dies(number: int, how: Strike) -> None:
    story = Story(
        "expiry", old_cluster, 3, replace(EXPIRY, backoff_max_seconds=86_400, backoff_seconds=86_400)
    )
    run = StoryRun(story)
    old = first_worker(run)
    run.tick_until(launched)
    first_never_joins(run.world, run.store)
    run.wait(EXPIRY.join_timeout_seconds + 30)
    struck(run, number, how)
    go_on(run)
    assert run.problems() == []
    assert old in run.world.inventory.nodes
    assert acts(run, ActKind.SOFT_TAINT) == [], "nothing was done to a node without a replacement"
    assert run.record.removal_failures == 1
    assert run.record.rests == (), "the node is not to blame"


@CRASHES
@CALLS
def test_an_unwell_node_recovers_while_its_replacement_joins_and_the_runner_dies(
    number: int, how: Strike
) -> None:
    run = StoryRun(Story("repair", silent_cluster, 4, REPAIR))
    silent = first_worker(run)
    run.tick_until(launched)
    machine = run.world.nodes.machine_of(silent)
    assert machine is not None
    run.world.nodes.answer_again(machine)
    run.wait(30)
    struck(run, number, how)
    go_on(run)
    assert run.problems() == [], "four workers: what was launched stays until it is idle"
    assert acts(run, ActKind.TERMINATE) == []
    assert run.record.removal_failures == 0, "that it is well again is not a failure"


@CRASHES
@CALLS
def test_the_runner_dies_while_a_silent_node_is_removed_whose_pods_nobody_ends(
    number: int, how: Strike
) -> None:
    run = StoryRun(Story("repair", silent_cluster, 3, REPAIR))
    silent = first_worker(run)
    run.tick_until(lambda record: _state(record) is RemovalState.DRAINED)
    assert any(pod.terminating for pod in run.world.pods_on(silent)), "their kubelet reports no end"
    run.wait(30)
    struck(run, number, how)
    go_on(run)
    assert run.problems() == []
    assert acts(run, ActKind.TERMINATE) == [silent]
    assert silent not in run.world.inventory.nodes


def _state(record: Record) -> RemovalState | None:
    operation = replacing(record)
    return None if operation is None else operation.removals[0].state


def test_the_node_is_interrupted_while_its_replacement_joins() -> None:
    run = StoryRun(Story("expiry", old_cluster, 3, EXPIRY))
    record = run.tick_until(launched)
    operation = replacing(record)
    assert operation is not None
    run.world.plan(run.world.now, "interrupt", operation.removals[0].instance_id)
    run.wait(30)
    run.tick()
    assert acts(run, ActKind.CORDON) == [operation.removals[0].node_name], "it does not wait for the new one"
    go_on(run)
    assert run.problems() == []
    assert len(set(acts(run, ActKind.LAUNCH))) == 1, "the replacement that was on its way is enough"


def test_an_older_version_meets_a_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    run = StoryRun(Story("expiry", old_cluster, 3, EXPIRY))
    record = run.tick_until(launched)
    item = items.to_item(record)
    assert items.from_item(item, record.cluster) == record
    monkeypatch.setattr(items, "FORMAT_VERSION", 2)
    with pytest.raises(NewerRecord, match="has format 3, this Ebbtide knows 2: it was left as it is"):
        items.from_item(item, record.cluster)
    monkeypatch.undo()
    go_on(run)
    assert run.problems() == []
    assert items.to_item(run.record)["formatVersion"] == 1, "an older version can continue"
