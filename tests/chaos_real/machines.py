"""What machines do by themselves: join the cluster some time after their launch, and fall silent in the end.

A thread looks at EC2 and at the cluster. A machine that was taken leaves its node NotReady; its pods are
deleted a little later, as a node controller would.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.chaos_real.fleet import Fleet, Machine
from tests.chaos_real.reading import pods_on, ready
from tests.chaos_real.setting import MIN_WORKERS
from tests.integration.kube import objects
from tests.servers.kube_api import Api, ApiRefused
from tests.servers.kubelets import Kubelets

JOIN_SECONDS = (0.3, 2.0)
NEVER_JOINS = 0.03
LOST_PODS_SECONDS = 2.0
SICK_SECONDS = (40.0, 90.0)
"""Between one kubelet that falls silent and the next."""
READY = [{"type": "Ready", "status": "True"}]
SILENT = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


class Machines:
    def __init__(
        self, fleet: Fleet, api: Api, kubelets: Kubelets, seed: int, silent: Callable[[], None]
    ) -> None:
        """`silent` is told of each kubelet before it falls silent."""
        self._fleet = fleet
        self._silent = silent
        self._api = api
        self._kubelets = kubelets
        self._chance = random.Random(f"{seed}-machines")
        self._joins_at: dict[str, float] = {}
        self._silent_since: dict[str, float] = {}
        self._sick: set[str] = set()
        """Nodes whose kubelets fell silent while their machines run on."""
        self._falls_sick_at = time.monotonic() + SICK_SECONDS[0]
        self._calm = False
        self.silences = 0

    def look(self) -> None:
        machines = self._fleet.machines()
        nodes = {item["metadata"]["name"]: item for item in self._api.items("/api/v1/nodes")}
        self._choose_sick(
            [m for m in machines if m.alive and m.node_name in nodes and ready(nodes[m.node_name])]
        )
        for machine in machines:
            if machine.alive and machine.node_name in self._sick and machine.node_name in nodes:
                self._fall_silent(machine, nodes[machine.node_name])
            elif machine.alive:
                self._join(machine)
            elif machine.node_name in nodes:
                self._fall_silent(machine, nodes[machine.node_name])
        self._fleet.forget(machines)

    def _choose_sick(self, well: list[Machine]) -> None:
        """Now and then a kubelet falls silent; nobody answers for it until the node is replaced."""
        now = time.monotonic()
        if self._calm or now < self._falls_sick_at or len(well) <= MIN_WORKERS:
            return
        self._falls_sick_at = now + self._chance.uniform(*SICK_SECONDS)
        self._sick.add(self._chance.choice(well).node_name)
        self.silences += 1

    def recover(self) -> None:
        """No more fall silent, and those that are still there answer again."""
        self._calm = True
        alive = {machine.node_name for machine in self._fleet.machines() if machine.alive}
        for name in self._sick & alive:
            self._silent_since.pop(name, None)
            self._kubelets.stopped.discard(name)
            self._try(f"/api/v1/nodes/{name}/status", {"status": {"conditions": READY}})
            self._try(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        self._sick.clear()

    def _join(self, machine: Machine) -> None:
        """Once: a node that somebody deleted under a running machine does not come back."""
        now = time.monotonic()
        if machine.id not in self._joins_at:
            never = self._chance.random() < NEVER_JOINS
            self._joins_at[machine.id] = now + (1e9 if never else self._chance.uniform(*JOIN_SECONDS))
        if now >= self._joins_at[machine.id]:
            self._joins_at[machine.id] = float("inf")
            self._api.post("/api/v1/nodes", node_of(machine))

    def _fall_silent(self, machine: Machine, node: Mapping[str, Any]) -> None:
        name, now = machine.node_name, time.monotonic()
        if name not in self._silent_since:
            if machine.alive:
                self._silent()
            self._kubelets.stopped.add(name)
            self._api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": SILENT}})
            self._silent_since[name] = now
        taints = node["spec"].get("taints", [])
        if UNREACHABLE["key"] not in {taint["key"] for taint in taints}:
            version = {"resourceVersion": node["metadata"]["resourceVersion"]}
            self._try(
                f"/api/v1/nodes/{name}", {"metadata": version, "spec": {"taints": [*taints, UNREACHABLE]}}
            )
        if now - self._silent_since[name] >= LOST_PODS_SECONDS:
            for pod in pods_on(self._api, name):
                meta = pod["metadata"]
                self._api.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}", now=True)

    def _try(self, path: str, body: Mapping[str, Any]) -> None:
        """The runner that changed it meanwhile goes first; the next look comes soon."""
        try:
            self._api.patch(path, body)
        except ApiRefused as refused:
            if refused.code not in (404, 409):
                raise


def node_of(machine: Machine) -> objects.Json:
    labels = {
        "node.kubernetes.io/instance-type": "m7i.large",
        "ebbtide.dev/instance-id": machine.id,
        **({"ebbtide.dev/market": "spot"} if machine.spot else {}),
    }
    offer = {"cpu": "2", "memory": "8Gi", "pods": "30"}
    return objects.node(
        machine.node_name,
        machine.zone,
        machine.pool,
        labels=labels,
        spec={"providerID": machine.provider_id},
        status={"allocatable": offer, "capacity": offer},
    )
