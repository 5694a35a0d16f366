"""A daemon that looks ahead, over days of the simulator: the same engine, cluster and cloud as without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes import headroom, targets, underused
from ebbtide.model.pool import Headroom
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.backtest.runs import Candidate, Run, Work, play_work, story_for
from ebbtide.simulator.recording.file import VERSION, Recording, Series
from ebbtide.simulator.story.play import Player
from tests.stories.playing import POOLS
from tests.stories.test_forecasts import HOUR, days


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


def afternoon() -> Player:
    """Twelve pods, and from the tenth minute on four. A forecast asks for room for the other eight."""
    series = Series([0.0, 600.0], [12, 4])
    story = {**days(1).story, "until": 1.5 * HOUR}
    settings = {"pools": POOLS, "profile": "balanced", "forecast": {"enabled": True}}
    recording = Recording(VERSION, story, {"default/web": series})
    player = Player(story_for(Work(recording, "afternoon", Candidate("one", settings), 1)))

    def expecting(settings: Settings, snapshot: Snapshot) -> Settings:
        pods = sum(not pod.tied_to_node for pod in snapshot.cluster.pods)
        room = Headroom(1000, 512, max(12 - pods, 0), str(POOLS[0]["name"]), expected="12 pods")
        return replace(settings, headroom=(room,))

    player.stage.look_ahead = lambda _, ports: replace(ports, expecting=expecting)
    return player


def test_nodes_that_a_forecast_keeps_stay_and_one_that_goes_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = afternoon()
    assert kept.run().violations == ()
    monkeypatch.setattr(headroom, "wanted_now", lambda *_: [])
    for module in (targets, underused):
        monkeypatch.setattr(module, "wanted_now", lambda *_: [])
    removed = afternoon()
    said = removed.run().violations
    assert len(removed.stage.world.inventory.nodes) < len(kept.stage.world.inventory.nodes)
    assert any("are asked for by a forecast" in each for each in said)
