"""A whole scale-down on a real control plane, its runner killed before and after every single step."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from ebbtide.engine.tick import tick
from ebbtide.model.events import OperationClosed
from ebbtide.model.log import LogKind
from ebbtide.narrate import facts_in
from tests.integration.kube.objects import Json, bare_pod, budget, node, template, workload
from tests.integration.kube.runner import SETTINGS, AheadClock, Death, ports_of
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

APPS = "/apis/apps/v1/namespaces/{}/{}"
NODES = ("a1", "a2", "a3", "b1", "b2", "b3")
KEPT = {"a1", "b1"}
"""They hold the bare pod and the kube-system pod."""
LEASE_SECONDS = SETTINGS.lock_ttl_seconds + 1
STEPS = ("write", "soft_taint", "cordon", "evict", "terminate", "delete_node")
MOST_TICKS = 300


class Runner:
    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        command = [sys.executable, "-m", "tests.integration.kube.runner", str(folder), str(kubeconfig)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.offset = 0
        self.killed = 0

    def tick(self, strike: bool = True) -> Json:
        assert self._process.stdin
        assert self._process.stdout
        order = {"strike": strike, "offset": self.offset}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: Json = json.loads(self._process.stdout.readline())
        assert not answer["failed"]
        if answer["killed"]:
            self.killed += 1
            self.offset += LEASE_SECONDS
        return answer

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(20)


def populate(kube: SharedKube, folder: Path) -> None:
    api = kube.api
    for name in NODES:
        api.post("/api/v1/nodes", node(name, name[0]))
    api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget("web"))
    api.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget("db", minAvailable=2))
    api.post(APPS.format("default", "daemonsets"), workload("DaemonSet", "agent", None, template("agent")))
    api.post(APPS.format("default", "deployments"), workload("Deployment", "web", 8, template("web")))
    api.post(APPS.format("default", "statefulsets"), workload("StatefulSet", "db", 3, template("db")))
    system = template("dns", nodeSelector={"kubernetes.io/hostname": "b1"})
    api.post(APPS.format("kube-system", "deployments"), workload("Deployment", "dns", 1, system))
    api.post("/api/v1/namespaces/default/pods", bare_pod("solo", nodeName="a1"))
    (folder / "instances.json").write_text(json.dumps({f"i-{name}": "running" for name in NODES}))
    eventually(lambda: running(kube) == 6 + 8 + 3 + 1 + 1, 60, "all pods running")
    kube.kubelets.least_ready.clear()


def running(kube: SharedKube) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in kube.api.items("/api/v1/pods"))


def evictions(kube: SharedKube) -> list[str]:
    """UIDs of the pods whose eviction the API server carried out, in order."""
    lines = kube.server.audit_log.read_text().splitlines()
    events = [json.loads(line) for line in lines]
    done = [event for event in events if event["responseStatus"]["code"] == 201]
    return [event["requestObject"]["deleteOptions"]["preconditions"]["uid"] for event in done]


def uid_of(kube: SharedKube, name: str, app: str) -> str:
    pods = kube.api.items(f"/api/v1/namespaces/{name}/pods?labelSelector=app%3D{app}")
    uid: str = pods[0]["metadata"]["uid"]
    return uid


def closed(store: SqlStore) -> list[OperationClosed]:
    return facts_in(store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)


@pytest.mark.timeout(300)
def test_three_nodes_are_removed_though_the_runner_is_killed_around_every_step(
    kube: SharedKube, tmp_path: Path
) -> None:
    populate(kube, tmp_path)
    before = len(evictions(kube))
    untouched = uid_of(kube, "default", "solo"), uid_of(kube, "kube-system", "dns")
    runner = Runner(tmp_path, kube.kubeconfig)
    store = SqlStore.open(f"sqlite:///{tmp_path / 'record.db'}", SystemClock(), SETTINGS.cluster)
    try:
        said: list[Any] = []
        while not closed(store) and len(said) < MOST_TICKS:
            said.append(runner.tick())
        assert closed(store), said[-5:]
        for _ in range(3):
            said.append(runner.tick(strike=False))
        summary = closed(store)
    finally:
        runner.close()
        store.close()

    assert len(summary) == 1
    assert summary[0].succeeded
    left = kube.api.items("/api/v1/nodes")
    names = {item["metadata"]["name"] for item in left}
    assert len(names) == 3
    assert names >= KEPT
    assert not any(item["spec"].get("unschedulable") for item in left)
    struck = (tmp_path / "struck").read_text().splitlines()
    assert len(struck) == len(set(struck)) == runner.killed
    for step in STEPS:
        for when in ("before", "after"):
            assert any(line.startswith(f"{when} {step} ") for line in struck)
    print(f"killed {runner.killed} times in {len(said)} ticks; {summary[0]}")
    check_terminations(tmp_path, set(NODES) - names)
    gone = evictions(kube)[before:]
    assert len(gone) == len(set(gone)) > 0
    assert not set(gone) & set(untouched)
    assert untouched == (uid_of(kube, "default", "solo"), uid_of(kube, "kube-system", "dns"))
    assert kube.kubelets.least_ready["web"] >= 7
    assert kube.kubelets.least_ready["db"] >= 2


def test_one_runner_on_a_watched_view_removes_three_nodes_as_safely(kube: SharedKube, tmp_path: Path) -> None:
    populate(kube, tmp_path)
    before = len(evictions(kube))
    clock = AheadClock(0)
    store = SqlStore.open(f"sqlite:///{tmp_path / 'record.db'}", clock, SETTINGS.cluster)
    cluster = KubeCluster(connect(kube.kubeconfig), watching=True)
    ports = ports_of(tmp_path, cluster, store, clock, Death(tmp_path, strikes=False))
    said: list[str] = []
    try:
        while not closed(store) and len(said) < MOST_TICKS:
            said.append(tick(ports, SETTINGS, "runner", clock.now() + 60).says)
            time.sleep(0.3)
        assert closed(store)[0].succeeded
    finally:
        cluster.close()
        store.close()
    names = {item["metadata"]["name"] for item in kube.api.items("/api/v1/nodes")}
    print(f"{len(said)} ticks: {said[-1][:100]}")
    assert len(names) == 3
    assert names >= KEPT
    check_terminations(tmp_path, set(NODES) - names)
    gone = evictions(kube)[before:]
    assert len(gone) == len(set(gone)) > 0
    assert kube.kubelets.least_ready["web"] >= 7
    assert kube.kubelets.least_ready["db"] >= 2


def check_terminations(folder: Path, removed: set[str]) -> None:
    """Exactly the removed nodes were terminated, each with nothing but its DaemonSet pod left on it."""
    notes = [json.loads(line) for line in (folder / "terminated").read_text().splitlines()]
    assert {note["instance"].removeprefix("i-") for note in notes} == removed
    assert {controller for note in notes for _, controller in note["pods"]} <= {"DaemonSet"}
