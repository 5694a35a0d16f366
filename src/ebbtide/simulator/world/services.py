"""Services of a simulated world, one for each workload and of its name, and gates that stand in for them."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.errors import Conflict, NotFound
from ebbtide.model.gate import GatePort, Service, ServicePort, ServiceRef, Takeover
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.world import World

PORTS = (ServicePort("http", 80),)


class SimServices:
    def __init__(self, world: World, clock: VirtualClock, gates: Sequence[str]) -> None:
        self._world = world
        self._clock = clock
        self._gates = tuple(gates)

    def read(self, ref: ServiceRef) -> Service:
        self._spend()
        found = self._world.pods.book.workloads.get(f"{ref.namespace}/{ref.name}")
        if found is None:
            raise NotFound(f"there is no {ref}")
        return Service(ref, PORTS, ready=found.ready, takeover=self._world.takeovers.get(ref))

    def gates(self) -> Sequence[str]:
        self._spend()
        return self._gates

    def take_over(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        self._spend()
        world = self._world
        if world.takeovers.get(seen.ref) != seen.takeover:
            raise Conflict(f"the takeover of {seen.ref} changed since it was seen")
        world.takeovers_written += 1
        made = Takeover(seen.ref, str(world.takeovers_written), tuple(ports), tuple(gates))
        world.takeovers[seen.ref] = made
        return made

    def release(self, seen: Takeover) -> None:
        self._spend()
        there = self._world.takeovers.get(seen.service)
        if there is not None and there != seen:
            raise Conflict(f"the takeover of {seen.service} changed since it was seen")
        self._world.takeovers.pop(seen.service, None)

    def list_taken(self) -> Sequence[Takeover]:
        self._spend()
        return tuple(self._world.takeovers.values())

    def _spend(self) -> None:
        self._clock.sleep(self._world.rules.call_seconds)
        self._world.advance_to(self._clock.now())
