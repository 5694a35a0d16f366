"""The walk-throughs of the documentation, command by command, on a real control plane. Kubelets and the cloud
are played; `kubectl` and `ebbtide` are real, and each page is one shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import clean_environment
from tests.integration.kube.objects import node, template, workload
from tests.servers.clouds import HetznerBench
from tests.servers.hetzner import TOKEN
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "walkthroughs"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
VERSION = "v1.34.1+k3s1"
IMAGE = {"id": 114690387, "name": "debian-12", "type": "system", "status": "available", "os_flavor": "debian"}
SECONDS = 400


@pytest.fixture
def hetzner() -> Iterator[HetznerBench]:
    made = HetznerBench()
    yield made
    made.close()


def walk(kube: SharedKube, hetzner: HetznerBench, page: str, folder: Path) -> str:
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
    }
    done = subprocess.run(
        ["/bin/bash", "-euxo", "pipefail", "-c", script],
        cwd=folder,
        env=clean_environment(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


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
