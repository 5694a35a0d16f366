"""Whether a pod fits a node, by the rules a scheduler would apply, and why not.

A `Room` is the free space of one node, real or only planned; a `Placement` is all rooms together,
because spreading and anti-affinity are about the pods on the others. Both are scratch paper: made
for one computation, changed by `place`, thrown away. Never optimistic: what the rules do not
understand does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ebbtide.core.labels import holds, matches
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import (
    AntiAffinity,
    Labels,
    Scheduling,
    Spread,
    Taint,
    TaintEffect,
    Toleration,
)
from ebbtide.model.snapshot import ClusterView

ZONE_LABEL = "topology.kubernetes.io/zone"
HOSTNAME_LABEL = "kubernetes.io/hostname"
OS_LABEL = "kubernetes.io/os"


class Room:
    """Free space and properties of one node while something is being planned."""

    __slots__ = ("cpu_milli", "extended", "labels", "memory_mib", "name", "pods", "slots", "taints", "zone")

    def __init__(self, name: str, zone: str, labels: Labels, taints: tuple[Taint, ...]) -> None:
        self.name = name
        self.zone = zone
        known = {ZONE_LABEL: zone} if zone else {}
        self.labels: Mapping[str, str] = {HOSTNAME_LABEL: name, **known, **dict(labels)}
        self.taints = taints
        self.cpu_milli = 0
        self.memory_mib = 0
        self.slots = 0
        self.extended: dict[str, int] = {}
        self.pods: list[Pod] = []

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

    def take_back(self, pod: Pod) -> None:
        """Undo the last `put`, which was of this pod."""
        self.pods.pop()
        self.cpu_milli += pod.requests.cpu_milli
        self.memory_mib += pod.requests.memory_mib
        self.slots += 1
        for name, amount in pod.requests.extended:
            self.extended[name] += amount

    def lacks(self, requests: Resources) -> str:
        """The first resource there is not enough of, with both figures; empty when there is enough."""
        # Who asks for none of a thing fits where more than all of it is given away.
        cpu_milli, memory_mib = max(self.cpu_milli, 0), max(self.memory_mib, 0)
        if requests.cpu_milli > cpu_milli:
            return f"needs {requests.cpu_milli}m CPU, {cpu_milli}m free"
        if requests.memory_mib > memory_mib:
            return f"needs {requests.memory_mib} MiB memory, {memory_mib} MiB free"
        if self.slots < 1:
            return "has no pod slot left"
        for name, amount in requests.extended:
            free = max(self.extended.get(name, 0), 0)
            if amount > free:
                return f"needs {amount} {name}, {free} free"
        return ""


def room_of(node: Node, pods: Iterable[Pod]) -> Room:
    room = Room(node.name, node.zone, node.labels, node.taints).offer(node.allocatable, node.max_pods)
    for pod in pods:
        room.put(pod)
    return room


def room_of_new(name: str, pool: Pool, node_type: NodeType, zone: str, residents: Iterable[Pod] = ()) -> Room:
    """The room that a node of this type would bring once it has joined and its residents are there."""
    labels = ((OS_LABEL, "linux"), *pool.labels)
    room = Room(name, zone, labels, pool.taints).offer(node_type.allocatable, node_type.max_pods)
    for pod in residents:
        room.put(pod)
    return room


def residents_of(view: ClusterView, pool: Pool) -> tuple[Pod, ...]:
    """What every node of the pool carries anyway, by the worker of it that carries most."""
    kept = [
        tuple(pod for pod in view.pods_on.get(node.name, ()) if pod.tied_to_node)
        for node in view.workers
        if node.pool == pool.name
    ]
    return max(kept, key=lambda pods: [sum(p.requests.cpu_milli for p in pods), len(pods)], default=())


class Placement:
    def __init__(self, rooms: Iterable[Room]) -> None:
        self.rooms = {room.name: room for room in rooms}
        self._guarded = any(pod.scheduling.anti_affinity for room in self.rooms.values() for pod in room.pods)

    def why_not(self, pod: Pod, room: Room) -> str:
        """Why the pod does not fit into this room; empty when it does."""
        lacks = room.lacks(pod.requests)
        if lacks:
            return lacks
        reason = refused_by_node(pod.scheduling, room)
        if reason or not (pod.scheduling.anti_affinity or pod.scheduling.spread or self._guarded):
            return reason
        return self._refused_by_neighbours(pod, room)

    def place(self, pod: Pod, room: Room) -> None:
        self.rooms[room.name] = room
        room.put(pod)
        self._guarded = self._guarded or bool(pod.scheduling.anti_affinity)

    def first_fit(self, pod: Pod, rooms: Iterable[Room] | None = None) -> Room | None:
        candidates = self.rooms.values() if rooms is None else rooms
        cpu_milli, memory_mib = pod.requests.cpu_milli, pod.requests.memory_mib
        for room in candidates:
            # The common no first, without a sentence made for it.
            if cpu_milli > room.cpu_milli > 0 or memory_mib > room.memory_mib > 0:
                continue
            if not self.why_not(pod, room):
                return room
        return None

    def _refused_by_neighbours(self, pod: Pod, room: Room) -> str:
        labels = dict(pod.labels)
        for rule in pod.scheduling.anti_affinity:
            if any(_repels(rule, pod.namespace, other) for other in self._domain(rule.topology_key, room)):
                return f"anti-affinity keeps it away from a pod in the same {rule.topology_key}"
        for other_room in self.rooms.values():
            for other in other_room.pods:
                for rule in other.scheduling.anti_affinity:
                    if (
                        other.namespace == pod.namespace
                        and matches(rule.selector, labels)
                        and _same_domain(rule.topology_key, room, other_room)
                    ):
                        return f"anti-affinity of {other.full_name} keeps it away"
        for spread in pod.scheduling.spread:
            counts = self._counts(spread, pod)
            domain = room.labels.get(spread.topology_key)
            if domain is None:
                return f"the node has no label {spread.topology_key} to spread over"
            here = counts.get(domain, 0) + (1 if matches(spread.selector, labels) else 0)
            least = min(counts.values(), default=0)
            if here - least > spread.max_skew:
                return f"would be {here} in {domain}, the least is {least}, skew at most {spread.max_skew}"
        return ""

    def _domain(self, topology_key: str, room: Room) -> Iterable[Pod]:
        for other in self.rooms.values():
            if _same_domain(topology_key, room, other):
                yield from other.pods

    def _counts(self, spread: Spread, pod: Pod) -> dict[str, int]:
        """Matching pods by domain. A node that the pod does not ask for makes no domain."""
        counts: dict[str, int] = {}
        for room in self.rooms.values():
            domain = room.labels.get(spread.topology_key)
            if domain is not None and not unwanted(pod.scheduling, room):
                found = sum(
                    1
                    for other in room.pods
                    if other.namespace == pod.namespace and matches(spread.selector, dict(other.labels))
                )
                counts[domain] = counts.get(domain, 0) + found
        return counts


def _repels(rule: AntiAffinity, namespace: str, other: Pod) -> bool:
    return other.namespace == namespace and matches(rule.selector, dict(other.labels))


def _same_domain(topology_key: str, one: Room, other: Room) -> bool:
    domain = one.labels.get(topology_key)
    return domain is not None and domain == other.labels.get(topology_key)


def refused_by_node(scheduling: Scheduling, room: Room) -> str:
    if scheduling.unsupported:
        return f"has {scheduling.unsupported[0]}, which Ebbtide does not understand"
    for taint in room.taints:
        if taint.effect is not TaintEffect.PREFER_NO_SCHEDULE and not any(
            tolerates(toleration, taint) for toleration in scheduling.tolerations
        ):
            return f"does not tolerate taint {taint.key}"
    reason = unwanted(scheduling, room)
    if not reason and scheduling.volume_zones and room.zone not in scheduling.volume_zones:
        return f"has a volume in {', '.join(scheduling.volume_zones)}"
    return reason


def unwanted(scheduling: Scheduling, room: Room) -> str:
    """What the pod's node selector or node affinity misses in this node. An empty term matches none."""
    for key, value in scheduling.node_selector:
        if room.labels.get(key) != value:
            return f"asks for a node with {key}={value}"
    terms = scheduling.node_affinity
    if terms and not any(term and all(holds(r, room.labels) for r in term) for term in terms):
        return "its node affinity does not match"
    return ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect is not None and toleration.effect is not taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.exists or toleration.value == taint.value


def placement_of(view: ClusterView, without: Iterable[str] = ()) -> Placement:
    """Rooms of all nodes that take pods now (ready, not cordoned), without those named."""
    left_out = set(without)
    return Placement(
        room_of(node, view.pods_on.get(node.name, ()))
        for node in view.nodes
        if node.ready and not node.unschedulable and node.name not in left_out
    )
