"""How long a first view of a large cluster takes, against curl reading the same bytes, and warm ticks.

    python -m bench.bench_kube [--nodes 5000] [--pods 50000] [--pending 5000]

A real kube-apiserver and etcd hold the objects. Measured in processes of their own: the time and memory
of a first view, and the time of whole ticks while watches keep the view current: with no pod pending, and
with as many pending that no node has room for. A tick reads the view, decides, writes the decision with all
its inputs to SQLite, and launches; the cloud answers at once. Before each tick a node changes, as some node
of a large cluster always does.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import yaml

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import PAGE, connect
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from ebbtide.config import Config, load
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import tick
from ebbtide.model.effect import Cordon, Uncordon
from tests.integration.kube.objects import node, template
from tests.integration.kube.still import Willing
from tests.servers.control_plane import Unavailable
from tests.servers.kube import ADMIN_TOKEN, KubeServer, kube_server

RATIO_LIMIT, MEMORY_LIMIT_MB = 3.0, 600
TICK_LIMIT_SECONDS, PENDING_LIMIT_SECONDS = 2.0, 3.0
TRIES = 3
PROFILES = ("classic", "eager")
BOUND = {"cpu": "380m", "memory": "700Mi"}
"""Ten of them fill a node, so nothing that is pending fits on it."""
PENDING = (("250m", "400Mi"), ("500m", "800Mi"), ("1", "2Gi"), ("1500m", "3Gi"), ("2", "2500Mi"))
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
PODS = "/api/v1/namespaces/default/pods"
PADDING = {"example.com/checksum": "0123456789abcdef" * 16, "example.com/team": "a team with a long name"}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    parser.add_argument("--pending", type=int, default=5000)
    parser.add_argument("--measure", choices=["view", *PROFILES])
    parser.add_argument("--kubeconfig", type=Path)
    asked = parser.parse_args()
    if asked.measure == "view":
        print(json.dumps(measure_view(asked.kubeconfig)))
        return 0
    if asked.measure:
        print(json.dumps(measure_tick(asked.kubeconfig, asked.measure)))
        return 0
    try:
        with kube_server(controllers=False) as server:
            return compare(server, asked.nodes, asked.pods, asked.pending)
    except Unavailable as why:
        print(f"bench_kube: NOT RUN: {why}")
        return 0


def compare(server: KubeServer, nodes: int, pods: int, pending: int) -> int:
    began = time.monotonic()
    fill(server, nodes, pods)
    print(f"{nodes} nodes and {pods} pods written in {time.monotonic() - began:.0f} s", flush=True)
    curl_seconds, size = best_curl(server)
    views = [in_process(server, "view") for _ in range(TRIES)]
    view_seconds = min(found["seconds"] for found in views)
    memory = max(found["megabytes"] for found in views)
    ratio = view_seconds / curl_seconds
    print(f"curl reads {size / 1e6:.0f} MB in {curl_seconds:.2f} s")
    print(f"a first view takes {view_seconds:.2f} s and {memory:.0f} MB: {ratio:.2f} times curl")
    calm = [show_ticks(server, profile, "no pod pending") for profile in PROFILES]
    make_pending(server, pods, pending)
    busy = show_ticks(server, "eager", f"{pending} pods pending")
    good = ratio <= RATIO_LIMIT and memory < MEMORY_LIMIT_MB
    good = good and max(calm) < TICK_LIMIT_SECONDS and busy < PENDING_LIMIT_SECONDS
    print(
        f"bench_kube: ratio {ratio:.2f} (at most {RATIO_LIMIT:g}), {memory:.0f} MB (below {MEMORY_LIMIT_MB}),"
        f" tick {max(calm):.2f} s (below {TICK_LIMIT_SECONDS:g}), with {pending} pending {busy:.2f} s"
        f" (below {PENDING_LIMIT_SECONDS:g}): {'ok' if good else 'TOO SLOW'}"
    )
    return 0 if good else 1


def show_ticks(server: KubeServer, profile: str, what: str) -> float:
    """The time of the slowest tick, measured in a process of its own."""
    warm = in_process(server, profile)
    ticks = ", ".join(
        f"{wall:.2f} s ({cpu:.2f} s CPU)" for wall, cpu in zip(warm["seconds"], warm["cpu"], strict=True)
    )
    print(f"warm ticks, {profile}, {what}: {ticks}; {warm['megabytes']:.0f} MB with the watches")
    for says in warm["says"]:
        print(f"  {says}", flush=True)
    slowest: float = max(warm["seconds"])
    return slowest


def fill(server: KubeServer, nodes: int, pods: int) -> None:
    def one(number: int) -> None:
        if number < nodes:
            server.api.post("/api/v1/nodes", node(f"n{number:05d}", "abc"[number % 3]))
            return
        server.api.post(PODS, pod_of(number - nodes, **BOUND, nodeName=f"n{number % nodes:05d}"))

    each(one, nodes + pods)


def make_pending(server: KubeServer, pods: int, pending: int) -> None:
    """So many pods are pending instead of bound."""

    def one(number: int) -> None:
        server.api.delete(f"{PODS}/p{number:06d}", now=True)
        cpu, memory = PENDING[number % len(PENDING)]
        made = pod_of(pods + number, cpu=cpu, memory=memory)
        server.api.post(PODS, made)
        path = f"{PODS}/{made['metadata']['name']}/status"
        server.api.patch(path, {"status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}})

    each(one, pending)


def pod_of(number: int, **spec: Any) -> dict[str, Any]:
    app = f"app-{number % 200}"
    made = template(app, enableServiceLinks=False, **spec)
    meta = {"name": f"p{number:06d}", "annotations": PADDING, "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def each(one: Callable[[int], None], count: int) -> None:
    with ThreadPoolExecutor(8) as workers:
        for _ in workers.map(one, range(count), chunksize=50):
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


def measure_tick(kubeconfig: Path, profile: str) -> dict[str, Any]:
    cluster = KubeCluster(connect(kubeconfig), watching=True)
    seen = cluster.read().nodes
    idle, numbers = Willing([found.name for found in seen]), count()
    with TemporaryDirectory() as folder:
        config = config_of(Path(folder), profile, len(seen))
        ports = Ports(
            store=SqlStore.open(config.store_url, SystemClock(), config.settings.cluster),
            cluster=cluster,
            cloud=idle,
            metrics=idle,
            inbox=idle,
            notifier=idle,
            clock=SystemClock(),
            new_id=lambda: f"id-{next(numbers):06d}",
        )
        import_module("ebbtide.core.packing.improve")  # the first tick that plans would load it: not warm
        times, busy, says = [], [], []
        for number in range(TRIES):
            cluster.cordon(Cordon(seen[number].name, seen[number].uid, "bench"), 1)
            cluster.uncordon(Uncordon(seen[number].name, seen[number].uid, "bench"), 1)
            began, worked = time.monotonic(), time.process_time()
            says.append(tick(ports, config.settings, "bench", time.time() + 60).says[:100])
            times.append(time.monotonic() - began)
            busy.append(time.process_time() - worked)
    cluster.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": times, "cpu": busy, "megabytes": peak, "says": says}


def config_of(folder: Path, profile: str, nodes: int) -> Config:
    document = {
        "profile": profile,
        "min_workers": 2,
        "max_workers": 3 * nodes,
        "cluster": {"name": "bench", "kind": "simulator"},
        "store": {"url": f"sqlite:///{folder / 'ebbtide.db'}"},
        "pools": [{"name": "general", "types": ["cpx32", "cpx42", "cpx52"], "zones": ["a", "b", "c"]}],
    }
    path = folder / "ebbtide.yaml"
    path.write_text(yaml.safe_dump(document))
    return load(path, {})


if __name__ == "__main__":
    raise SystemExit(main())
