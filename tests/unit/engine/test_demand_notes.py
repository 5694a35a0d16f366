"""What is remembered of the demand on each pool: which quarters, how far back, and when it is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.notes import (
    KEPT_STEPS,
    LATE_STEPS,
    PAGE,
    SUBJECT,
    CostNotes,
    DemandNotes,
    DemandSeries,
    read_points,
)
from ebbtide.model.events import CostNoted
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, PoolDemand
from ebbtide.narrate import entry_of
from tests.builders import POOL
from tests.unit.engine.test_cost_notes import notes as cost_notes
from tests.unit.engine.test_cost_notes import seen as seen_nodes
from tests.unit.engine.test_foresight import MIDNIGHT, SETTINGS, Midnight, seen

BASE = MIDNIGHT // STEP_SECONDS
OTHER = "another"


class CountedStore(MemoryStore):
    """How often the log was read."""

    reads = 0

    def read_log(self, *args: Any, **named: Any) -> Sequence[LogEntry]:
        self.reads += 1
        return super().read_log(*args, **named)


def store_with(noted: Mapping[int, int], pool: str = POOL) -> CountedStore:
    """So many pods in each quarter, of 100 m each."""
    store = CountedStore(Midnight(), "cluster", MemoryDatabase(100_000))
    append(store, noted, pool)
    return store


def append(store: MemoryStore, noted: Mapping[int, int], pool: str = POOL) -> None:
    for step, pods in noted.items():
        fact = CostNoted({}, 0, demand={pool: (pods, pods * 100, pods)}, demandSince=step * STEP_SECONDS)
        store.append([entry_of(f"{step:012d}-{pool}", (step + 1) * STEP_SECONDS, fact, SUBJECT)])


def read(store: MemoryStore, step: int = BASE) -> DemandNotes:
    notes = DemandNotes(store, lambda: "unused")
    notes.catch_up(step)
    return notes


def test_the_last_demand_is_the_newest_with_a_pod_in_it() -> None:
    notes = read(store_with({BASE - 3: 4, BASE - 2: 7, BASE - 1: 0}))
    assert notes.last(POOL) == PoolDemand(7, 700, 7)
    assert notes.last(OTHER) is None


def test_a_series_begins_with_the_first_note_of_its_pool_and_ends_before_the_step() -> None:
    store = store_with({BASE - 9: 1}, OTHER)
    append(store, {BASE - 3: 4, BASE - 2: 5, BASE - 1: 6})
    notes = read(store)
    assert notes.series(POOL, BASE).pods == (4, 5, 6)
    assert notes.series(POOL, BASE - 1) == DemandSeries((4, 5), 1.0)
    assert notes.series(POOL, BASE - 3) == DemandSeries((), 0.0)
    unknown = notes.series("never seen", BASE)
    assert (unknown.pods, unknown.known) == ((), 0.0)


def test_four_weeks_are_remembered_and_no_more() -> None:
    oldest = BASE - KEPT_STEPS
    notes = read(store_with({oldest - 1: 2, oldest: 3, BASE - 1: 5}))
    series = notes.series(POOL, BASE)
    assert (len(series.pods), series.pods[0], series.pods[-1]) == (KEPT_STEPS, 3, 5)
    assert notes.series(POOL, BASE + 1).pods == (5, 5)
    assert notes.series(POOL, BASE - 1).pods[0] == 3, "it does not keep what it will not need again"


def test_of_a_long_log_only_four_weeks_are_read() -> None:
    store = store_with(dict.fromkeys(range(BASE - 2 * KEPT_STEPS, BASE), 1))
    read(store)
    assert store.reads == KEPT_STEPS // PAGE + 1


def test_a_missing_quarter_is_as_a_day_before_once_a_whole_day_is_known() -> None:
    day = {BASE - STEPS_A_DAY + step: step + 1 for step in range(STEPS_A_DAY)}
    assert read(store_with(day)).series(POOL, BASE + 1).pods[-1] == 1
    short = dict(list(day.items())[1:])
    assert read(store_with(short)).series(POOL, BASE + 1).pods[-1] == STEPS_A_DAY


def test_a_week_without_a_gap_is_known_whole() -> None:
    week = {BASE - step: 1 for step in range(1, 7 * STEPS_A_DAY + 1)}
    assert read(store_with(week)).series(POOL, BASE).known == 1.0
    del week[BASE - 7 * STEPS_A_DAY]
    longer = week | {BASE - 7 * STEPS_A_DAY - 1: 1}
    assert read(store_with(longer)).series(POOL, BASE).known == pytest.approx(1 - 1 / (7 * STEPS_A_DAY))


def test_the_log_is_read_again_only_after_others_may_have_noted_something() -> None:
    store = store_with({BASE - 5: 1, BASE - 1: 1})
    notes = read(store)
    reads = store.reads
    assert reads > 0
    notes.catch_up(BASE - 1 + LATE_STEPS)
    assert store.reads == reads
    append(store, {BASE: 9})
    notes.catch_up(BASE + LATE_STEPS)
    assert store.reads > reads
    assert notes.last(POOL) == PoolDemand(9, 900, 9)


def test_a_quarter_is_noted_once_however_often_it_is_looked_at() -> None:
    store = CountedStore(Midnight(), "cluster", MemoryDatabase(1000))
    notes = DemandNotes(store, lambda: f"id-{len(store.read_log([LogKind.COST]))}")
    for at in range(0, 2 * STEP_SECONDS, 60):
        notes.saw(seen(MIDNIGHT + at, 3), SETTINGS)
    assert len(store.read_log([LogKind.COST])) == 1


def test_a_note_without_demand_is_no_demand() -> None:
    store = store_with({BASE - 1: 2})
    store.append([entry_of("x", BASE * STEP_SECONDS, CostNoted({}, 0), SUBJECT)])
    assert read(store, BASE + 1).series(POOL, BASE).pods == (2,)


def test_a_new_process_goes_by_the_newest_cost_and_not_by_the_one_before() -> None:
    store = MemoryStore(Midnight(), "cluster")
    first: CostNotes = cost_notes(store)
    for snapshot in (seen_nodes(0, "small"), seen_nodes(60, "small", "huge")):
        first.looked(snapshot, Record())
    second: CostNotes = cost_notes(store, start=10)
    second.looked(seen_nodes(120, "small", "huge"), Record())
    assert [point.at for point in read_points(store, 10)] == [0, 60]


def test_an_entry_of_cost_that_says_nothing_is_a_point_without_a_cost() -> None:
    store = MemoryStore(Midnight(), "cluster")
    store.append([LogEntry("1", 5, LogKind.COST, "unreadable")])
    (point,) = read_points(store, 1)
    assert (point.at, point.per_hour, point.unpriced) == (5, {}, 0)
