"""When a source could not be read any more, and when it could again, is in the log once each."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.outages import KNOWN_ALARMS, OutageNotes
from ebbtide.model.events import TICKS, Alarm, AlarmKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Reading, Snapshot
from ebbtide.narrate import entry_of, fact_in
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_snapshot

GAP = Settings().max_tick_gap_seconds
SEEN = make_snapshot([make_node("a1")], cpu=Reading(0.4, NOW))
NO_ANSWER = Reading(problem="no answer")
UNMEASURED = replace(SEEN, cpu=NO_ANSWER)
UNSEEN = Snapshot(NOW, cpu=NO_ANSWER, instances=SEEN.instances, problems=("no answer",))
NO_CLOUD = replace(SEEN, instances=(), problems=("no answer",))
IDS = count()
"""Those of all processes grow together, as time does."""


class Runner:
    """A process that looks at the cluster; several may share a store."""

    def __init__(self, clock: VirtualClock, store: MemoryStore | None = None) -> None:
        self.clock = clock
        self.store = store or MemoryStore(clock, "cluster")
        self.notes = OutageNotes(self.store, Settings(), clock, lambda: f"{next(IDS):06d}")

    def looks(self, after: int, snapshot: Snapshot) -> None:
        self.clock.move_to(NOW + after)
        self.notes.looked(replace(snapshot, at=NOW + after), Record())

    @property
    def noted(self) -> list[tuple[AlarmKind, str | None, int]]:
        """Oldest first."""
        facts = [fact_in(entry, Alarm) for entry in reversed(self.store.read_log([LogKind.ALARM]))]
        return [(fact.alarm, fact.source, fact.seconds) for fact in facts if fact is not None]


def gone(source: str) -> tuple[AlarmKind, str, int]:
    return AlarmKind.SOURCE_GONE, source, 0


def back(source: str, seconds: int) -> tuple[AlarmKind, str, int]:
    return AlarmKind.SOURCE_BACK, source, seconds


def test_an_outage_has_a_beginning_and_an_end_and_says_how_long_it_lasted() -> None:
    runner = Runner(VirtualClock(NOW))
    for source, unread in (("cluster", UNSEEN), ("cloud", NO_CLOUD), ("metrics", UNMEASURED)):
        start = len(runner.noted) * 100
        for after, snapshot in ((0, SEEN), (20, unread), (40, unread), (60, SEEN), (80, SEEN)):
            runner.looks(start + after, snapshot)
        assert runner.noted[-2:] == [gone(source), back(source, 40)]
    assert len(runner.noted) == 6


def test_metrics_that_were_never_known_are_no_outage_and_without_the_cluster_nobody_can_tell() -> None:
    runner = Runner(VirtualClock(NOW))
    for after in (0, 20):
        runner.looks(after, UNMEASURED)
    assert runner.noted == []
    for after, snapshot in ((40, SEEN), (60, UNMEASURED), (80, UNSEEN), (100, UNMEASURED), (120, SEEN)):
        runner.looks(after, snapshot)
    assert runner.noted == [gone("metrics"), gone("cluster"), back("cluster", 20), back("metrics", 60)]


def test_the_next_process_knows_of_an_outage_from_the_log_and_notes_its_end() -> None:
    first = Runner(VirtualClock(NOW))
    first.looks(0, SEEN)
    first.looks(20, UNMEASURED)
    second = Runner(first.clock, first.store)
    second.looks(40, UNMEASURED)
    assert second.noted == [gone("metrics")]
    second.looks(60, SEEN)
    assert second.noted == [gone("metrics"), back("metrics", 40)]
    third = Runner(first.clock, first.store)
    third.looks(80, SEEN)
    assert third.noted == [gone("metrics"), back("metrics", 40)]


def test_a_runner_that_stood_by_meanwhile_reads_what_the_others_noted() -> None:
    """It would have noted the beginning a second time, or not the end."""
    first = Runner(VirtualClock(NOW))
    first.looks(0, SEEN)
    second = Runner(first.clock, first.store)
    second.looks(GAP, SEEN)
    second.looks(GAP + 20, UNSEEN)
    first.looks(2 * GAP, UNSEEN)
    assert first.noted == [gone("cluster")]
    first.looks(2 * GAP + 20, SEEN)
    assert first.noted == [gone("cluster"), back("cluster", GAP)]


def test_ticks_that_failed_for_long_are_told_when_they_succeed_again() -> None:
    runner = Runner(VirtualClock(NOW))
    runner.looks(0, SEEN)
    for after in (20, 20 + GAP):
        runner.clock.move_to(NOW + after)
        runner.notes.ticked(1.0, False, "Retryable")
    runner.looks(40 + GAP, SEEN)
    assert runner.noted == [back(TICKS, GAP + 20)]
    runner.notes.ticked(1.0, True, "")
    runner.clock.move_to(NOW + 60 + GAP)
    runner.notes.ticked(1.0, False, "Retryable")
    runner.looks(80 + GAP, SEEN)
    assert len(runner.noted) == 1, "one that failed is an alarm of its own, and no outage"


@pytest.mark.parametrize(("seconds", "told"), [(GAP - 1, 0), (GAP, 1)])
def test_ticks_that_failed_for_less_than_the_longest_gap_are_no_outage(seconds: int, told: int) -> None:
    runner = Runner(VirtualClock(NOW))
    runner.notes.ticked(1.0, False, "Retryable")
    runner.looks(seconds, SEEN)
    assert len(runner.noted) == told


def test_one_without_the_lease_leaves_it_to_the_one_that_has_it() -> None:
    runner = Runner(VirtualClock(NOW))
    runner.notes.ticked(1.0, False, "Retryable")
    runner.clock.move_to(NOW + GAP)
    runner.notes.ticked(1.0, False, "")
    runner.looks(2 * GAP, SEEN)
    assert runner.noted == []


def test_an_outage_that_a_corrected_clock_ends_before_it_began_lasted_no_time() -> None:
    runner = Runner(VirtualClock(NOW))
    runner.looks(0, SEEN)
    runner.looks(20, UNSEEN)
    runner.notes.looked(replace(SEEN, at=NOW + 15), Record())
    assert runner.noted == [gone("cluster"), back("cluster", 0)]


def test_a_cloud_without_machines_that_answered_is_no_outage() -> None:
    runner = Runner(VirtualClock(NOW))
    runner.looks(0, SEEN)
    runner.looks(20, replace(SEEN, instances=()))
    assert runner.noted == []


def test_of_a_first_look_only_what_was_surely_not_read_is_an_outage() -> None:
    """Without nodes nobody knows whether the cloud should have machines."""
    blind = Runner(VirtualClock(NOW))
    blind.looks(0, replace(UNSEEN, instances=()))
    assert blind.noted == [gone("cluster")]
    seeing = Runner(VirtualClock(NOW))
    seeing.looks(0, NO_CLOUD)
    assert seeing.noted == [gone("cloud")]


def test_an_outage_is_not_forgotten_over_the_alarms_that_follow_it() -> None:
    runner = Runner(VirtualClock(NOW))
    runner.looks(0, SEEN)
    runner.looks(20, UNSEEN)
    others = [entry_of(f"{next(IDS):06d}", NOW + 30, Alarm(AlarmKind.TICK_FAILED, "busy"))] * KNOWN_ALARMS
    runner.store.append([replace(one, id=f"{next(IDS):06d}") for one in others])
    runner.looks(40, SEEN)
    assert runner.noted[-1] == back("cluster", 20)


def test_the_next_process_finds_an_outage_behind_other_alarms_and_one_that_it_cannot_read() -> None:
    first = Runner(VirtualClock(NOW))
    first.looks(0, SEEN)
    first.looks(20, UNSEEN)
    later = [
        entry_of("", NOW + 30, Alarm(AlarmKind.TICK_FAILED, "busy")),
        LogEntry("", NOW, LogKind.ALARM, "?"),
    ]
    first.store.append([replace(one, id=f"{next(IDS):06d}") for one in later])
    second = Runner(first.clock, first.store)
    second.looks(40, SEEN)
    assert second.noted[-1] == back("cluster", 20)
