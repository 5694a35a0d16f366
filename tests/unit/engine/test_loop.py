"""The daemon's loop: it stops when asked, outlives a failing tick, and does not let a notice wait."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ebbtide.engine import loop
from ebbtide.engine.loop import guarded_tick, run_loop
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport
from ebbtide.errors import Throttled
from ebbtide.model.decision import Action
from ebbtide.model.events import Alarm, AlarmKind, SpotAnswer, SpotEvent
from ebbtide.model.log import LogKind
from ebbtide.model.operation import SpotKind, SpotNotice
from ebbtide.model.record import CLUSTER_LEASE
from ebbtide.model.snapshot import Reading
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimInbox, SimMetrics
from tests.unit.engine.builders import Small, quick_settings


class VirtualStop(threading.Event):
    """An event that is waited for on the virtual clock."""

    def __init__(self, small: Small) -> None:
        super().__init__()
        self.small = small
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.small.wait(timeout)
        return self.is_set()


def run(small: Small, ticks: int, ports: Ports | None = None) -> tuple[list[TickReport], VirtualStop]:
    stop, reports = VirtualStop(small), list[TickReport]()

    def on_report(report: TickReport) -> None:
        reports.append(report)
        if len(reports) == ticks:
            stop.set()

    run_loop(ports or small.ports, small.settings, "runner", 60, stop, on_report)
    return reports, stop


def still() -> Small:
    return Small(settings=quick_settings(min_workers=3))


def test_a_loop_that_is_already_stopped_does_not_tick() -> None:
    small = still()
    stop = VirtualStop(small)
    stop.set()
    run_loop(small.ports, small.settings, "runner", 60, stop, never)
    assert small.record.ticked_at == 0


def never(report: TickReport) -> None:
    raise AssertionError(report)


def test_it_stops_right_after_the_tick_in_which_it_was_asked_to() -> None:
    reports, stop = run(still(), ticks=1)
    assert (len(reports), stop.waits) == (1, [])


def test_ticks_come_at_the_interval_give_or_take_the_jitter() -> None:
    reports, stop = run(still(), ticks=8)
    gaps = [after.at - before.at for before, after in pairwise(reports)]
    assert all(53 <= gap <= 67 for gap in gaps)
    assert len(set(gaps)) > 1
    assert max(stop.waits) <= loop.LOOK_SECONDS


def test_of_two_replicas_one_acts_and_keeps_the_lease_between_its_ticks() -> None:
    small = still()
    stop, others = VirtualStop(small), list[str]()

    def on_report(report: TickReport) -> None:
        assert report.held
        small.wait(45)
        others.append(guarded_tick(small.ports, small.settings, "other", 60).says)
        if len(others) == 3:
            stop.set()

    run_loop(small.ports, replace(small.settings, daemon_lock_ttl_seconds=90), "runner", 60, stop, on_report)
    assert all(says.startswith("stood by: the lease 'cluster' is held by runner") for says in others)


def test_the_lease_is_given_back_when_the_loop_ends() -> None:
    small = still()
    run(small, ticks=2)
    assert small.record.lock_owner == ""
    small.store.release(small.store.acquire(CLUSTER_LEASE, "other", 30))


def test_a_lease_that_another_took_ends_the_wait_and_is_not_given_back() -> None:
    small = still()
    stop = VirtualStop(small)
    reports: list[TickReport] = []

    def on_report(report: TickReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            small.wait(31)
            small.store.acquire(CLUSTER_LEASE, "other", 3000)
        else:
            stop.set()

    run_loop(small.ports, small.settings, "runner", 60, stop, on_report)
    assert [report.held for report in reports] == [True, False]
    assert reports[1].at - reports[0].at < 60
    assert small.record.lock_owner == "other"


class LateInbox(SimInbox):
    """A notice arrives between two ticks."""

    looks = 0

    def receive(self) -> Sequence[SpotNotice]:
        self.looks += 1
        if self.looks == 4:
            now = int(self._clock.now())
            notice = SpotNotice("i-stranger", SpotKind.INTERRUPTION, now, now + 120)
            self._world.incidents.mail.arrived.append(notice)
        return super().receive()


class BrokenInbox(SimInbox):
    def receive(self) -> Sequence[SpotNotice]:
        raise Throttled("rate exceeded")


def test_a_notice_between_two_ticks_is_answered_within_seconds() -> None:
    small = still()
    reports, _ = run(small, 2, replace(small.ports, inbox=LateInbox(small.world, small.clock)))
    assert reports[1].at - reports[0].at < 10
    (event,) = facts_in(small.store.read_log(), SpotEvent)
    assert (event.instance_id, event.answer) == ("i-stranger", SpotAnswer.NOT_OURS)


def test_an_inbox_that_cannot_be_read_does_not_end_the_loop() -> None:
    small = still()
    reports, _ = run(small, 2, replace(small.ports, inbox=BrokenInbox(small.world, small.clock)))
    assert all(report.held for report in reports)
    alarms = facts_in(small.notifier.entries, Alarm)
    assert {(alarm.alarm, alarm.detail) for alarm in alarms} == {
        (AlarmKind.INBOX_UNREADABLE, "rate exceeded")
    }


class FailingMetrics(SimMetrics):
    """Fails the first time, and then no more."""

    failed = False

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        if not self.failed:
            self.failed = True
            raise ZeroDivisionError("a bug")
        return super().read_cpu(node_names)


def test_the_loop_survives_a_failing_tick_and_the_next_one_works() -> None:
    small = still()
    reports, _ = run(small, 2, replace(small.ports, metrics=FailingMetrics(small.world, small.clock)))
    assert not reports[0].held
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.unexpected) == (AlarmKind.TICK_FAILED, True)
    assert "ZeroDivisionError" in alarm.detail
    assert [entry.kind for entry in small.notifier.entries] == [LogKind.ALARM]
    assert reports[1].held


def urgent_from(small: Small, *times: float, ready: Sequence[float] = ()) -> Ports:
    """An outside in which pods come that no node takes at these times, counted from now, and in which nodes
    become Ready."""
    start = small.ports.clock.now()

    def so_far(moments: Sequence[float]) -> list[float]:
        return [start + at for at in moments if small.ports.clock.now() - start >= at]

    return replace(
        small.ports,
        urgencies=lambda: len(so_far([*times, *ready])),
        arrived_at=lambda: max(so_far(times), default=0.0),
    )


def test_something_urgent_starts_a_tick_at_once_and_the_interval_is_only_a_heartbeat() -> None:
    small = still()
    reports, _ = run(small, ticks=2, ports=urgent_from(small, 20.0))
    assert 20 <= reports[1].at - reports[0].at <= 22


def test_a_tick_comes_as_soon_as_pods_have_been_pending_for_long_enough() -> None:
    small = Small(settings=quick_settings(min_workers=3, pending_up_seconds=7), replicas=200)
    reports, _ = run(small, ticks=2)
    assert 7 <= reports[1].at - reports[0].at <= 8, "the interval is 60 s"
    assert reports[0].decision is not None
    assert reports[1].decision is not None
    assert (reports[0].decision.action, reports[1].decision.action) == (Action.NOTHING, Action.SCALE_UP)


def test_a_burst_is_answered_by_one_tick_that_waits_for_its_end_but_not_forever() -> None:
    small = still()
    reports, _ = run(small, ticks=2, ports=urgent_from(small, 20.0, 20.5, 21.0, 21.5))
    assert 22 <= reports[1].at - reports[0].at <= 24
    endless = still()
    reports, _ = run(endless, ticks=2, ports=urgent_from(endless, *(20.0 + n / 2 for n in range(60))))
    assert 30 <= reports[1].at - reports[0].at <= 32


def test_nodes_that_become_ready_start_a_tick_and_hold_none_up() -> None:
    small = still()
    every_half_second = [20.0 + number / 2 for number in range(60)]
    reports, _ = run(small, ticks=2, ports=urgent_from(small, ready=every_half_second))
    assert 20 <= reports[1].at - reports[0].at <= 22
    pending = still()
    reports, _ = run(pending, ticks=2, ports=urgent_from(pending, 20.0, ready=every_half_second))
    assert 20 <= reports[1].at - reports[0].at <= 22


class SlowMetrics(SimMetrics):
    """The first tick takes a while."""

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        self._clock.sleep(5)
        return super().read_cpu(node_names)


def test_a_pod_that_came_during_a_tick_has_waited_for_long_enough_when_the_tick_ends() -> None:
    small = still()
    ports = urgent_from(small, 2.0)
    ports = replace(ports, metrics=SlowMetrics(small.world, small.clock))
    _, stop = run(small, ticks=2, ports=ports)
    assert sum(stop.waits) == 0, "it is due already"


def test_what_came_up_during_a_tick_is_not_lost() -> None:
    small = still()
    heard = iter([0])
    ports = replace(small.ports, urgencies=lambda: next(heard, 1))
    reports, _ = run(small, ticks=2, ports=ports)
    assert reports[1].at - reports[0].at <= 2


def test_who_stands_by_leaves_what_is_urgent_to_the_one_who_acts() -> None:
    small = still()
    small.ports.store.acquire(CLUSTER_LEASE, "another", 600)
    reports, _ = run(small, ticks=2, ports=urgent_from(small, 5.0))
    assert reports[1].at - reports[0].at >= 50
