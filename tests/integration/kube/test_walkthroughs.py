"""The walk-throughs of the documentation, command by command, on a real control plane. Kubelets and the cloud
are played; `kubectl` and `ebbtide` are real, and each page is one shell."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ebbtide.gate.minecraft import packet, string
from tests.e2e.shell import clean_environment
from tests.integration.kube.hetzner_stage import hetzner_stage
from tests.integration.kube.objects import node, template, workload
from tests.integration.kube.test_gate import everything
from tests.servers.clouds import HetznerBench
from tests.servers.hetzner import TOKEN
from tests.servers.processes import eventually
from tests.servers.promql import promql_server, vector
from tests.servers.shared_kube import RBAC, SharedKube
from tests.unit.gate.house import LOOPBACK, free_ports
from tests.unit.gate.test_minecraft import handshake

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "walkthroughs"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
VERSION = "v1.34.1+k3s1"
IMAGE = {"id": 114690387, "name": "debian-12", "type": "system", "status": "available", "os_flavor": "debian"}
SECONDS = 900


@pytest.fixture
def hetzner() -> Iterator[HetznerBench]:
    made = HetznerBench()
    yield made
    made.close()


def walk(kube: SharedKube, hetzner: HetznerBench, page: str, folder: Path, **more: str) -> str:
    """Every block of the page in one shell that stops at the first command that fails; what it printed."""
    script = "\n".join(BLOCK.findall((PAGES / page).read_text()))
    path = [str(kube.server.binaries), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        "PATH": ":".join(path),
        "HOME": str(folder),
        "KUBECONFIG": str(kube.server.kubeconfig()),
        "REPO": str(ROOT),
        "HCLOUD_TOKEN": TOKEN,
        "HETZNER_ENDPOINT": hetzner.server.url,
        **more,
    }
    command = ["/bin/bash", "-euxo", "pipefail", "-c", script]
    given = clean_environment(environment)
    out, told = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(
        command, cwd=folder, env=given, stdout=out, stderr=told, text=True, start_new_session=True
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)  # what a page that failed left in the background
    logs = "".join(f"{path.name}:\n{path.read_text()[-3000:]}\n" for path in sorted(folder.glob("*.log")))
    assert shell.returncode == 0, f"{printed[-3000:]}\n{logs}"
    return printed


def make_cluster(kube: SharedKube, hetzner: HetznerBench) -> None:
    """A K3s server and one agent on Hetzner, with a web and a database that are up."""
    agent = hetzner.server.make("agent-1", "fsn1", "cpx32", {})
    agent["image"] = IMAGE
    place = {"topology.kubernetes.io/region": "fsn1"}
    told = {"nodeInfo": {"kubeletVersion": VERSION}}
    control = {
        "labels": {"node-role.kubernetes.io/control-plane": "true", **place},
        "spec": {"providerID": "hcloud://1", "taints": [{"key": "server", "effect": "NoSchedule"}]},
        "status": {**told, "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
    }
    kube.api.post("/api/v1/nodes", node("server-1", "fsn1", "", **control))
    worker = {"labels": place, "spec": {"providerID": f"hcloud://{agent['id']}"}, "status": told}
    kube.api.post("/api/v1/nodes", node("agent-1", "fsn1", "", **worker))
    apps = "/apis/apps/v1/namespaces/default"
    kube.api.post(f"{apps}/deployments", workload("Deployment", "web", 2, template("web")))
    kube.api.post(f"{apps}/statefulsets", workload("StatefulSet", "db", 1, template("db")))

    def up() -> bool:
        found = (f"{apps}/deployments/web", f"{apps}/statefulsets/db")
        return [kube.api.get(path)["status"].get("readyReplicas") for path in found] == [2, 1]

    eventually(up, 60, "web and db")


def test_development_environments_that_sleep_at_night(
    kube: SharedKube, hetzner: HetznerBench, tmp_path: Path
) -> None:
    make_cluster(kube, hetzner)
    try:
        told = walk(kube, hetzner, "dev-environments-asleep-at-night.md", tmp_path)
    finally:
        for name in ("sleep-policies.yaml", "workload-scaling.yaml"):
            kube.server.kubectl("delete", "--ignore-not-found", "-f", str(RBAC.with_name(name)))
        kube.server.kubectl("apply", "-f", str(RBAC))
    assert "image, networks and groups are those of the workers, as the cloud says" in told
    assert "policy default.nights: created, as SleepPolicy default/nights says" in told
    assert re.search(r"^nights +web, db +Active .* True +Applied", told, re.MULTILINE), told[-3000:]
    assert re.search(r"^deployment.apps/web +0/0", told, re.MULTILINE)
    assert re.search(r"^statefulset.apps/db +0/0", told, re.MULTILINE)
    assert told.rstrip().endswith("There is no policy yet. `ebbtide policy apply -f` makes one.")
    assert [server["name"] for server in hetzner.made()] == ["agent-1"], "nothing was launched"


class Player:
    """A Minecraft client, and Prometheus, which is asked how many play. It looks at the list of servers once
    the page has seen that the machine of the game is gone, and then joins."""

    def __init__(self, kube: SharedKube, folder: Path) -> None:
        self._kube = kube
        self._seen_asleep = folder / "asleep.txt"
        self._over = threading.Event()
        self.playing = 0
        self.told: list[bytes] = []
        self._thread = threading.Thread(target=self._play, name="player", daemon=True)
        self._thread.start()

    def answer(self, query: str) -> tuple[int, str]:
        now = time.time()
        if "players_online" in query:
            return vector(({}, now, str(self.playing)))
        names = [item["metadata"]["name"] for item in self._kube.api.items("/api/v1/nodes")]
        return vector(*(({"node": name, "instance": name}, now, "0.05") for name in names))

    def leave(self) -> None:
        self._over.set()
        self._thread.join(60)

    def _play(self) -> None:
        while not self._over.wait(0.2) and not self._asleep():
            continue
        if self._over.is_set():
            return
        with socket.create_connection((LOOPBACK, self._gate_port()), timeout=60) as wire:
            wire.sendall(handshake(1) + b"\x01\x00" + b"\x09\x01" + bytes(8))
            self.told.append(everything(wire))
        self.playing = 1
        with socket.create_connection((LOOPBACK, self._gate_port()), timeout=60) as wire:
            wire.sendall(handshake(2) + packet(0, string("Steve") + bytes(16)))
            self._over.wait(240)

    def _asleep(self) -> bool:
        return self._seen_asleep.exists() and bool(self._seen_asleep.read_text())

    def _gate_port(self) -> int:
        """Where kube-proxy would send the player: the Service leads to the gate."""
        slices = self._kube.api.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
        (gate,) = [each for each in slices if each["metadata"]["name"] == "survival-ebbtide-gate"]
        (port,) = gate["ports"]
        assert [each["addresses"] for each in gate["endpoints"]] == [["192.0.2.251"]]
        return int(port["port"])


@pytest.mark.timeout(SECONDS + 60)
def test_minecraft_servers_on_hetzner_from_nothing(
    kube: SharedKube, hetzner: HetznerBench, tmp_path: Path
) -> None:
    control = {
        "labels": {"node-role.kubernetes.io/control-plane": "true"},
        "spec": {
            "providerID": "hcloud://1",
            "taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
        },
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.251"}]},
    }
    kube.api.post("/api/v1/nodes", node("games-server", "fsn1", "", **control))
    everywhere = [{"operator": "Exists"}]
    dns = workload("Deployment", "coredns", 1, template("coredns", tolerations=everywhere))
    kube.api.post("/apis/apps/v1/namespaces/kube-system/deployments", dns)
    # The root CA of a cluster is put into every namespace by a controller that does not run here.
    authority = kube.server.authority.read_text()
    root = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}}
    kube.api.post("/api/v1/namespaces/ebbtide/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", **root})
    first = free_ports(16)
    own = {"GATE_HOST": LOOPBACK, "GATE_PORTS": f"{first}-{first + 15}", "METRICS_ADDR": "off"}
    own["METRICS_QUERY"] = "node_cpu"  # there is no metrics-server here
    with hetzner_stage(kube.api, hetzner) as stage:
        player = Player(kube, tmp_path)
        try:
            with promql_server(player.answer) as prometheus:
                told = walk(
                    kube, hetzner, "minecraft-on-hetzner.md", tmp_path,
                    SNAPSHOT="debian-12", PROMETHEUS=prometheus, **own,
                )  # fmt: skip
        finally:
            player.leave()
            _take_down(kube)
    assert len(player.told) == 1
    assert b"survival is asleep. Join to wake it." in player.told[0]
    assert len(stage.launched) == 2, "one for the first start, one for the player"
    assert len(stage.volumes) == 1, "the world stays on its volume"
    assert re.search(r"^statefulset.apps/survival condition met", told, re.MULTILINE), told[-3000:]
    names = [server["name"] for server in hetzner.made()]
    assert names == ["games-server", stage.launched[1]]


def _take_down(kube: SharedKube) -> None:
    for name in ("survival", "survival-players"):
        kube.api.delete(f"/api/v1/namespaces/default/services/{name}")
    kube.api.delete("/apis/apps/v1/namespaces/default/statefulsets/survival")
    for name in ("gate.yaml", "workload-scaling.yaml"):
        kube.server.kubectl("delete", "--ignore-not-found", "-f", str(RBAC.with_name(name)))
    kube.api.delete("/api/v1/namespaces/ebbtide/configmaps/kube-root-ca.crt")
    kube.api.delete("/apis/discovery.k8s.io/v1/namespaces/ebbtide/endpointslices/ebbtide-gate-host")
    eventually(lambda: not kube.api.items("/api/v1/namespaces/default/pods"), 60, "no pod")
