"""A process that ends stays while an interruption is open, and fails where it could not see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.loop import AGAIN_SECONDS, alarm_if_blind, fail_if_blind, run_once
from ebbtide.engine.notices import lease_seconds
from ebbtide.engine.tick import TickReport
from ebbtide.errors import Retryable, Throttled
from ebbtide.model.decision import Action
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import SpotKind
from ebbtide.narrate import facts_in
from tests.builders import make_settings, make_spot
from tests.unit.engine.builders import Small, quick_settings


@dataclass
class Sleeps(Small):
    """Notes how long was slept, between one look and the next."""

    slept: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        sleep = self.clock.sleep

        def noted(seconds: float) -> None:
            self.slept += [seconds] if seconds else []
            sleep(seconds)

        self.clock.sleep = noted  # type: ignore[method-assign]

    def interrupted(self, kind: SpotKind) -> None:
        """A notice that another runner answers: its lease is not ours to take."""
        spot = make_spot(kind=kind)
        self.put(spots=(spot,))
        self.store.acquire(spot.id, "another", 600)


@pytest.mark.parametrize(("seconds", "looks"), [(10, 1), (10.5, 2), (4, 0)])
def test_a_run_looks_again_while_an_interruption_is_open_and_there_is_time(
    seconds: float, looks: int
) -> None:
    small = Sleeps()
    small.interrupted(SpotKind.INTERRUPTION)
    run_once(small.ports, small.settings, "runner", small.clock.now() + seconds)
    assert small.slept == [AGAIN_SECONDS] * looks


def test_a_recommendation_is_no_reason_to_stay() -> None:
    small = Sleeps()
    small.interrupted(SpotKind.REBALANCE)
    run_once(small.ports, small.settings, "runner", small.clock.now() + 60)
    assert small.slept == []


def test_a_run_that_stayed_says_what_it_did_at_first_and_nothing_twice() -> None:
    small = Sleeps(settings=quick_settings(min_workers=3))
    small.interrupted(SpotKind.INTERRUPTION)
    first = small.tick()
    stayed = run_once(small.ports, small.settings, "runner", small.clock.now() + 20)
    assert len(small.slept) == 3
    assert stayed.says == first.says
    assert stayed.held
    assert stayed.decision is not None
    assert stayed.decision.action is Action.NOTHING


def test_a_run_that_got_the_lease_at_its_second_look_had_it() -> None:
    small = Sleeps()
    small.interrupted(SpotKind.INTERRUPTION)
    small.store.acquire("cluster", "another", int(AGAIN_SECONDS) - 1)
    report = run_once(small.ports, small.settings, "runner", small.clock.now() + 2 * AGAIN_SECONDS)
    assert report.held
    assert "stood by" in report.says
    assert report.decision is not None


BLIND = TickReport(7, "nothing", problems=("the cluster could not be read", "nor the cloud"))


def test_a_blind_run_writes_its_alarm_tells_it_and_fails() -> None:
    small = Small()
    with pytest.raises(Retryable, match="the next run tries again"):
        fail_if_blind(small.ports, BLIND)
    (alarm,) = small.store.read_log([LogKind.ALARM])
    assert (alarm.at, alarm.data["alarm"]) == (7, AlarmKind.OBSERVATION)
    (fact,) = facts_in([alarm], Alarm)
    assert all(fact.detail.count(problem) == 1 for problem in BLIND.problems)
    assert small.notifier.entries[-1] == alarm
    fail_if_blind(small.ports, replace(BLIND, problems=()))
    assert len(small.store.read_log([LogKind.ALARM])) == 1


class Full(MemoryStore):
    def append(self, entries: Sequence[LogEntry]) -> None:
        raise Throttled("too busy")


def test_an_alarm_that_cannot_be_written_is_told_all_the_same() -> None:
    small = Small()
    assert alarm_if_blind(replace(small.ports, store=Full(small.clock)), BLIND)
    assert small.notifier.entries[-1].kind is LogKind.ALARM


@pytest.mark.parametrize(
    ("configured", "margin", "seconds"),
    [(180, 10, 30), (20, 10, 20), (180, 40, 80), (60, 40, 60)],
    ids=["short", "never above what is configured", "longer than its margin", "as far as that goes"],
)
def test_row_33_the_lease_on_a_notice_is_short(configured: int, margin: int, seconds: int) -> None:
    settings = make_settings(spot_lock_ttl_seconds=configured, lease_margin_seconds=margin)
    assert lease_seconds(settings) == seconds
