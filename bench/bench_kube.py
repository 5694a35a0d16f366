"""How long a first view of a large cluster takes, against curl reading the same bytes, and a warm tick.

    python -m bench.bench_kube [--nodes 5000] [--pods 50000]

A real kube-apiserver and etcd hold the objects. Measured in processes of their own: the time and memory
of a first view, and the time of a whole tick while a watch keeps the view current.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.lists import PAGE
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.bootstrap import SystemClock
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import tick
from ebbtide.model.effect import Cordon, Uncordon
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from tests.integration.kube.objects import node, template
from tests.integration.kube.still import Still
from tests.servers.control_plane import Unavailable
from tests.servers.kube import ADMIN_TOKEN, KubeServer, kube_server

RATIO_LIMIT, MEMORY_LIMIT_MB, TICK_LIMIT_SECONDS = 3.0, 600, 2.0
TRIES = 3
PADDING = {"example.com/checksum": "0123456789abcdef" * 16, "example.com/team": "a team with a long name"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    parser.add_argument("--measure", choices=["view", "tick"])
    parser.add_argument("--kubeconfig", type=Path)
    asked = parser.parse_args()
    if asked.measure:
        measured = {"view": measure_view, "tick": measure_tick}[asked.measure](asked.kubeconfig)
        print(json.dumps(measured))
        return 0
    try:
        with kube_server(controllers=False) as server:
            return compare(server, asked.nodes, asked.pods)
    except Unavailable as why:
        print(f"bench_kube: NOT RUN: {why}")
        return 0


def compare(server: KubeServer, nodes: int, pods: int) -> int:
    began = time.monotonic()
    fill(server, nodes, pods)
    print(f"{nodes} nodes and {pods} pods written in {time.monotonic() - began:.0f} s")
    curl_seconds, size = best_curl(server)
    views = [in_process(server, "view") for _ in range(TRIES)]
    view_seconds = min(found["seconds"] for found in views)
    memory = max(found["megabytes"] for found in views)
    warm = in_process(server, "tick")
    ratio = view_seconds / curl_seconds
    print(f"curl reads {size / 1e6:.0f} MB in {curl_seconds:.2f} s")
    print(f"a first view takes {view_seconds:.2f} s and {memory:.0f} MB: {ratio:.2f} times curl")
    print(
        f"the slowest of {TRIES} ticks on a warm watch takes {warm['seconds']:.2f} s "
        f"({warm['cpu']:.2f} s of CPU, {warm['megabytes']:.0f} MB with the watch): {warm['says'][:60]}"
    )
    good = ratio <= RATIO_LIMIT and memory < MEMORY_LIMIT_MB and warm["seconds"] <= TICK_LIMIT_SECONDS
    print(
        f"bench_kube: ratio {ratio:.2f} (at most {RATIO_LIMIT:g}), {memory:.0f} MB (below {MEMORY_LIMIT_MB}),"
        f" tick {warm['seconds']:.2f} s (at most {TICK_LIMIT_SECONDS:g}): {'ok' if good else 'TOO SLOW'}"
    )
    return 0 if good else 1


def fill(server: KubeServer, nodes: int, pods: int) -> None:
    def one(number: int) -> None:
        if number < nodes:
            server.api.post("/api/v1/nodes", node(f"n{number:05d}", "abc"[number % 3]))
            return
        app = f"app-{number % 200}"
        made = template(app, nodeName=f"n{number % nodes:05d}", enableServiceLinks=False)
        meta = {"name": f"p{number:06d}", "annotations": PADDING, "labels": {"app": app}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}
        server.api.post("/api/v1/namespaces/default/pods", body)

    with ThreadPoolExecutor(8) as workers:
        for _ in workers.map(one, range(nodes + pods), chunksize=50):
            pass


def best_curl(server: KubeServer) -> tuple[float, int]:
    """The same pages, their continuations known beforehand, by one curl on one connection."""
    urls, size = [], 0
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        target = f"{path}?limit={PAGE}"
        while target:
            urls.append(f"https://127.0.0.1:{server.port}{target}")
            body = server.api.get(target, raw=True)
            size += len(body)
            more = json.loads(body)["metadata"].get("continue", "")
            target = f"{path}?limit={PAGE}&continue={quote(more)}" if more else ""
    listed = server.folder / "urls"
    listed.write_text("".join(f'url = "{url}"\noutput = "/dev/null"\n' for url in urls))
    command = ["curl", "-sS", "-k", "-H", f"Authorization: Bearer {ADMIN_TOKEN}", "-K", str(listed)]
    times = []
    for _ in range(TRIES):
        began = time.monotonic()
        subprocess.run(command, check=True)
        times.append(time.monotonic() - began)
    return min(times), size


def in_process(server: KubeServer, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.bench_kube", "--measure", what]
    done = subprocess.run(
        [*command, "--kubeconfig", str(server.kubeconfig())], check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure_view(kubeconfig: Path) -> dict[str, Any]:
    cluster = KubeCluster(connect(kubeconfig))
    began = time.monotonic()
    view = cluster.read()
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "megabytes": peak, "pods": len(view.pods)}


def measure_tick(kubeconfig: Path) -> dict[str, Any]:
    cluster = KubeCluster(connect(kubeconfig), watching=True)
    seen = cluster.read().nodes
    nodes = [found.name for found in seen]
    numbers, idle = count(), Still(nodes)
    ports = Ports(
        store=MemoryStore(SystemClock(), database=MemoryDatabase()),
        cluster=cluster,
        cloud=idle,
        metrics=idle,
        inbox=idle,
        notifier=idle,
        clock=SystemClock(),
        new_id=lambda: f"id-{next(numbers):06d}",
    )
    settings = Settings(pools=(Pool("general", (), ("a", "b", "c")),), max_workers=len(nodes))
    times, busy, says = [], [], ""
    for number in range(TRIES):
        # A node that changes makes the view again, as some node or pod of a large cluster always does.
        cluster.cordon(Cordon(nodes[number], seen[number].uid, "bench"), 1)
        cluster.uncordon(Uncordon(nodes[number], seen[number].uid, "bench"), 1)
        began, worked = time.monotonic(), time.process_time()
        says = tick(ports, settings, "bench", time.time() + 60).says
        times.append(time.monotonic() - began)
        busy.append(time.process_time() - worked)
    cluster.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": max(times), "cpu": max(busy), "megabytes": peak, "says": says}


if __name__ == "__main__":
    raise SystemExit(main())
