"""A store that fails for a moment: no operation is blamed for it, and no replica steps down over it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.loop import run_loop
from ebbtide.engine.tick import TickReport
from ebbtide.errors import Throttled, Unanswered
from ebbtide.model.log import LogEntry
from ebbtide.model.record import Lease
from tests.unit.engine.builders import Small, quick_settings


class UnansweringLog(MemoryStore):
    """The log does not answer: everything before it was done and written."""

    def append(self, entries: Sequence[LogEntry]) -> None:
        raise Unanswered("timed out")


def test_a_run_that_a_fault_of_the_store_stopped_is_not_counted_against_its_operation() -> None:
    small = Small()
    store = UnansweringLog(small.clock, database=small.database)
    with pytest.raises(Unanswered):
        small.tick(replace(small.ports, store=store))
    assert small.record.operation is not None
    assert small.record.unclean_runs == 0
    assert small.tick(owner="another").held


class VirtualStop(threading.Event):
    def __init__(self, small: Small) -> None:
        super().__init__()
        self.small = small

    def wait(self, timeout: float | None = None) -> bool:
        self.small.wait(timeout or 0)
        return self.is_set()


class HoarseStore(MemoryStore):
    """Every second attempt to take or renew a lease is throttled."""

    asked = throttled = 0

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        self.asked += 1
        if self.asked % 2 == 0:
            self.throttled += 1
            raise Throttled("rate exceeded")
        return super().acquire(name, owner, ttl_seconds)


def test_a_renewal_that_is_throttled_is_tried_again_before_the_lease_is_over() -> None:
    small = Small(settings=quick_settings(min_workers=3))
    store = HoarseStore(small.clock, database=small.database)
    stop, reports = VirtualStop(small), list[TickReport]()

    def on_report(report: TickReport) -> None:
        reports.append(report)
        if len(reports) == 2:
            stop.set()

    run_loop(replace(small.ports, store=store), small.settings, "runner", 300, stop, on_report)
    assert store.throttled
    assert reports[1].at - reports[0].at > 200
