"""The daemon forgets old log entries once a day, and outlives a store that will not."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.loop import DAY_SECONDS, Pruning
from ebbtide.engine.tick import TickReport
from ebbtide.errors import Throttled
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.narrate import facts_in
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_loop import run

HELD = TickReport(0, "did something", held=True)


def with_old_entry(**overrides: object) -> Small:
    small = Small(settings=quick_settings(min_workers=3, **overrides))
    small.store.append([LogEntry("0-old", small.now - 90 * DAY_SECONDS - 1, LogKind.DECISION, "old")])
    small.store.append([LogEntry("0-young", small.now - 90 * DAY_SECONDS, LogKind.DECISION, "young")])
    return small


def test_a_daemon_forgets_what_is_older_than_the_configuration_says() -> None:
    small = with_old_entry()
    run(small, ticks=1)
    assert small.store.find_entry("0-old") is None
    assert small.store.find_entry("0-young") is not None


def test_with_zero_days_everything_is_kept() -> None:
    small = with_old_entry(log_retention_days=0)
    run(small, ticks=1)
    assert small.store.find_entry("0-old") is not None


def test_who_stands_by_forgets_nothing() -> None:
    small = with_old_entry()
    Pruning(small.ports, small.settings).after(replace(HELD, held=False))
    assert small.store.find_entry("0-old") is not None


class Counting(MemoryStore):
    asked: list[int]

    def prune_log(self, before: int) -> int:
        self.asked.append(before)
        raise Throttled("too busy")


def test_it_is_tried_once_a_day_and_a_failure_is_an_alarm() -> None:
    small = with_old_entry()
    store = Counting(small.clock)
    store.asked = []
    pruning = Pruning(replace(small.ports, store=store), small.settings)
    for _ in range(3):
        pruning.after(HELD)
        small.wait(DAY_SECONDS / 2)
    assert len(store.asked) == 2
    assert store.asked[1] - store.asked[0] == DAY_SECONDS
    alarms = facts_in(small.notifier.entries, Alarm)
    assert [(alarm.alarm, alarm.detail) for alarm in alarms] == [(AlarmKind.LOG_NOT_PRUNED, "too busy")] * 2
