"""How long it takes to reconcile many SleepPolicies on a real kube-apiserver, and to find nothing to do.

    python -m bench.bench_sleep_policies [--policies 1000]

Measured is a whole round of the idle loop: read the objects, write the policies into a SQLite store, and the
status of each object; then a second round, which changes nothing. CPU seconds are told next to those on the
clock: on a machine that is shared, or smaller than a cluster, the server's share is most of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from tests.integration.kube.declaring import OBJECTS, reconciler, sleep_policy
from tests.servers.control_plane import Unavailable
from tests.servers.kube import KubeServer, kube_server

LIMIT_SECONDS = 5.0
ROOT = Path(__file__).parents[1]
CRD = ROOT / "deploy" / "helm" / "ebbtide" / "crds" / "sleeppolicies.yaml"
NIGHTS = {"nights": {"sleep": "20:00", "wake": "08:00"}, "timeZone": "Europe/Berlin", "idle": None}


@dataclass(frozen=True)
class Cost:
    """In seconds: on the clock, of this process, and of the API server with its etcd."""

    wall: float
    ours: float
    servers: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.ours:.2f} s of CPU, the API server and etcd {self.servers:.2f} s)"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, default=1000)
    count = parser.parse_args().policies
    try:
        with kube_server(controllers=False) as server, tempfile.TemporaryDirectory() as folder:
            return measure(server, count, Path(folder))
    except Unavailable as why:
        print(f"bench_sleep_policies: NOT RUN: {why}")
        return 0


def measure(server: KubeServer, count: int, folder: Path) -> int:
    server.kubectl("apply", "-f", str(CRD))
    server.kubectl("wait", "--for=condition=Established", "crd/sleeppolicies.ebbtide.dev")

    def one(number: int) -> None:
        body = sleep_policy(f"p{number:04d}", f"w{number:04d}", **NIGHTS)
        del body["spec"]["idle"]
        server.api.post(OBJECTS, body)

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(one, range(count)))
    store = SqlStore.open(f"sqlite:///{folder / 'bench.db'}", SystemClock(), "bench")
    with reconciler(server.kubeconfig(), store, store.policies()) as found:
        first = cost_of(found.round)
        ready = sum(1 for each in server.api.items(OBJECTS) if each.get("status", {}).get("conditions"))
        before = [each["metadata"]["resourceVersion"] for each in server.api.items(OBJECTS)]
        policies = found.policies
        second = cost_of(found.round)
        after = [each["metadata"]["resourceVersion"] for each in server.api.items(OBJECTS)]
        written = sum(1 for old, new in zip(before, after, strict=True) if old != new)
        written += sum(1 for old, new in zip(policies, found.policies, strict=True) if old != new)
    store.close()
    good = first.wall < LIMIT_SECONDS and ready == len(policies) == count and not written
    print(
        f"bench_sleep_policies: {len(policies)} policies made and {ready} objects told in {first}, "
        f"limit {LIMIT_SECONDS:g} s; a round with nothing to do takes {second} and writes {written}: "
        f"{'ok' if good else 'FAILED'}"
    )
    return 0 if good else 1


def cost_of(act: Callable[[], object]) -> Cost:
    wall, ours, servers = time.monotonic(), time.process_time(), cpu_of_children()
    act()
    return Cost(time.monotonic() - wall, time.process_time() - ours, cpu_of_children() - servers)


def cpu_of_children() -> float:
    """CPU seconds of the processes that this one has started; 0 where there is no /proc."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())
