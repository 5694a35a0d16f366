"""The ports of `ebbtide.ports` for a simulated world: cluster, cloud, metrics, workloads, signals and
Services.

    clock = VirtualClock(0)
    cluster, cloud = SimCluster(world, clock), SimCloud(world, clock)

Every call first lets the world catch up with the clock, and takes `Rules.call_seconds` of it.

Scaling changes how many pods the simulated controller keeps, so pods really end and nodes really empty. A
workload whose demand changes by itself shows an autoscaler. Each workload has a Service of its name, for
which gates can stand in.

Signals are these queries, with the key of a workload; anything else is unknown:

    requests{workload="default/web"}    requests a second, as `WorkloadSpec.requests` says
    cpu{workload="default/web"}         cores that its running pods use
    vector(5)                           always 5, as in PromQL
    1 - avg(rate(node_cpu_seconds_total{mode="idle"}[5m]))    average CPU of the ready workers
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.core.nodes.capacity import why_unknown
from ebbtide.errors import Conflict, Final, NotFound, NotOurs
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod, PodPhase, Taint, Workload, WorkloadKind, WorkloadRef
from ebbtide.model.policy import GatePort, Service, ServicePort, ServiceRef, Takeover
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import LEAVING, ClusterView, Instance, Node, NodeUse, Ownership, Reading
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.pods import Workload as Simulated
from ebbtide.simulator.world.rules import Curve, Kind
from ebbtide.simulator.world.world import Act, ActKind, World

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


def _spend(world: World, clock: VirtualClock) -> None:
    clock.sleep(world.rules.call_seconds)
    world.advance_to(clock.now())


def _marked(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    return taints if LEAVING in taints else (*taints, LEAVING)


class SimCluster:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def read(self) -> ClusterView:
        _spend(self._world, self._clock)
        return self._world.view()

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        _spend(self._world, self._clock)
        return tuple(pod for pod in self._world.pods_on(node_name))

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        _spend(self._world, self._clock)
        node = self._ours(effect, token)
        self._tell(ActKind.SOFT_TAINT, effect)
        self._sign(effect, token)
        owner = Ownership(effect.operation_id, token, node.unschedulable)
        self._world.inventory.put_node(replace(node, taints=_marked(node.taints), owner=owner))

    def cordon(self, effect: Cordon, token: int) -> None:
        _spend(self._world, self._clock)
        node = self._ours(effect, token)
        self._tell(ActKind.CORDON, effect)
        fresh = not node.unschedulable
        self._sign(effect, token)
        owner = Ownership(effect.operation_id, token)
        self._world.inventory.put_node(replace(node, unschedulable=True, owner=owner))
        if fresh:
            self._world.nodes.cordoned(node.name)

    def uncordon(self, effect: Uncordon, token: int) -> None:
        _spend(self._world, self._clock)
        node = self._fenced(effect, token)
        if node is None or (node.owner is None and not node.unschedulable):
            return
        if node.owner is None:
            raise NotOurs(f"node {node.name} was cordoned by a person")
        self._tell(ActKind.UNCORDON, effect)
        self._sign(effect, token)
        persons = node.unschedulable and not node.owner.cordoned
        taints = tuple(taint for taint in node.taints if taint.key != LEAVING.key)
        self._world.inventory.put_node(replace(node, unschedulable=persons, taints=taints, owner=None))
        self._world.pods.reschedule()

    def evict(self, effect: Evict) -> None:
        _spend(self._world, self._clock)
        pod = self._world.inventory.pods.get(effect.uid)
        if pod is None or pod.terminating:
            return
        act = Act(ActKind.EVICT, node_name=pod.node_name, pod_uid=pod.uid)
        self._world.controllers.evict(pod, effect.grace_seconds, lambda: self._world.tell(act))
        self._world.evictions += 1

    def delete_node(self, effect: DeleteNode) -> None:
        _spend(self._world, self._clock)
        node = self._world.inventory.nodes.get(effect.node_name)
        if node is not None and node.uid == effect.node_uid:
            self._world.tell(Act(ActKind.DELETE_NODE, node_name=node.name))
            self._world.nodes.delete(node.name)

    def _ours(self, effect: SoftTaint | Cordon, token: int) -> Node:
        node = self._fenced(effect, token)
        if node is None:
            raise NotOurs(f"there is no node {effect.node_name} with UID {effect.node_uid}")
        if node.unschedulable and not node.cordoned_by_us:
            raise NotOurs(f"node {node.name} was cordoned by a person")
        return node

    def _fenced(self, effect: SoftTaint | Cordon | Uncordon, token: int) -> Node | None:
        """The node, if this operation and token may change it; None when it is gone."""
        node = self._world.inventory.nodes.get(effect.node_name)
        if node is None:
            return None
        if node.uid != effect.node_uid:
            raise NotOurs(f"node {node.name} now has UID {node.uid}, not {effect.node_uid}")
        if node.owner is not None and node.owner.operation_id != effect.operation_id:
            raise NotOurs(f"node {node.name} belongs to operation {node.owner.operation_id}")
        highest = self._world.fences.get(f"{node.uid}/{effect.operation_id}", token)
        if token < highest:
            raise NotOurs(f"node {node.name} was signed with token {highest}, which is above {token}")
        return node

    def _sign(self, effect: SoftTaint | Cordon | Uncordon, token: int) -> None:
        self._world.fences[f"{effect.node_uid}/{effect.operation_id}"] = token

    def _tell(self, kind: ActKind, effect: SoftTaint | Cordon | Uncordon) -> None:
        self._world.tell(Act(kind, node_name=effect.node_name, operation_id=effect.operation_id))


class SimCloud:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def launch(self, effect: Launch) -> Instance:
        _spend(self._world, self._clock)
        before = self._world.machines.book.launched
        machine = self._world.machines.launch(effect.slot)
        if self._world.machines.book.launched > before:
            self._world.tell(
                Act(
                    ActKind.LAUNCH,
                    instance_id=machine.instance.id,
                    operation_id=effect.operation_id,
                    key=effect.slot.key,
                )
            )
        return machine.instance

    def terminate(self, instance_id: str) -> None:
        _spend(self._world, self._clock)
        machine = self._world.machines.find(instance_id)
        if machine is None:
            return
        if machine.protected:
            self._world.disturbances += 1
            raise Final(f"the cloud refused to terminate {instance_id}: its termination protection is on")
        self._world.tell(
            Act(
                ActKind.TERMINATE,
                instance_id=instance_id,
                node_name=machine.node.name if machine.node.uid else "",
            )
        )
        if not machine.tagged:
            raise NotOurs(f"instance {instance_id} does not carry the tag of this cluster")
        if machine.instance.alive:
            machine.asked_to_go = True
            self._world.removed += 1
            self._world.machines.end(machine)
            self._world.nodes.stop_answering(machine)

    def list_instances(self) -> Sequence[Instance]:
        _spend(self._world, self._clock)
        return self._world.machines.listed()


MAX_AGE_SECONDS = Settings().metric_max_age_seconds


class SimMetrics:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        _spend(self._world, self._clock)
        usage = self._world.usage
        value = usage.average(node_names)
        why = why_unknown(node_names, usage.sampled(node_names), MAX_AGE_SECONDS)
        if value is None or why:
            return Reading(problem=f"CPU is unknown: {why}")
        return Reading(round(value, 6), int(self._clock.now()))

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        usage, now = self._world.usage, int(self._clock.now())
        shares = ((node.name, usage.of(node.name)) for node in nodes)
        return {name: NodeUse(cpu, usage.of_memory(name), now) for name, cpu in shares if cpu is not None}


class SimInbox:
    def __init__(self, world: World, clock: VirtualClock) -> None:
        self._world = world
        self._clock = clock

    def receive(self) -> Sequence[SpotNotice]:
        _spend(self._world, self._clock)
        return tuple(self._world.incidents.mail.arrived)

    def acknowledge(self, notice: SpotNotice) -> None:
        """One letter is taken out; a duplicate stays until it too is acknowledged."""
        arrived = self._world.incidents.mail.arrived
        if notice in arrived:
            arrived.remove(notice)


class SimNotifier:
    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def notify(self, entry: LogEntry) -> None:
        self.entries.append(entry)
