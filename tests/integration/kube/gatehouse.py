"""A gate on a real control plane: real Services, EndpointSlices, Deployments and controllers; the gate itself
with the rights of its own service account; a small real backend behind it.

Played, since this machine has neither kubelets nor a pod network: pods are statuses without containers, their
addresses (192.0.2.0/24) stand for the backend on loopback, and `Proxy` does what kube-proxy would: it
connects to an endpoint of the Service's EndpointSlices as they are at that moment.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.services import KubeServices
from ebbtide.adapters.kube.workloads import KubeWorkloads
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.bootstrap.gate import GateProcess
from ebbtide.config.scale_to_zero import GateKeys
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.gate.admission import Address
from ebbtide.gate.passing import Dial
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, ServiceRef, Signal, SignalKind, Target, WakeOnRequest
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.integration.kube.sleepers import QUICK
from tests.policy_harness import Readings, policy_id
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube
from tests.unit.gate.house import LOOPBACK, free_ports

GATE_ADDRESS = "192.0.2.251"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
PORTS = 16
MEASURED: list[str] = []
"""For the last lines of the run."""


@dataclass(frozen=True)
class Proxy:
    """A stand-in for kube-proxy: an endpoint of the Service, from any of its slices."""

    kube: SharedKube
    backend: Mapping[str, int]
    """The real port behind each port name."""

    def endpoint(self, service: str, port_name: str) -> tuple[str, Address]:
        """ "gate" or "pod", and where it really is."""
        found: list[tuple[str, Address]] = []
        for each in self.kube.api.items(SLICES.format("default")):
            if each["metadata"]["labels"].get("kubernetes.io/service-name") != service:
                continue
            ports = {port.get("name", ""): port["port"] for port in each.get("ports") or ()}
            for endpoint in each.get("endpoints") or ():
                if endpoint.get("conditions", {}).get("ready") is False or port_name not in ports:
                    continue
                gate = endpoint["addresses"][0] == GATE_ADDRESS
                real = ports[port_name] if gate else self.backend[port_name]
                found.append(("gate" if gate else "pod", (LOOPBACK, real)))
        if not found:
            raise ConnectionRefusedError(f"Service {service} leads nowhere")
        return random.choice(found)

    def kinds(self, service: str, port_name: str) -> set[str]:
        try:
            return {self.endpoint(service, port_name)[0] for _ in range(16)}
        except ConnectionRefusedError:
            return set()


@dataclass(frozen=True)
class Network:
    """Where a gate listens and how it reaches pods; without one, all on loopback."""

    host: str
    inside: Callable[[], AbstractContextManager[None]]


@dataclass
class Gatehouse:
    kube: SharedKube
    scaling: Scaling
    """Of the autoscaler."""
    process: GateProcess
    proxy: Proxy
    policies: Sequence[Policy]
    said: list[str] = field(default_factory=list)

    def sleep(self, seconds: float = 60) -> None:
        """Rounds of the idle loop until all are at zero and their pods are gone."""
        eventually(self._all_at_zero, seconds, "all at zero")
        eventually(lambda: not self.kube.api.items("/api/v1/namespaces/default/pods"), seconds, "no pod")

    def _all_at_zero(self) -> bool:
        self.scaling.round("runner", time.time() + 60)
        return all(state.phase is Phase.ZERO for state in self.scaling.ports.policies.list_states())

    def state(self, policy: Policy) -> IdleState:
        found = self.scaling.ports.policies.find_state(policy.id)
        assert found is not None
        return found


def service(name: str, ports: Mapping[str, int]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "selector": {"app": name},
            "ports": [{"name": port, "port": number, "targetPort": number} for port, number in ports.items()],
        },
    }


def members(*addresses: str) -> dict[str, Any]:
    """The slice of the gates' own Service, as its controller would write it."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "gates", "labels": {"kubernetes.io/service-name": "ebbtide-gate"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [each], "conditions": {"ready": True}} for each in addresses],
        "ports": [{"name": "metrics", "port": 9808, "protocol": "TCP"}],
    }


