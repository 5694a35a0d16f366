"""SleepPolicies and annotations on a real control plane, reconciled as `ebbtide run` would."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.declared import KubeDeclarations
from ebbtide.adapters.kube.workloads import KubeWorkloads
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.config.declared import policy_of_line, policy_of_spec
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.ports import PolicyStore, Store
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.integration.kube.objects import Json
from tests.policy_harness import Readings
from tests.servers.processes import eventually

OBJECTS = "/apis/ebbtide.dev/v1alpha1/namespaces/default/sleeppolicies"
QUICK = ZeroDefaults(check_interval_seconds=1, max_keep_alive_seconds=0)


def sleep_policy(name: str = "nights", *workloads: str, **spec: Any) -> Json:
    """Asleep once it has been idle for a second."""
    idle = {"after": "1s", "signals": [{"kind": "reported"}]}
    named = [{"name": each} for each in workloads or ("web",)]
    return {
        "apiVersion": "ebbtide.dev/v1alpha1",
        "kind": "SleepPolicy",
        "metadata": {"name": name},
        "spec": {"workloads": named, "idle": idle, "grace": "0", **spec},
    }


@dataclass(frozen=True, slots=True)
class Reconciler:
    scaling: Scaling

    @property
    def rows(self) -> PolicyStore:
        return self.scaling.ports.policies

    @property
    def policies(self) -> list[Policy]:
        return list(self.rows.list_policies(limit=10_000))

    def round(self) -> str:
        return self.scaling.round("runner", time.time() + 60).says

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Rounds until it is so."""

        def tried() -> bool:
            self.round()
            return holds()

        eventually(tried, 60, what)

    def state(self) -> IdleState | None:
        (policy,) = self.policies
        return self.rows.find_state(policy.id)


@contextmanager
def reconciler(
    kubeconfig: Path,
    store: Store | None = None,
    policies: PolicyStore | None = None,
    values: Mapping[str, float] | None = None,
) -> Iterator[Reconciler]:
    clock = SystemClock()
    connection = connect(kubeconfig)
    workloads = KubeWorkloads(connection)
    memory = MemoryStore(clock)
    ports = ScalingPorts(
        store=store or memory,
        policies=policies or memory.policies(),
        workloads=workloads,
        signals=Readings(dict(values or {})),
        notifier=SimNotifier(),
        clock=clock,
        new_id=TimeOrderedIds(),
        threads=8,
        declarations=KubeDeclarations(connection, policy_of_spec, policy_of_line),
    )
    try:
        yield Reconciler(Scaling(ports, QUICK, make_settings()))
    finally:
        workloads.close()
        connection.close()
