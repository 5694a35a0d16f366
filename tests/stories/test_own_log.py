"""A recording of Ebbtide's own log plays as the same cluster again."""

from __future__ import annotations

import pytest

from ebbtide.entrypoints.recordings import record_log
from ebbtide.entrypoints.report.collect import Period
from ebbtide.errors import Usage
from ebbtide.simulator.run.runner import store_of
from ebbtide.simulator.story import parse_story
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.story.play import Player
from ebbtide.simulator.story.schemas import START, epoch_of
from tests.stories.playing import POOLS, text_of, web

BEGINS = epoch_of(START)
HOURS = 6
PERIOD = Period("2026-01-01", "2026-01-01", BEGINS, BEGINS + HOURS * 3600)


def test_the_log_of_a_run_becomes_a_recording_of_it() -> None:
    events = [{"at": 3600, "replicas": {"web": 20}}, {"at": 10_800, "replicas": {"web": 4}}]
    told = text_of(until=HOURS * 3600, workloads=web(4, cpu="1"), events=events)
    player = Player(parse_story(told))
    player.stage.keeps_inputs = True
    before = player.run()
    found = record_log(store_of(player.stage), player.stage.settings, {"pools": POOLS}, PERIOD)
    series = found.demand["default/web"]
    assert (series.replicas[0], max(series.replicas), series.replicas[-1]) == (4, 20, 4)
    assert found.story["workloads"][0]["cpu"] == "1000m"
    assert [node["name"] for node in found.story["nodes"]] == ["a1", "b1"]
    assert found.recorded.coverage["pods"] == 1.0
    assert found.recorded.coverage["demand"] > 0.9
    assert found.recorded.launched == before.launched
    assert found.recorded.evictions == before.evictions
    again = Player(story_of(found, "month.ebb")).run()
    assert again.ok
    assert again.node_hours == pytest.approx(before.node_hours, rel=0.2)


def test_jobs_budgets_rules_and_spot_losses_of_the_log_are_recorded() -> None:
    workloads = [
        *web(4, cpu="1", pdb={"max_unavailable": 1}, anti_affinity="host"),
        {"name": "agent", "kind": "DaemonSet", "cpu": "100m"},
        {"name": "report", "kind": "Job", "cpu": "500m", "replicas": 2, "run_sec": 5400},
    ]
    nodes = [{"name": f"s{number}", "zone": "a", "market": "spot"} for number in range(5)]
    events = [{"at": 7200, "spot_notice": "s1"}]
    told = text_of(until=HOURS * 3600, nodes=nodes, workloads=workloads, events=events)
    player = Player(parse_story(told))
    player.stage.keeps_inputs = True
    player.run()
    found = record_log(store_of(player.stage), player.stage.settings, {"pools": POOLS}, PERIOD)
    kept = {one["name"]: one for one in found.story["workloads"]}
    assert kept["web"]["pdb"] == {"max_unavailable": 1}
    assert kept["web"]["anti_affinity"] == "host"
    assert kept["agent"]["kind"] == "DaemonSet"
    assert set(found.demand) == {"default/web", "default/report"}
    assert (found.demand["default/report"].replicas[0], found.demand["default/report"].replicas[-1]) == (2, 0)
    assert found.recorded.interruptions == 1
    assert 3600 * HOURS < found.story["cloud"]["spot_life_sec"] < 3600 * HOURS * 6
    assert Player(story_of(found, "month.ebb")).run().ok


def test_a_log_without_what_was_seen_is_refused() -> None:
    player = Player(parse_story(text_of(until=600)))
    player.run()
    with pytest.raises(Usage, match="holds no decision from 2026-01-01 to 2026-01-01"):
        record_log(store_of(player.stage), player.stage.settings, {}, PERIOD)