@contextmanager
def gatehouse(
    kube: SharedKube,
    gate_config: Path,
    gates: Mapping[str, WakeOnRequest],
    backend: Mapping[str, int],
    network: Network | None = None,
) -> Iterator[Gatehouse]:
    """One policy for each Deployment and Service of these names. The autoscaler and the gate share only the
    store."""
    kube.api.post(SLICES.format("ebbtide"), members(GATE_ADDRESS))
    first = free_ports(PORTS)
    keys = GateKeys(
        service="ebbtide/ebbtide-gate",
        namespaces=("default",),
        ports=f"{first}-{first + PORTS - 1}",
        host=network.host if network else LOOPBACK,
        drain_sec=0,
        grace_sec=5,
    )
    database = MemoryDatabase()
    autoscaler, runner_doors = _scaling(kube.kubeconfig, database, keys, follows=False)
    gate_scaling, gate_doors = _scaling(gate_config, database, keys, follows=True)
    rows = autoscaler.ports.policies
    policies = [
        rows.put_policy(
            Policy(
                policy_id(number),
                name,
                Target((WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name),)),
                scale_to_zero=True,
                signals=(Signal(SignalKind.REPORTED),),
                grace_seconds=0,
                created_at=int(time.time()),
                gate=gate,
            )
        )
        for number, (name, gate) in enumerate(gates.items(), start=1)
    ]
    said: list[str] = []
    process = GateProcess(gate_scaling, gate_doors[0], keys, said.append)
    real = {number: number for number in backend.values()}
    if network is None:
        stop = _start(process, lambda address: (LOOPBACK, real[address[1]]), nullcontext)
    else:
        stop = _start(process, None, network.inside)
    try:
        eventually(lambda: not process.health.why_not_ready(), 30, "a gate that is ready")
        yield Gatehouse(kube, autoscaler, process, Proxy(kube, backend), policies, said)
    finally:
        stop()
        for connection, workloads in (runner_doors, gate_doors):
            workloads.close()
            connection.close()
        kube.api.delete(f"{SLICES.format('ebbtide')}/gates")


def _scaling(kubeconfig: Path, database: MemoryDatabase, keys: GateKeys, follows: bool) -> Any:
    connection = connect(kubeconfig)
    workloads = KubeWorkloads(connection)
    store = MemoryStore(SystemClock(), database=database)
    assert keys.service_ref is not None
    ports = ScalingPorts(
        store=store,
        policies=store.policies(),
        workloads=workloads,
        signals=Readings(),
        notifier=SimNotifier(),
        clock=SystemClock(),
        new_id=TimeOrderedIds(),
        services=KubeServices(connection, keys.service_ref, keys.namespaces),
        gate_ports=keys.port_range,
        follows=follows,
    )
    return Scaling(ports, QUICK, make_settings()), (connection, workloads)


def _start(
    process: GateProcess, dial: Dial | None, inside: Callable[[], AbstractContextManager[None]]
) -> Callable[[], None]:
    """In a thread with an event loop of its own; what stops it."""
    ready = threading.Event()
    stopping: list[Any] = []

    async def run() -> None:
        stop = asyncio.Event()
        stopping.extend((asyncio.get_running_loop(), stop))
        ready.set()
        await process.run(stop, dial)

    def run_inside() -> None:
        with inside():
            asyncio.run(run())

    thread = threading.Thread(target=run_inside, name="gate", daemon=True)
    thread.start()
    ready.wait(10)

    def stop() -> None:
        loop, event = stopping
        loop.call_soon_threadsafe(event.set)
        thread.join(30)
        assert not thread.is_alive()

    return stop


def web_gate(name: str, **changes: Any) -> WakeOnRequest:
    return WakeOnRequest((ServiceRef("default", name),), hold_seconds=60, **changes)
