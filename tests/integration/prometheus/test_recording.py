"""A simulated time, exported in the names of kube-state-metrics into a real Prometheus, recorded from there
and played again: it costs the same, and pods are pending for as long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide.entrypoints.cli.app import app
from ebbtide.simulator.recording.file import read_recording
from ebbtide.simulator.story import parse_story
from ebbtide.simulator.story.judge import StoryResult
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.story.play import Player
from tests.servers.state_metrics import Exported, prometheus_of

HOURS = 12
SETTINGS = """
min_workers: 2
max_workers: 20
pending_up_sec: 30
cooldown_up_sec: 0
idle_down_sec: 600
cooldown_down_sec: 300
scale_down_by: node
pools: [{name: general, types: [cpx32], zones: [a, b]}]
"""
STORY = f"""
name: half a day
until: {HOURS * 3600}
settings:
{"".join(f"  {line}{chr(10)}" for line in SETTINGS.strip().splitlines())}
nodes:
  - {{name: a1, pool: general, type: cpx32, zone: a, age_sec: 86400}}
  - {{name: b1, pool: general, type: cpx32, zone: b, age_sec: 86400}}
  - {{name: b2, pool: general, type: cpx32, zone: b, age_sec: 86400}}
workloads:
  - name: web
    cpu: 1000m
    memory: 512Mi
    demand: {{curve: burst, low: 6, high: 20, every_sec: 10800, burst_sec: 4500, offset_sec: 3600}}
  - {{name: db, kind: StatefulSet, replicas: 2, cpu: 500m, memory: 1Gi}}
  - {{name: agent, namespace: kube-system, kind: DaemonSet, cpu: 100m, memory: 64Mi}}
"""
UNTIL = "2026-01-01T12:00:00Z"


@pytest.fixture(scope="module")
def played() -> tuple[StoryResult, str]:
    player = Player(parse_story(STORY))
    exported = Exported(player, HOURS * 3600)
    return player.run(), exported.text()


@pytest.fixture(scope="module")
def prometheus(played: tuple[StoryResult, str]) -> Iterator[str]:
    with prometheus_of(played[1]) as url:
        yield url


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(SETTINGS)
    return path


def test_what_is_recorded_plays_as_what_happened(
    played: tuple[StoryResult, str], prometheus: str, config: Path, tmp_path: Path
) -> None:
    output, before = tmp_path / "day.ebb", played[0]
    asked = ["record", "--prometheus", prometheus, "--days", "1", "--until", UNTIL, "-c", str(config)]
    result = CliRunner().invoke(app, [*asked, "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "0.5 of 1.0 days are recorded" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day.ebb", "ebbtide.yaml"]
    found = read_recording(output)
    assert set(found.demand) == {"default/web", "default/db"}
    assert found.demand["default/web"].replicas[:3] == [6, 20, 6]
    assert sorted(node["name"] for node in found.story["nodes"]) == ["a1", "b1", "b2"]
    assert {one["name"]: one["memory"] for one in found.story["workloads"]} == {
        "web": "512Mi",
        "db": "1024Mi",
        "agent": "64Mi",
    }
    recorded = found.recorded
    assert recorded.node_hours == pytest.approx(before.node_hours, rel=0.02)
    assert recorded.pending_pod_seconds == pytest.approx(before.pending_pod_seconds, rel=0.10)
    assert recorded.launched == before.launched
    again = Player(story_of(found, "day.ebb")).run()
    assert float(again.cost) == pytest.approx(float(before.cost), rel=0.02)
    assert again.pending_pod_seconds == pytest.approx(before.pending_pod_seconds, rel=0.10)
    assert again.evictions == pytest.approx(before.evictions, rel=0.10)


def test_without_names_nothing_says_what_it_was(prometheus: str, config: Path, tmp_path: Path) -> None:
    output = tmp_path / "day.ebb"
    asked = ["record", "--prometheus", prometheus, "--days", "1", "--until", UNTIL, "-c", str(config)]
    assert CliRunner().invoke(app, [*asked, "--anonymise", "-o", str(output)]).exit_code == 0
    found = read_recording(output)
    assert {key.partition("/")[2] for key in found.demand} == {"workload-2", "workload-3"}
    assert "web" not in str(found)
    assert prometheus not in str(found)
