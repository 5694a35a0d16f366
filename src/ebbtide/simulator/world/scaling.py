"""Deployments and StatefulSets of a simulated world as `Workloads`, what they do as `Signals`, and a Service
for each, of its name, with gates that stand in for it.

Scaling changes how many pods the simulated controller keeps, so pods really end and nodes really empty. A
workload whose demand moves by itself is scaled by somebody else: it shows an autoscaler.

Signals are asked for by these queries, with the key of a workload; anything else is unknown:

    requests{workload="default/web"}    requests a second, as `WorkloadSpec.requests` says
    cpu{workload="default/web"}         cores that its running pods use
    vector(5)                           always 5, as in PromQL
    1 - avg(rate(node_cpu_seconds_total{mode="idle"}[5m]))    average CPU of the ready workers
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ebbtide.errors import Conflict, NotFound
from ebbtide.model.gate import GatePort, Service, ServicePort, ServiceRef, Takeover
from ebbtide.model.pod import PodPhase
from ebbtide.model.snapshot import Reading
from ebbtide.model.workload import Workload, WorkloadKind, WorkloadRef
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.pods import Workload as Simulated
from ebbtide.simulator.world.rules import Kind
from ebbtide.simulator.world.workload import Curve
from ebbtide.simulator.world.world import World

KINDS = {WorkloadKind.DEPLOYMENT: Kind.DEPLOYMENT, WorkloadKind.STATEFUL_SET: Kind.STATEFUL_SET}
CONSTANT = re.compile(r"(?:vector|scalar)?\(?\s*(-?\d+(?:\.\d+)?)\s*\)?")
QUERY = re.compile(r'(requests|cpu)\{workload="([^"]+)"\}')
AVERAGE_CPU = re.compile(r'1-avg\(rate\(node_cpu_seconds_total\{mode="idle"\}(?:\[\w+\])?\)\)')
"""Without its spaces."""
PORTS = (ServicePort("http", 80),)


class SimWorkloads:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock
        self.scaled: list[tuple[WorkloadRef, int]] = []
        """Every call that was carried out."""

    def read(self, ref: WorkloadRef) -> Workload:
        self._spend()
        return self._seen(ref)

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:  # noqa: ARG002 - nobody reads it here
        self._spend()
        found = self._find(seen.ref)
        if str(found.version) != seen.version:
            raise Conflict(f"{seen.ref} changed since it was seen: read it again")
        self._world.controllers.set_wanted(found.spec.key, replicas)
        self.scaled.append((seen.ref, replicas))
        return self._seen(seen.ref)

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        """Time continues from event to event, so it ends the moment the last pod is ready."""
        while True:
            seen = self.read(ref)
            events = self._world.timeline.events
            following = events[0][0] if events else until
            if seen.ready or self._clock.now() >= until:
                return seen
            self._clock.sleep(max(0.001, min(following, until) - self._clock.now()))

    def _spend(self) -> None:
        self._clock.sleep(self._world.rules.call_seconds)
        self._world.advance_to(self._clock.now())

    def _find(self, ref: WorkloadRef) -> Simulated:
        found = self._world.pods.book.workloads.get(f"{ref.namespace}/{ref.name}")
        if found is None or found.spec.kind is not KINDS[ref.kind]:
            raise NotFound(f"there is no {ref}")
        return found

    def _seen(self, ref: WorkloadRef) -> Workload:
        found = self._find(ref)
        spec = found.spec
        return Workload(
            ref,
            replicas=found.wanted,
            ready_replicas=found.ready,
            version=str(found.version),
            created_at=0,
            autoscaler="" if spec.demand.curve is Curve.STEADY else f"{ref.name}-demand",
            requests=spec.template.requests,
            labels=spec.template.labels,
            scheduling=spec.template.scheduling,
        )


class SimSignals:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        self._clock.sleep(self._world.rules.call_seconds)
        self._world.advance_to(self._clock.now())
        return [self._value(query) for query in queries]

    def _value(self, query: str) -> Reading:
        if constant := CONSTANT.fullmatch(query.strip()):
            return Reading(float(constant[1]), int(self._clock.now()))
        if AVERAGE_CPU.fullmatch("".join(query.split())):
            return self._average_cpu()
        asked = QUERY.fullmatch(query)
        found = self._world.pods.book.workloads.get(asked[2]) if asked else None
        if asked is None or found is None:
            return Reading(problem=f"the query gives no series: {query}")
        if asked[1] == "cpu":
            return Reading(self._cores(found), int(self._clock.now()))
        if found.spec.requests is None:
            return Reading(problem=f"nobody counts the requests of {asked[2]}")
        since = self._world.now - self._world.controllers.began_at
        return Reading(float(found.spec.requests.wanted_at(since)), int(self._clock.now()))

    def _average_cpu(self) -> Reading:
        ready = [node.name for node in self._world.view().workers if node.ready]
        value = self._world.usage.average(ready)
        return Reading(
            value, int(self._clock.now()), "" if value is not None else "no worker can be measured"
        )

    def _cores(self, found: Simulated) -> float:
        pods = (self._world.inventory.pods[uid] for uid in self._world.pods.members[found.spec.key])
        busy = sum(pod.requests.cpu_milli for pod in pods if pod.phase is PodPhase.RUNNING)
        return busy * found.spec.use_fraction / 1000


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
