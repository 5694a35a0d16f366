"""A simulated month, exported in the names of kube-state-metrics into a real Prometheus, recorded from there
with `ebbtide record` and played again with `ebbtide backtest`: it costs the same, and pods are pending for as
long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ebbtide.entrypoints.cli.app import app
from ebbtide.simulator.recording.file import read_recording
from ebbtide.simulator.story import parse_story
from ebbtide.simulator.story.judge import StoryResult
from ebbtide.simulator.story.play import Player
from tests.servers.state_metrics import Exported, prometheus_of

DAYS = 30
SECONDS = DAYS * 86_400
SETTINGS = """
min_workers: 2
max_workers: 20
pools: [{name: general, types: [cpx32], zones: [a, b]}]
"""
STORY = f"""
name: a month
until: {SECONDS}
tick_sec: 60
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
    cpu_use: 0.35
    demand: {{curve: day, low: 6, high: 20}}
  - name: queue
    cpu: 500m
    memory: 1Gi
    cpu_use: 0.6
    demand: {{curve: burst, low: 1, high: 10, every_sec: 30011, burst_sec: 4500, offset_sec: 3600}}
  - {{name: db, kind: StatefulSet, replicas: 2, cpu: 500m, memory: 1Gi}}
  - {{name: agent, namespace: kube-system, kind: DaemonSet, cpu: 100m, memory: 64Mi}}
"""
UNTIL = "2026-01-31T00:00:00Z"


@pytest.fixture(scope="module")
def played() -> tuple[StoryResult, str]:
    player = Player(parse_story(STORY))
    exported = Exported(player, SECONDS)
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
    output, before = tmp_path / "month.ebb", played[0]
    assert before.evictions > 100, "a month without evictions shows nothing of them"
    asked = ["record", "--prometheus", prometheus, "--days", "31", "--until", UNTIL, "-c", str(config)]
    result = CliRunner().invoke(app, [*asked, "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "30.0 of 31.0 days are recorded" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ebbtide.yaml", "month.ebb"]
    found = read_recording(output)
    assert set(found.demand) == {"default/web", "default/queue", "default/db"}
    assert found.demand["default/queue"].replicas[:3] == [1, 10, 1]
    assert sorted(node["name"] for node in found.story["nodes"]) == ["a1", "b1", "b2"]
    assert {one["name"]: one["memory"] for one in found.story["workloads"]} == {
        "web": "512Mi",
        "queue": "1024Mi",
        "db": "1024Mi",
        "agent": "64Mi",
    }
    used = {one["name"]: one["cpu_use"] for one in found.story["workloads"]}
    assert used == pytest.approx({"web": 0.35, "queue": 0.6, "db": 0.5, "agent": 0.5}, abs=0.05)
    recorded = found.recorded
    assert recorded.node_hours == pytest.approx(before.node_hours, rel=0.02)
    assert recorded.pending_pod_seconds == pytest.approx(before.pending_pod_seconds, rel=0.10)
    assert recorded.launched == before.launched
    again = backtested(output)
    assert float(again["cost"]) == pytest.approx(float(before.cost), rel=0.02)
    assert again["pending_pod_seconds"] == pytest.approx(before.pending_pod_seconds, rel=0.10)
    assert again["evictions"] == pytest.approx(before.evictions, rel=0.10)


def backtested(recording: Path) -> dict[str, float]:
    """The row of the settings that were in force."""
    result = CliRunner().invoke(app, ["backtest", str(recording), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert {one["what"]: one["doubtful"] for one in told["calibration"]} == {
        "node-hours": False,
        "waiting": False,
    }
    row: dict[str, float] = told["candidates"][0]
    return row


def test_without_names_nothing_says_what_it_was(prometheus: str, config: Path, tmp_path: Path) -> None:
    output = tmp_path / "month.ebb"
    asked = ["record", "--prometheus", prometheus, "--days", "30", "--until", UNTIL, "-c", str(config)]
    assert CliRunner().invoke(app, [*asked, "--anonymise", "-o", str(output)]).exit_code == 0
    found = read_recording(output)
    assert {key.partition("/")[2] for key in found.demand} == {"workload-2", "workload-3", "workload-4"}
    assert "web" not in str(found)
    assert prometheus not in str(found)
