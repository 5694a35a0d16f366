"""How long it takes to reconcile many SleepPolicies on a real kube-apiserver, and to find nothing to do.

    python -m bench.bench_sleep_policies [--policies 1000]

Measured is a whole round of the idle loop: read the objects, write the policies into a SQLite store, and the
status of each object; then a second round, with the targets idle, and a third that changes nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
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
        first = seconds_of(found.round)
        ready = sum(1 for each in server.api.items(OBJECTS) if each.get("status", {}).get("conditions"))
        before = [each["metadata"]["resourceVersion"] for each in server.api.items(OBJECTS)]
        policies = found.policies
        second = seconds_of(found.round)
        after = [each["metadata"]["resourceVersion"] for each in server.api.items(OBJECTS)]
        written = sum(1 for old, new in zip(before, after, strict=True) if old != new)
        written += sum(1 for old, new in zip(policies, found.policies, strict=True) if old != new)
    store.close()
    good = first < LIMIT_SECONDS and ready == len(policies) == count and not written
    print(
        f"bench_sleep_policies: {len(policies)} policies made and {ready} objects told in {first:.2f} s "
        f"(below {LIMIT_SECONDS:g}); a round with nothing to do takes {second:.2f} s and writes {written}: "
        f"{'ok' if good else 'FAILED'}"
    )
    return 0 if good else 1


def seconds_of(act: object) -> float:
    assert callable(act)
    began = time.monotonic()
    act()
    return time.monotonic() - began


if __name__ == "__main__":
    raise SystemExit(main())
