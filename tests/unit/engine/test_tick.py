"""The tick: one runner at a time, one sentence, and whatever happens the lease is given back."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.errors import LeaseLost, NewerRecord
from ebbtide.model.check import Gate
from ebbtide.model.decision import Action
from ebbtide.model.effect import Cordon, Launch
from ebbtide.model.events import Alarm, AlarmKind, OperationClosed
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Removal, ScaleDown, ScaleUp, SlotState
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.model.snapshot import ClusterView, Reading
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimCluster, SimMetrics
from ebbtide.simulator.world.rules import Span
from tests.builders import (
    make_scale_down,
    make_scale_up,
    make_slot,
    values_of,
)
from tests.unit.engine.builders import QUICK, MeddlingStore, Small, quick_settings


def closed(record: Record) -> bool:
    return record.operation is None


def test_a_tick_ends_in_one_sentence_that_says_what_was_done_and_why() -> None:
    report = Small().tick()
    assert report.says.startswith("remove ")
    assert "CPU 0.0" in report.says
    assert "DRAINING" in report.says


def test_the_record_keeps_what_the_last_tick_said() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    assert small.tick().says == small.record.last_said
    small = Small()
    started = small.tick()
    assert small.record.last_said == started.says
    assert small.tick_until(closed).says == small.record.last_said != started.says


def test_what_a_tick_said_is_shortened_for_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.engine.record_machine.SAID_AT_MOST", 30)
    small = Small(settings=quick_settings(min_workers=3))
    assert small.tick().says.startswith("nothing to do: no scale-up: ")
    assert small.record.last_said == "nothing to do: no scale-up: …"


def test_a_scale_down_is_carried_to_its_end_over_several_ticks() -> None:
    small = Small()
    small.tick()
    last = small.tick_until(closed)
    assert [fact.succeeded for fact in facts_in(small.store.read_log(), OperationClosed)] == [True]
    assert not last.quiet
    assert small.nodes[0].name not in small.world.view().node_named
    assert small.record.last_scale_at > 0
    assert not any(node.unschedulable for node in small.world.view().nodes)


def test_a_scale_up_is_carried_to_its_end_over_several_ticks() -> None:
    small = Small(settings=quick_settings(min_workers=4))
    small.tick()
    assert isinstance(small.record.operation, ScaleUp)
    small.tick_until(closed)
    (ended,) = facts_in(small.store.read_log(), OperationClosed)
    assert (ended.succeeded, len(ended.ready)) == (True, 1)
    assert len(small.world.view().workers) == 4


def test_nothing_to_do_says_why_for_both_directions() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    report = small.tick()
    assert report.decision is not None
    assert report.decision.action is Action.NOTHING
    down = next(v.failed for v in report.decision.verdicts if v.action is Action.SCALE_DOWN)
    assert values_of(down) == ("above minimum", False, 3, 3, "")
    assert report.says == f"nothing to do: {report.decision.reason}"


def test_an_operation_that_only_waits_says_what_for() -> None:
    small = Small()
    slot = make_slot(state=SlotState.LAUNCHED, since=small.now, instance_id="i-unseen")
    small.put(operation=make_scale_up(slot, started_at=small.now))
    assert small.tick().says == "scale-up continues: i-unseen LAUNCHED (operation op)"


def test_a_lease_that_another_holds_makes_the_runner_stand_by() -> None:
    small = Small()
    small.store.acquire(CLUSTER_LEASE, "another", 300)
    report = small.tick()
    assert (report.held, report.quiet, report.decision) == (False, True, None)
    assert small.record.operation is None


def test_lease_expires_while_a_slow_run_still_drains_and_the_next_runner_resumes_it() -> None:
    small = Small()
    small.tick()
    started = small.record.operation
    assert started is not None
    small.store.acquire(CLUSTER_LEASE, "stalled", 300)
    assert not small.tick(owner="next").held
    small.wait(301)
    assert small.tick(owner="next").held
    small.tick_until(closed)
    assert [e.subject for e in small.store.read_log([LogKind.OPERATION_BEGUN])] == [started.id]


def test_the_lease_is_given_back_at_the_end() -> None:
    small = Small()
    small.tick(owner="first")
    assert small.tick(owner="second").held


def test_a_decision_is_logged_only_when_it_is_news() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    for _ in range(5):
        small.tick()
        small.wait(60)
    assert len(small.store.read_log([LogKind.DECISION])) == 1
    small.put(paused=True)
    small.tick()
    assert len(small.store.read_log([LogKind.DECISION])) == 2
    small.wait(3600)
    small.tick()
    assert len(small.store.read_log([LogKind.DECISION])) == 3


def test_a_decision_that_meets_another_writer_is_left_to_the_next_tick() -> None:
    small = Small()
    store = MeddlingStore(small.clock, database=small.database)
    report = small.tick(replace(small.ports, store=store))
    assert "left the rest to the next tick: " in report.says
    assert small.record.operation is None
    assert small.tick().held


class BuggyCluster(SimCluster):
    def cordon(self, effect: Cordon, token: int) -> None:
        raise ZeroDivisionError("a bug")


class BuggyMetrics(SimMetrics):
    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        raise ZeroDivisionError("a bug")


class NewerStore(MemoryStore):
    loads = 0

    def load(self) -> Record:
        self.loads += 1
        if self.loads > 1:
            raise NewerRecord("written by a newer version")
        return super().load()


def test_an_unexpected_error_gives_the_lease_back_wherever_it_happens() -> None:
    small = Small()
    for broken, error in (
        (replace(small.ports, cluster=BuggyCluster(small.world, small.clock)), ZeroDivisionError),
        (replace(small.ports, metrics=BuggyMetrics(small.world, small.clock)), ZeroDivisionError),
        (replace(small.ports, store=NewerStore(small.clock, database=small.database)), NewerRecord),
    ):
        with pytest.raises(error):
            small.tick(broken, owner=f"runner of {broken}")
        small.store.release(small.store.acquire(CLUSTER_LEASE, "another", 300))


def test_an_operation_that_always_crashes_its_runner_is_set_aside_with_an_alarm() -> None:
    small = Small()
    buggy = replace(small.ports, cluster=BuggyCluster(small.world, small.clock))
    for run in range(1, 6):
        with pytest.raises(ZeroDivisionError):
            small.tick(buggy)
        assert (small.record.unclean_runs, small.record.unclean_removal_runs) == (0, run)
    small.tick(buggy)
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.runs) == (AlarmKind.OPERATION_CRASHES, 5)
    assert small.record.set_aside is not None
    assert alarm.operation_id == small.record.set_aside.id
    assert isinstance(small.record.set_aside, ScaleDown)
    assert (small.record.operation, small.record.unclean_removal_runs) == (None, 0)
    decision = small.tick().decision
    assert decision is not None
    down = next(v.failed for v in decision.verdicts if v.action is Action.SCALE_DOWN)
    assert values_of(down) == (Gate.NOT_PAUSED, False, None, None, alarm.operation_id)


def test_a_clean_tick_forgets_the_crashes_before_it() -> None:
    small = Small()
    with pytest.raises(ZeroDivisionError):
        small.tick(replace(small.ports, cluster=BuggyCluster(small.world, small.clock)))
    small.tick()
    assert small.record.unclean_removal_runs == 0


def test_a_stray_cordon_is_lifted_under_the_name_of_the_operation_that_set_it() -> None:
    small = Small(settings=quick_settings(min_workers=3, orphan_grace_seconds=0))
    node = small.nodes[0]
    small.ports.cluster.cordon(Cordon(node.name, node.uid, "closed-long-ago"), 1)
    report = small.tick()
    assert report.decision is not None
    assert report.decision.action is Action.RELEASE
    small.tick_until(closed)
    after = small.world.view().node_named[node.name]
    assert (after.unschedulable, after.owner) == (False, None)
    assert small.record.removal_failures == 0, "to give a node back is no failed removal"


def test_a_time_without_ticks_is_said_and_told() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    small.tick()
    small.wait(small.settings.max_tick_gap_seconds + 1)
    report = small.tick()
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert alarm.alarm is AlarmKind.OBSERVATION
    assert alarm.detail.startswith("no tick for ")
    assert alarm.detail in report.says


def test_a_plan_that_names_only_instance_ids_is_carried_out_as_well() -> None:
    small = Small()
    instance = next(i for i in small.ports.cloud.list_instances() if i.zone == "a" and i.pool)
    small.put(operation=make_scale_down(Removal(instance.id), started_at=small.now))
    small.tick_until(closed)
    assert small.world.removed == 1


class ExpiringStore(MemoryStore):
    """The lease runs out just before a write."""

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if guard is not None:
            self.release(guard)
        return super().write(record, guard, entries)


def test_a_runner_whose_lease_ran_out_writes_nothing_and_says_so() -> None:
    small = Small()
    expiring = replace(small.ports, store=ExpiringStore(small.clock, database=small.database))
    report = small.tick(expiring)
    assert "left the rest to the next tick: the lease 'cluster'" in report.says
    assert small.record.operation is None
    with pytest.raises(LeaseLost):
        small.store.renew(Lease(CLUSTER_LEASE, "runner", 1, 0), 300)


class NotingCluster(SimCluster):
    collecting: ClassVar[list[bool]] = []

    def read(self) -> ClusterView:
        self.collecting.append(gc.isenabled())
        return super().read()


def test_the_garbage_collector_rests_while_a_tick_decides_and_no_longer() -> None:
    """At 50,000 pods it took a third of a tick; left off, the cycles of other threads were never freed."""
    gc.enable()
    small = Small()
    small.tick(replace(small.ports, cluster=NotingCluster(small.world, small.clock)))
    assert set(NotingCluster.collecting) == {False}
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        small.tick(replace(small.ports, metrics=BuggyMetrics(small.world, small.clock)))
    assert gc.isenabled()


def test_a_launch_that_was_given_up_appears_while_its_scale_up_is_open() -> None:
    """Every tick failed: the instance was adopted into the scale-up that had its key already."""
    slow = replace(QUICK, boot=Span(600, 600))
    small = Small(settings=quick_settings(orphan_grace_seconds=60, min_workers=3), rules=slow)
    late, other = make_slot("late"), make_slot("other")
    for slot in (late, other):
        small.ports.cloud.launch(Launch(slot, "test"))
    given_up = replace(late, state=SlotState.FAILED, reason="the cloud gave no definite answer")
    waiting = replace(other, state=SlotState.LAUNCHING, since=small.now)
    small.put(launching=make_scale_up(given_up, waiting, requested=2))
    small.tick()
    small.wait(120)
    small.tick()
    launching = small.record.launching
    assert launching is not None
    assert [slot.key for slot in launching.slots] == ["late", "other"]
    small.tick_until(lambda record: record.launching is None, ticks=90)
    assert {i.key for i in small.ports.cloud.list_instances() if i.alive} >= {"late", "other"}
