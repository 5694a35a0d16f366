"""One node while something is being planned: its free space, and which pods it takes by its own properties.

Rules about pods on other nodes (spread, affinity, anti-affinity) are checked in `core.nodes.fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ebbtide.model.names import POOL
from ebbtide.model.pod import (
    FitCause,
    Labels,
    Misfit,
    Pod,
    Resources,
    Scheduling,
    Taint,
    TaintEffect,
    Toleration,
    holds,
)
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.snapshot import ClusterView, Load, Node

ZONE_LABEL = "topology.kubernetes.io/zone"
HOSTNAME_LABEL = "kubernetes.io/hostname"
OS_LABEL = "kubernetes.io/os"
CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""What Kubernetes puts on a cordoned node; it goes with the cordon."""


class Room:
    """Free space and properties of one node while something is being planned."""

    __slots__ = (
        "cpu_milli",
        "extended",
        "labels",
        "memory_mib",
        "name",
        "planned",
        "pods",
        "slots",
        "taints",
        "zone",
    )

    def __init__(
        self, name: str, zone: str, labels: Labels, taints: tuple[Taint, ...], pool: str = ""
    ) -> None:
        self.name = name
        self.zone = zone
        known = {ZONE_LABEL: zone} if zone else {}
        if pool:
            known[POOL] = pool
        self.labels: Mapping[str, str] = {HOSTNAME_LABEL: name, **known, **dict(labels)}
        self.taints = taints
        self.cpu_milli = 0
        self.memory_mib = 0
        self.slots = 0
        self.extended: dict[str, int] = {}
        self.pods: list[Pod] = []
        self.planned = False
        """Of a node that is not there yet."""

    def offer(self, resources: Resources, max_pods: int) -> Room:
        self.cpu_milli = resources.cpu_milli
        self.memory_mib = resources.memory_mib
        self.extended = dict(resources.extended)
        self.slots = max_pods
        return self

    def put(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.cpu_milli -= pod.requests.cpu_milli
        self.memory_mib -= pod.requests.memory_mib
        self.slots -= 1
        for name, amount in pod.requests.extended:
            self.extended[name] = self.extended.get(name, 0) - amount

    def hold(self, load: Load) -> None:
        """As if each of these pods was put here, in their order."""
        cpu_milli, memory_mib, extended = load.of(_requested)
        self.pods.extend(load.pods)
        self.cpu_milli -= cpu_milli
        self.memory_mib -= memory_mib
        self.slots -= len(load.pods)
        for name, amount in extended.items():
            self.extended[name] = self.extended.get(name, 0) - amount

    def take_out(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self.cpu_milli += pod.requests.cpu_milli
        self.memory_mib += pod.requests.memory_mib
        self.slots += 1
        for name, amount in pod.requests.extended:
            self.extended[name] += amount

    def lacks(self, requests: Resources) -> Misfit | None:
        """The first resource there is not enough of, with both amounts."""
        # Who asks for none of a thing fits where more than all of it is given away.
        cpu_milli, memory_mib = max(self.cpu_milli, 0), max(self.memory_mib, 0)
        if requests.cpu_milli > cpu_milli:
            return Misfit(FitCause.CPU, requests.cpu_milli, cpu_milli)
        if requests.memory_mib > memory_mib:
            return Misfit(FitCause.MEMORY, requests.memory_mib, memory_mib)
        if self.slots < 1:
            return Misfit(FitCause.SLOTS, 1, 0)
        for name, amount in requests.extended:
            free = max(self.extended.get(name, 0), 0)
            if amount > free:
                return Misfit(FitCause.EXTENDED, amount, free, name)
        return None


def _requested(pods: tuple[Pod, ...]) -> tuple[int, int, Mapping[str, int]]:
    extended: dict[str, int] = {}
    for pod in pods:
        for name, amount in pod.requests.extended:
            extended[name] = extended.get(name, 0) + amount
    asked = [pod.requests for pod in pods]
    return sum(one.cpu_milli for one in asked), sum(one.memory_mib for one in asked), extended


def given_back(node: Node) -> Node:
    """The node as it will be once our cordon is lifted."""
    return replace(node, taints=tuple(taint for taint in node.taints if taint.key != CORDON_TAINT))


def room_of(node: Node, pods: Iterable[Pod]) -> Room:
    room = _empty_room(node)
    for pod in pods:
        room.put(pod)
    return room


def room_with(node: Node, load: Load) -> Room:
    """The same, from what is known of the pods of the node."""
    room = _empty_room(node)
    room.hold(load)
    return room


def _empty_room(node: Node) -> Room:
    room = Room(node.name, node.zone, node.labels, node.taints, node.pool)
    return room.offer(node.allocatable, node.max_pods)


def room_of_new(name: str, pool: Pool, node_type: NodeType, zone: str, residents: Iterable[Pod] = ()) -> Room:
    """The room that a node of this type would bring once it has joined and its residents are there."""
    labels = ((OS_LABEL, "linux"), *pool.labels)
    room = Room(name, zone, labels, pool.taints, pool.name).offer(node_type.allocatable, node_type.max_pods)
    room.planned = True
    for pod in residents:
        room.put(pod)
    return room


def residents_of(view: ClusterView, pool: Pool) -> tuple[Pod, ...]:
    """What every node of the pool carries anyway, by the worker of it that carries most."""
    return view.residents_by_pool.get(pool.name, ())


def refused_by_node(scheduling: Scheduling, room: Room) -> Misfit | None:
    if scheduling.unsupported:
        return Misfit(FitCause.UNSUPPORTED, about=scheduling.unsupported[0])
    for taint in room.taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
            tolerates(toleration, taint) for toleration in scheduling.tolerations
        ):
            return Misfit(FitCause.TAINT, about=taint.key)
    why = unwanted(scheduling, room)
    if why is None and scheduling.volume_zones and room.zone not in scheduling.volume_zones:
        return Misfit(FitCause.VOLUME_ZONE, about=", ".join(scheduling.volume_zones))
    return why


def unwanted(scheduling: Scheduling, room: Room) -> Misfit | None:
    """What the pod's node selector or node affinity misses in this node. An empty term matches none."""
    for key, value in scheduling.node_selector:
        if room.labels.get(key) != value:
            return Misfit(FitCause.NODE_SELECTOR, about=f"{key}={value}")
    terms = scheduling.node_affinity
    if terms and not any(term and all(holds(r, room.labels) for r in term) for term in terms):
        return Misfit(FitCause.NODE_AFFINITY)
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.exists or toleration.value == taint.value
