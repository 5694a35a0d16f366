"""Policies over workloads of a real control plane that sleep once they are idle, and the API that wakes."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.workloads import KubeWorkloads
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope
from ebbtide.model.idle import Phase
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.snapshot import ClusterView, Snapshot
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.integration.api.conftest import TOKENS, site_of
from tests.policy_harness import Readings, policy_id
from tests.servers.processes import eventually

QUICK = ZeroDefaults(
    idle_threshold_seconds=1, keep_alive_window_seconds=0, check_interval_seconds=1, max_keep_alive_seconds=0
)
"""Idle after a second; waking so often would make the keep-alive window grow, so it may not."""


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: dict[str, Any]
    at: float
    """When the caller had it."""


@dataclass(frozen=True, slots=True)
class Sleepers:
    port: int
    scaling: Scaling
    workloads: KubeWorkloads
    policies: Sequence[Policy]

    def sleep(self, seconds: float = 60) -> None:
        """Rounds of the idle loop until all are at zero."""
        eventually(self._all_at_zero, seconds, "all at zero")

    def _all_at_zero(self) -> bool:
        self.scaling.round("runner", time.time() + 60)
        return all(state.phase is Phase.ZERO for state in self.scaling.ports.policies.list_states())

    def wake(self, policy: Policy) -> Answer:
        """By a caller who waits until it is ready."""
        url = f"http://127.0.0.1:{self.port}/api/v1/scaling/policies/{policy.id}/wake"
        headers = {"Authorization": f"Bearer {TOKENS[Scope.WAKE]}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, b'{"wait_for_ready": true}', headers, method="POST")
        with urllib.request.urlopen(request, timeout=120) as answer:
            text = answer.read()
            return Answer(answer.status, json.loads(text), time.time())


@contextmanager
def sleepers(kubeconfig: Path, names: Sequence[str]) -> Iterator[Sleepers]:
    """One policy for each of these Deployments, as `ebbtide run` would serve them."""
    clock = SystemClock()
    connection = connect(kubeconfig)
    workloads = KubeWorkloads(connection, watching=True)
    store = MemoryStore(clock)
    ports = ScalingPorts(
        store=store,
        policies=store.policies(),
        workloads=workloads,
        signals=Readings(),
        notifier=SimNotifier(),
        clock=clock,
        new_id=TimeOrderedIds(),
        threads=8,
        follows=True,
    )
    scaling = Scaling(ports, QUICK, make_settings())
    policies = [
        ports.policies.put_policy(
            Policy(
                policy_id(number),
                name,
                Target((WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name),)),
                scale_to_zero=True,
                signals=(Signal(SignalKind.REPORTED),),
                grace_seconds=0,
                created_at=int(clock.now()),
            )
        )
        for number, name in enumerate(names, start=1)
    ]
    app = make_app(site_of(store, clock, scaling, Snapshot(0, ClusterView()), make_settings()))
    try:
        with served(app, "127.0.0.1", 0) as port:
            yield Sleepers(port, scaling, workloads, policies)
    finally:
        workloads.close()
        connection.close()
