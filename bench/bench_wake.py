"""How soon a caller who waits for a wake has the answer once its workload is ready.

    python -m bench.bench_wake [--wakes 120] [--policies 20]

A real kube-apiserver and etcd, the real API over HTTP. Policies fall idle and go to zero; each is then woken
by a caller who waits. The benchmark plays the controller of the Deployments: it writes their status, with the
rights of an administrator, and notes when the API server has acknowledged it. Measured is the time from then
to the answer in the caller's hands: the watch, the write of what the wake took, and the way back.
"""

from __future__ import annotations

import argparse
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import median

from tests.integration.kube.objects import template, workload
from tests.integration.kube.sleepers import Answer, Sleepers, sleepers
from tests.servers.control_plane import Unavailable
from tests.servers.kube import KubeServer, kube_server
from tests.servers.processes import eventually

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LIMIT_SECONDS = 0.1
REPLICAS = 2
AT_ONCE = 4
WAITING = 2
"""The caller, and the process itself, which follows every wake."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wakes", type=int, default=120)
    parser.add_argument("--policies", type=int, default=20)
    asked = parser.parse_args()
    try:
        with kube_server(controllers=False) as server:
            return measure(server, asked.wakes, asked.policies)
    except Unavailable as why:
        print(f"bench_wake: NOT RUN: {why}")
        return 0


def measure(server: KubeServer, wakes: int, policies: int) -> int:
    names = [f"web-{number}" for number in range(policies)]
    for name in names:
        server.api.post(DEPLOYMENTS, workload("Deployment", name, REPLICAS, template(name)))
        become_ready(server, name)
    delays: list[float] = []
    slept = 0.0
    with sleepers(server.kubeconfig(), names) as found, ThreadPoolExecutor(AT_ONCE) as pool:
        while len(delays) < wakes:
            began = time.monotonic()
            found.sleep(120)
            slept += time.monotonic() - began
            delays += pool.map(lambda number: one_wake(server, found, number), range(policies))
    ordered = sorted(delays)
    p99 = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    print(f"{len(ordered)} wakes of {policies} policies, {AT_ONCE} at a time; {slept:.0f} s to fall asleep")
    print(
        f"from Ready in the API server to the answer: p50 {1000 * median(ordered):.1f} ms, "
        f"p99 {1000 * p99:.1f} ms, slowest {1000 * ordered[-1]:.1f} ms"
    )
    good = p99 < LIMIT_SECONDS
    print(
        f"bench_wake: p99 {1000 * p99:.1f} ms (below {1000 * LIMIT_SECONDS:.0f}): {'good' if good else 'BAD'}"
    )
    return 0 if good else 1


def one_wake(server: KubeServer, found: Sleepers, number: int) -> float:
    policy = found.policies[number]
    answered: Future[Answer] = Future()

    def call() -> None:
        try:
            answered.set_result(found.wake(policy))
        except Exception as error:  # shown when the result is read
            answered.set_exception(error)

    caller = threading.Thread(target=call)
    caller.start()
    (ref,) = policy.target.workloads
    eventually(lambda: found.workloads.waits.get(ref) == WAITING, 60, "the caller to wait")
    ready_at = become_ready(server, policy.name)
    caller.join()
    answer = answered.result()
    if answer.code != 200 or not answer.body["ready"]:
        raise RuntimeError(f"{policy.name} was answered {answer.code}: {answer.body}")
    return answer.at - ready_at


def become_ready(server: KubeServer, name: str) -> float:
    """What its controller would write; when the server has acknowledged it."""
    generation = server.api.get(f"{DEPLOYMENTS}/{name}")["metadata"]["generation"]
    counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), REPLICAS)
    server.api.patch(f"{DEPLOYMENTS}/{name}/status", {"status": {"observedGeneration": generation, **counts}})
    return time.time()


if __name__ == "__main__":
    raise SystemExit(main())
