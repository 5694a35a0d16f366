"""Several clusters in one process, and how replicas share them. On the real clock, with short waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine import loop
from ebbtide.engine.loop import Fleet, Member
from ebbtide.engine.tick import TickReport
from ebbtide.model.record import CLUSTER_LEASE
from tests.unit.engine.builders import Small, quick_settings

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
    assert not held.offers(kept[0], "busy")
    assert held.offers(kept[1], "quiet")
    held.note("busy", held=False)
    assert not held.offers(kept[1], "quiet")
