"""Services in memory over `MemoryWorkloads`, with gates; every moment in which one led nowhere is noted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from ebbtide.errors import Conflict, NotFound
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import GatePort, Service, ServicePort, ServiceRef, Takeover, WakeOnRequest
from tests.policy_harness import MemoryWorkloads, make_ref

GATES = ("10.0.0.1", "10.0.0.2")
PORTS = range(20_000, 20_016)


def service_ref(name: str = "web") -> ServiceRef:
    return ServiceRef("default", name)


def make_service(name: str = "web", **changes: object) -> Service:
    found = Service(service_ref(name), (ServicePort("http", 80), ServicePort("grpc", 81)))
    return replace(found, **changes)  # type: ignore[arg-type]


def gate_of(*names: str) -> WakeOnRequest:
    return WakeOnRequest(tuple(service_ref(name) for name in names))


@dataclass
class MemoryServices:
    """Each Service has the pods of the Deployment of its name."""

    workloads: MemoryWorkloads
    services: dict[ServiceRef, Service] = field(default_factory=dict)
    standing: tuple[str, ...] = GATES
    taken: dict[ServiceRef, Takeover] = field(default_factory=dict)
    nowhere: list[str] = field(default_factory=list)
    """Each call after which a Service had neither pods nor gates."""
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._versions = count(1)

    def read(self, ref: ServiceRef) -> Service:
        with self._lock:
            if ref not in self.services:
                raise NotFound(f"there is no {ref}")
            ready = self.workloads.read(self._pods(ref)).ready_replicas
            return replace(self.services[ref], ready=ready, takeover=self.taken.get(ref))

    def gates(self) -> Sequence[str]:
        return self.standing

    def take_over(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        with self._lock:
            if self.taken.get(seen.ref) != seen.takeover:
                raise Conflict(f"the takeover of {seen.ref} changed")
            self.calls.append(f"take over {seen.ref.name}")
            self.taken[seen.ref] = Takeover(seen.ref, str(next(self._versions)), tuple(ports), tuple(gates))
            return self.taken[seen.ref]

    def release(self, seen: Takeover) -> None:
        with self._lock:
            there = self.taken.get(seen.service)
            if there is not None and there != seen:
                raise Conflict(f"the takeover of {seen.service} changed")
            self.calls.append(f"release {seen.service.name}")
            self.taken.pop(seen.service, None)
            self._look(f"release of {seen.service}")

    def list_taken(self) -> Sequence[Takeover]:
        return tuple(self.taken.values())

    def _pods(self, ref: ServiceRef) -> WorkloadRef:
        return make_ref(ref.name)

    def _look(self, after: str) -> None:
        for ref in self.services:
            if not self.workloads.read(self._pods(ref)).replicas and ref not in self.taken:
                self.nowhere.append(f"{ref} led nowhere after {after}")


class WatchedWorkloads(MemoryWorkloads):
    """Tells its services of every scaling."""

    memory_services: MemoryServices

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        after = super().scale(seen, replicas, note)
        self.memory_services.calls.append(f"scale {seen.ref.name} to {replicas}")
        self.memory_services._look(f"scaling {seen.ref} to {replicas}")
        return after


def services_over(*workloads: Workload) -> MemoryServices:
    watched = WatchedWorkloads(*workloads)
    services = {service_ref(each.ref.name): make_service(each.ref.name) for each in workloads}
    watched.memory_services = MemoryServices(watched, services)
    return watched.memory_services
