"""A daemon that looks ahead, over days of the simulator: the same engine, cluster and cloud as without."""

from __future__ import annotations

from typing import Any

from ebbtide.simulator.backtest.candidates import Candidate
from ebbtide.simulator.backtest.runs import Run, Work, play_work
from ebbtide.simulator.recording.file import Recording
from tests.stories.test_forecasts import days


def played(recording: Recording, **changes: Any) -> Run:
    settings = {**recording.story["settings"], "max_workers": 20, **changes}
    return play_work(Work(recording, "office", Candidate("one", settings), 1))


def test_after_a_week_the_pods_of_the_morning_find_their_nodes_ready() -> None:
    office = days(8)
    without, ahead = played(office), played(office, forecast={"enabled": True})
    assert without.pods_that_waited == 9 * 4
    assert ahead.pods_that_waited == without.pods_that_waited - 4
    assert ahead.violations == ()
    assert float(ahead.cost) < float(without.cost) * 1.01
    assert ahead.evictions == without.evictions


def test_in_the_first_week_nothing_is_different() -> None:
    office = days(3)
    assert played(office) == played(office, forecast={"enabled": True})
