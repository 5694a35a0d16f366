"""Several clusters in one process, and how replicas share them. On the real clock, with short waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine import loop
from ebbtide.engine.loop import Fleet, Member, guarded_tick
from ebbtide.engine.tick import TickReport
from ebbtide.model.record import CLUSTER_LEASE
from tests.builders import make_spot
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_loop import VirtualStop
from tests.unit.engine.test_pruning import with_old_entry

NAMES = ("a", "b", "c", "d")
PATIENCE_SECONDS = 40


class RealClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def member(name: str, small: Small) -> Member:
    clock = RealClock()
    store = MemoryStore(clock, name, small.database)
    ports = replace(small.ports, clock=clock, store=store)
    return Member(ports, replace(small.settings, cluster=name), interval_seconds=0.02)


def clusters() -> dict[str, Small]:
    return {name: Small(settings=quick_settings(min_workers=3)) for name in NAMES}


class Replica:
    """A fleet that runs in the background until it is ended."""

    def __init__(self, owner: str, worlds: dict[str, Small]) -> None:
        self.stop = threading.Event()
        self.reports: dict[str, list[TickReport]] = {name: [] for name in worlds}
        self.members = [member(name, small) for name, small in worlds.items()]
        self.fleet = Fleet(self.members, owner, self.stop, lambda name, r: self.reports[name].append(r))
        self.thread = threading.Thread(target=self.fleet.run)
        self.thread.start()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()


def comes_true(reached: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while not reached() and time.monotonic() < end:
        time.sleep(0.01)
    return reached()


def test_a_lone_replica_follows_every_cluster_and_gives_every_lease_back() -> None:
    replica = Replica("one", clusters())
    followed = comes_true(lambda: all(len(reports) >= 3 for reports in replica.reports.values()))
    replica.end()
    assert followed
    for each in replica.members:
        store = each.ports.store
        store.release(store.acquire(CLUSTER_LEASE, "another", 30))


def test_a_replica_that_holds_none_comes_to_hold_some() -> None:
    worlds = clusters()
    first = Replica("one", worlds)
    all_held = comes_true(lambda: first.fleet.held == len(NAMES))
    second = Replica("two", worlds)
    shared = comes_true(lambda: first.fleet.held >= 1 and second.fleet.held >= 1)
    first.end()
    second.end()
    assert (all_held, shared) == (True, True)


def test_a_cluster_with_an_open_operation_is_not_offered() -> None:
    busy, quiet = Small(), Small(settings=quick_settings(min_workers=3))
    busy.tick_until(lambda record: record.operation is not None)
    kept = [Member(busy.ports, busy.settings, 60), member("quiet", quiet)]
    held = Fleet(kept, "one", threading.Event(), lambda name, report: None)
    for name in ("busy", "quiet"):
        for _ in range(loop.TICKS_BETWEEN_OFFERS):
            held.note(name, held=True)
    assert held.offers(kept[0], "busy") is False
    assert held.offers(kept[1], "quiet")
    store = kept[1].ports.store
    store.write(replace(store.load(), spots=(make_spot(),)), None)
    assert not held.offers(kept[1], "quiet"), "an instance of it is being reclaimed"
    store.write(replace(store.load(), spots=()), None)
    held.note("busy", held=False)
    assert held.offers(kept[1], "quiet") is False


def followed(
    small: Small, ticks: int, after: Callable[[int], None], stop: VirtualStop | None = None
) -> list[TickReport]:
    """By a replica that also holds another cluster, on the virtual clock. `after` each tick: its number."""
    stop, reports = stop or VirtualStop(small), list[TickReport]()

    def on_report(name: str, report: TickReport) -> None:
        assert name == small.settings.cluster
        reports.append(report)
        after(len(reports))
        if len(reports) == ticks:
            stop.set()

    fleet = Fleet([Member(small.ports, small.settings, 60)], "one", stop, on_report)
    fleet.note("another cluster", held=True)
    fleet._follow(fleet._members[0])
    return reports


def test_a_replica_keeps_the_lease_between_two_ticks_and_forgets_old_entries() -> None:
    small, others = with_old_entry(), list[str]()

    def another_tries(_: int) -> None:
        small.wait(20)
        others.append(guarded_tick(small.ports, small.settings, "other", 60).says)

    followed(small, 3, another_tries)
    assert all(says.startswith("stood by: the lease 'cluster' is held by one") for says in others)
    assert small.store.find_entry("0-old") is None


class Watching(VirtualStop):
    """Notes who has the lease while the replica waits."""

    def __init__(self, small: Small) -> None:
        super().__init__(small)
        self.owners: list[str] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.owners.append(self.small.record.lock_owner)
        return super().wait(timeout)


def test_a_cluster_that_was_offered_is_free_and_its_next_tick_comes_later() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    reports = followed(small, loop.TICKS_BETWEEN_OFFERS + 2, lambda number: None)
    gaps = [after.at - before.at for before, after in pairwise(reports)]
    assert gaps[:-2] == [60] * (loop.TICKS_BETWEEN_OFFERS - 1)
    assert gaps[-2:] == [120, 60], "the replica still holds one other cluster"


def test_nobody_has_the_lease_of_a_cluster_that_was_offered() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    stop, seen = Watching(small), dict[int, set[str]]()

    def note(number: int) -> None:
        seen[number] = set(stop.owners)
        stop.owners.clear()

    followed(small, loop.TICKS_BETWEEN_OFFERS + 1, note, stop)
    assert seen[loop.TICKS_BETWEEN_OFFERS] == {"one"}
    assert seen[loop.TICKS_BETWEEN_OFFERS + 1] == {""}
