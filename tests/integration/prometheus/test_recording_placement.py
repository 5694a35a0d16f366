"""Where pods may run is in no metric: it comes from the objects of the cluster, and a backtest needs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ebbtide.entrypoints.cli.app import app
from ebbtide.simulator.recording.file import read_recording
from ebbtide.simulator.story import parse_story
from ebbtide.simulator.story.judge import StoryResult
from ebbtide.simulator.story.play import Player
from tests.dumps import as_dump, node
from tests.servers.state_metrics import Exported, prometheus_of

DAYS = 2
SECONDS = DAYS * 86_400
SETTINGS = """
min_workers: 2
max_workers: 20
pools:
  - {name: general, types: [cpx32], zones: [a, b]}
  - name: batch
    types: [cpx42]
    zones: [a]
    labels: {workload: batch}
    taints: [{key: workload, value: batch, effect: NoSchedule}]
"""
STORY = f"""
name: two days with pods that may not run anywhere
until: {SECONDS}
tick_sec: 60
settings:
{"".join(f"  {line}{chr(10)}" for line in SETTINGS.strip().splitlines())}
nodes:
  - {{name: a1, pool: general, type: cpx32, zone: a, age_sec: 86400}}
  - {{name: b1, pool: general, type: cpx32, zone: b, age_sec: 86400}}
  - {{name: c1, pool: batch, type: cpx42, zone: a, age_sec: 86400}}
workloads:
  - name: web
    cpu: 1000m
    memory: 512Mi
    demand: {{curve: day, low: 3, high: 8}}
    pdb: {{max_unavailable: 2}}
  - name: trainer
    cpu: 3000m
    memory: 2Gi
    demand: {{curve: burst, low: 1, high: 4, every_sec: 20011, burst_sec: 6000, offset_sec: 3600}}
    node_selector: {{workload: batch}}
    tolerations: [{{key: workload, operator: Equal, value: batch, effect: NoSchedule}}]
  - {{name: queue, replicas: 3, cpu: 200m, memory: 256Mi, anti_affinity: host}}
  - name: report
    kind: Job
    cpu: 1500m
    memory: 1Gi
    run_sec: 2700
    demand: {{curve: batch, high: 4, every_sec: 21600, offset_sec: 7200}}
"""
UNTIL = "2026-01-03T00:00:00Z"
TOLERATION = {"key": "workload", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}


def pod(name: str, owner: tuple[str, str], **spec: Any) -> dict[str, Any]:
    kind, of = owner
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {"app": name.partition("-")[0]},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": kind, "name": of, "uid": f"uid-{of}", "controller": True}
            ],
        },
        "spec": {"nodeName": "a1", "containers": [{"name": "main"}], **spec},
        "status": {"phase": "Running"},
    }


def dump() -> bytes:
    """As `kubectl` would print it: a pod of each workload, and a budget that is named after nothing."""
    apart = {"labelSelector": {"matchLabels": {"app": "queue"}}, "topologyKey": "kubernetes.io/hostname"}
    return as_dump(
        [
            node("a1", "v1.34.1+k3s1", {"ebbtide.dev/pool": "general"}),
            pod("web-5d8f-abcde", ("ReplicaSet", "web-5d8f")),
            pod(
                "trainer-5d8f-abcde",
                ("ReplicaSet", "trainer-5d8f"),
                nodeSelector={"workload": "batch"},
                tolerations=[TOLERATION],
            ),
            pod(
                "queue-5d8f-abcde",
                ("ReplicaSet", "queue-5d8f"),
                affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
            ),
            pod("report-29384710-abcde", ("Job", "report-29384710")),
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
                "status": {"disruptionsAllowed": 0},
            },
        ]
    )


@pytest.fixture(scope="module")
def played() -> tuple[StoryResult, str]:
    player = Player(parse_story(STORY))
    exported = Exported(player, SECONDS)
    return player.run(), exported.text()


@pytest.fixture(scope="module")
def prometheus(played: tuple[StoryResult, str]) -> Iterator[str]:
    with prometheus_of(played[1]) as url:
        yield url


def recorded(prometheus: str, folder: Path, *more: str) -> Result:
    config = folder / "ebbtide.yaml"
    config.write_text(SETTINGS)
    asked = ["record", "--prometheus", prometheus, "--days", "2", "--until", UNTIL, "-c", str(config)]
    result = CliRunner().invoke(app, [*asked, "-o", str(folder / "days.ebb"), *more])
    assert result.exit_code == 0, result.output
    return result


def test_with_the_objects_of_the_cluster_pods_run_where_they_did(
    played: tuple[StoryResult, str], prometheus: str, tmp_path: Path
) -> None:
    file, before = tmp_path / "objects.json", played[0]
    file.write_bytes(dump())
    recorded(prometheus, tmp_path, "--dump", str(file))
    found = read_recording(tmp_path / "days.ebb")
    assert found.recorded.coverage["placement"] == 1.0
    assert found.recorded.coverage["pods"] == 1.0
    workloads = {one["name"]: one for one in found.story["workloads"]}
    assert workloads["trainer"]["node_selector"] == {"workload": "batch"}
    assert workloads["trainer"]["tolerations"] == [TOLERATION]
    assert workloads["queue"]["anti_affinity"] == "host"
    assert workloads["web"]["pdb"] == {"max_unavailable": 2}
    assert max(found.demand["default/report"].replicas) == 4
    assert found.demand["default/report"].replicas.count(4) == 8, "eight batches in two days"
    again = backtested(tmp_path / "days.ebb")
    assert float(again["cost"]) == pytest.approx(float(before.cost), rel=0.05)
    assert again["pending_pod_seconds"] == pytest.approx(before.pending_pod_seconds, rel=0.15)


def test_without_them_it_says_what_it_takes_for_granted(
    played: tuple[StoryResult, str], prometheus: str, tmp_path: Path
) -> None:
    result = recorded(prometheus, tmp_path)
    found = read_recording(tmp_path / "days.ebb")
    assert found.recorded.coverage["placement"] == 0.0
    assert "--dump" in result.stderr
    assert float(backtested(tmp_path / "days.ebb")["cost"]) < 0.9 * float(played[0].cost), (
        "pods that may run anywhere need fewer nodes: that is why it must be said"
    )


def backtested(recording: Path) -> dict[str, float]:
    result = CliRunner().invoke(app, ["backtest", str(recording), "--json"])
    assert result.exit_code == 0, result.output
    row: dict[str, float] = json.loads(result.stdout)["candidates"][0]
    return row
