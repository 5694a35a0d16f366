"""The ports of `ebbtide.ports`, for a simulated world.

    clock = VirtualClock(0)
    cluster, cloud = SimCluster(world, clock), SimCloud(world, clock)

Every call first lets the world catch up with the clock, and takes `Rules.call_seconds` of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.core.nodes.capacity import why_unknown
from ebbtide.errors import Final, NotOurs
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.log import LogEntry
from ebbtide.model.node import LEAVING, Instance, Node, Ownership
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import Taint
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, NodeUse, Reading
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.world import Act, ActKind, World


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
