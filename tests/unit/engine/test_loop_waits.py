"""What the daemon does between two ticks: when it looks, when it renews, and what it tells its observers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine import loop
from ebbtide.engine.loop import (
    Fleet,
    Member,
    Nudge,
    alarm_if_blind,
    for_a_daemon,
    guarded_tick,
    sooner,
    wait_for_next,
)
from ebbtide.engine.ports import Observers
from ebbtide.engine.tick import TickReport
from ebbtide.errors import StoreCause, StoreUnusable, Throttled
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.operation import RemovalState, ScaleDown, SpotNotice
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.model.snapshot import Reading
from ebbtide.narrate import facts_in
from ebbtide.ports import Clock
from ebbtide.simulator.world.ports import SimInbox
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_loop import (
    BrokenInbox,
    FailingMetrics,
    SlowMetrics,
    VirtualStop,
    run,
    still,
    urgent_from,
)

HELD = TickReport(0, "did something", held=True)


class RenewedStore(MemoryStore):
    """Notes when the lease is asked for, and is throttled at some of these times."""

    def __init__(self, clock: Clock, throttled: tuple[int, ...]) -> None:
        super().__init__(clock)
        self.time, self.throttled = clock, throttled
        self.asked: list[float] = []

    def acquire(self, lock: str, owner: str, ttl_seconds: int) -> Lease:
        self.asked.append(self.time.now())
        if len(self.asked) in self.throttled:
            raise Throttled("too busy")
        return super().acquire(lock, owner, ttl_seconds)


class CountedInbox(SimInbox):
    looks = 0

    def receive(self) -> Sequence[SpotNotice]:
        self.looks += 1
        return super().receive()


def renewed(small: Small, ttl: int, seconds: float, *throttled: int) -> list[float]:
    """The seconds from the begin of a wait at which the lease was asked for."""
    store = RenewedStore(small.clock, throttled)
    start = small.clock.now()
    wait_for_next(Nudge(replace(small.ports, store=store)), "runner", seconds, VirtualStop(small), ttl)
    return [at - start for at in store.asked]


def test_a_lease_is_renewed_three_times_in_its_time_and_by_nobody_who_has_none() -> None:
    assert renewed(still(), ttl=90, seconds=100) == [30, 60, 90]
    assert renewed(still(), ttl=0, seconds=100) == []


def test_a_renewal_that_fails_is_tried_again_at_the_next_look() -> None:
    assert renewed(still(), 90, 65, 1) == [30, 30 + loop.LOOK_SECONDS, 60 + loop.LOOK_SECONDS]


def test_the_inbox_is_looked_at_every_two_seconds_and_no_more_often() -> None:
    small = still()
    inbox = CountedInbox(small.world, small.clock)
    wait_for_next(Nudge(replace(small.ports, inbox=inbox)), "runner", 60, VirtualStop(small), 0)
    assert inbox.looks == 60 / loop.LOOK_SECONDS


def test_an_inbox_that_cannot_be_read_does_not_hasten_the_next_tick() -> None:
    small = still()
    reports, _ = run(small, 2, replace(small.ports, inbox=BrokenInbox(small.world, small.clock)))
    assert reports[1].at - reports[0].at >= 53


def test_the_jitter_is_a_tenth_of_the_interval_however_long_it_runs() -> None:
    reports, _ = run(still(), ticks=40)
    gaps = [after.at - before.at for before, after in pairwise(reports)]
    assert all(53 <= gap <= 67 for gap in gaps)


def test_a_node_that_becomes_ready_waits_for_others_as_long_as_a_pod_does() -> None:
    small = still()
    small.wait(1)
    before = small.clock.now()
    nudge = Nudge(replace(urgent_from(small, ready=[20.0]), arrived_at=lambda: before))
    assert nudge.due_at() == inf
    small.wait(20)
    assert nudge.due_at() == small.clock.now() + loop.BATCH_SECONDS, "the pod came before the last tick"


@pytest.mark.parametrize(
    ("report", "wait"),
    [
        (HELD, 60.0),
        (replace(HELD, spots_open=1), loop.URGENT_SECONDS),
        (replace(HELD, due_at=1001), 1.0),
        (replace(HELD, due_at=990), 0.0),
        (replace(HELD, due_at=2000), 60.0),
        (replace(HELD, due_at=1030, spots_open=1), loop.URGENT_SECONDS),
    ],
)
def test_the_next_tick_comes_early_for_an_interruption_and_for_what_is_due(
    report: TickReport, wait: float
) -> None:
    assert sooner(60.0, report, now=1000.0) == wait
    assert sooner(0.0, report, now=1000.0) == 0.0


@pytest.mark.parametrize(("configured", "found"), [(180, 90), (30, 30)])
def test_the_leases_of_a_daemon_are_short(configured: int, found: int) -> None:
    settings = quick_settings(daemon_lock_ttl_seconds=90, spot_lock_ttl_seconds=configured)
    short = for_a_daemon(settings)
    assert (short.lock_ttl_seconds, short.spot_lock_ttl_seconds) == (90, found)


class Told(Observers):
    def __init__(self) -> None:
        super().__init__()
        self.ticks: list[tuple[float, bool, str]] = []

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        self.ticks.append((seconds, held, error))


class SlowAndFailing(FailingMetrics):
    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        self._clock.sleep(5)
        return super().read_cpu(node_names)


def test_observers_are_told_how_long_a_tick_took_and_whether_it_failed() -> None:
    small, told = still(), Told()
    ports = replace(small.ports, observer=told, metrics=SlowMetrics(small.world, small.clock))
    guarded_tick(ports, small.settings, "runner", 60)
    small.store.acquire(CLUSTER_LEASE, "another", 60)
    guarded_tick(ports, small.settings, "runner", 60)
    assert [held for _, held, _ in told.ticks] == [True, False]
    assert [error for *_, error in told.ticks] == ["", ""]
    assert 5 <= told.ticks[0][0] < 10

    failing, told = still(), Told()
    metrics = SlowAndFailing(failing.world, failing.clock)
    start = failing.now
    guarded_tick(replace(failing.ports, observer=told, metrics=metrics), failing.settings, "runner", 60)
    ((seconds, held, error),) = told.ticks
    assert (5 <= seconds < 10, held, error) == (True, False, loop.UNEXPECTED)
    (entry,) = failing.notifier.entries
    assert (entry.at, entry.id) == (start, "id-000001")


def test_a_tick_has_at_least_the_time_of_one_request() -> None:
    small = Small(settings=quick_settings(request_timeout_seconds=20))
    ports = replace(small.ports, metrics=SlowMetrics(small.world, small.clock))
    guarded_tick(ports, small.settings, "runner", 1)
    assert isinstance(small.record.removing, ScaleDown)
    assert small.record.removing.removals[0].state is not RemovalState.PLANNED


class Fails(MemoryStore):
    def load(self) -> Record:
        raise StoreUnusable(StoreCause.UNREACHABLE, "away")

    def prune_log(self, before: int) -> int:
        raise Throttled("too busy")


def test_the_alarm_about_a_log_that_is_not_pruned_has_its_time_and_an_id() -> None:
    small = still()
    loop.Pruning(replace(small.ports, store=Fails(small.clock)), small.settings).after(HELD)
    (entry,) = small.notifier.entries
    assert (entry.at, entry.id) == (small.now, "id-000001")
    assert [fact.alarm for fact in facts_in([entry], Alarm)] == [AlarmKind.LOG_NOT_PRUNED]


def test_a_run_that_saw_all_has_no_alarm() -> None:
    small = still()
    assert alarm_if_blind(small.ports, HELD) == ""
    assert small.notifier.entries == []


def test_a_cluster_whose_record_cannot_be_read_is_not_offered() -> None:
    small, other = still(), still()
    members = [Member(replace(one.ports, store=Fails(one.clock)), one.settings, 60) for one in (small, other)]
    fleet = Fleet(members, "one", threading.Event(), lambda name, report: None)
    for name in ("a", "b"):
        for _ in range(loop.TICKS_BETWEEN_OFFERS):
            fleet.note(name, held=True)
    assert fleet.offers(members[0], "a") is False


@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True), (True, True), (False, False)])
def test_two_reports_in_one_are_quiet_only_where_both_are(first: bool, then: bool) -> None:
    both = loop._joined(replace(HELD, says="a", quiet=first), replace(HELD, says="b", quiet=then))
    assert both.quiet is (first and then)
    assert both.says == ("a" if then else "a; b")


def test_a_run_that_lost_the_lease_meanwhile_still_reports_what_it_decided() -> None:
    decision = still().tick().decision
    assert decision is not None
    decided, stood_by = replace(HELD, decision=decision), replace(HELD, held=False)
    for both in (loop._joined(decided, stood_by), loop._joined(stood_by, decided)):
        assert (both.decision, both.held) == (decision, True)
    assert not loop._joined(stood_by, stood_by).held
