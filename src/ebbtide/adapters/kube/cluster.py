"""The cluster port on a Kubernetes API server: the whole cluster as one view.

    KubeCluster(connect())                     reads by lists: a Lambda, a single tick
    KubeCluster(connect(), watching=True)      keeps a view current by watches: a daemon

Changes go to the server directly. A watched view is returned only once it shows them.

Pods are read before claims and volumes, so every volume that a pod mounts can be found. A volume in a zone
ties its pod to that zone; one tied to a node by another label adds it to the pod's node affinity. A pod
with a claim that cannot be resolved is unmovable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from ebbtide.adapters.kube.connection import BUDGETS, CLAIMS, NODES, PODS, VOLUMES, Connection, read_list
from ebbtide.adapters.kube.events import Events, NodeTeller
from ebbtide.adapters.kube.objects import PodSeen, read_budget, read_node, read_pod
from ebbtide.adapters.kube.scheduling import NodeTerms, NotUnderstood, Understanding, decode, read_node_terms
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.wire import WireBudget, WireClaim, WireNode, WirePod, WireVolume
from ebbtide.adapters.kube.writer import Actor
from ebbtide.model import names
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.pod import Budget, Pod, Requirement, Scheduling, SelectorOperator
from ebbtide.model.snapshot import ClusterView, Node

OWN_WRITE_SECONDS = 1.0
"""How long a change of our own is waited for: the watch shows it in a moment, or there is no hurry."""
CLOSE_SECONDS = 2.0
Terms = tuple[tuple[Requirement, ...], ...]


class Readers:
    """From wire objects to values, sharing what is equal."""

    def __init__(self) -> None:
        self.understanding = Understanding()

    def node(self, wire: WireNode) -> Node:
        return read_node(wire, self.understanding)

    def pod(self, wire: WirePod) -> PodSeen:
        return read_pod(wire, self.understanding)

    def budget(self, wire: WireBudget) -> Budget | None:
        return read_budget(wire)

    def claim(self, wire: WireClaim) -> tuple[tuple[str, str], str]:
        return read_claim(wire)

    def volume(self, wire: WireVolume) -> VolumeSeen:
        return read_volume(wire, self.understanding)


def assemble(
    nodes: Iterable[Node], pods: Iterable[PodSeen], budgets: Iterable[Budget | None], storage: Storage
) -> ClusterView:
    return ClusterView(
        nodes=tuple(complete_nodes(nodes, storage)),
        pods=tuple([seen.pod if not seen.claims else complete_pod(seen, storage) for seen in pods]),
        budgets=tuple(budget for budget in budgets if budget is not None),
    )


def list_view(connection: Connection) -> ClusterView:
    readers = Readers()
    nodes, _ = read_list(connection, NODES, readers.node)
    pods, _ = read_list(connection, PODS, readers.pod)
    budgets, _ = read_list(connection, BUDGETS, readers.budget)
    return assemble(nodes, pods, budgets, list_storage(connection, readers))


def list_storage(connection: Connection, readers: Readers) -> Storage:
    claims, _ = read_list(connection, CLAIMS, readers.claim)
    volumes, _ = read_list(connection, VOLUMES, readers.volume)
    return Storage(dict(claims), {volume.name: volume for volume in volumes})


def list_pods_on(connection: Connection, node_name: str) -> Sequence[Pod]:
    readers = Readers()
    query = {"fieldSelector": f"spec.nodeName={node_name}"}
    seen, _ = read_list(connection, PODS, readers.pod, query)
    mounting = any(pod.claims for pod in seen)
    storage = list_storage(connection, readers) if mounting else Storage()
    return tuple(complete_pod(pod, storage) for pod in seen)


def became_ready(before: Node | None, after: Node) -> bool:
    return after.ready and (before is None or not before.ready)


def became_unschedulable(before: PodSeen | None, after: PodSeen) -> bool:
    known = before is not None and before.unschedulable and before.pod.uid == after.pod.uid
    return after.unschedulable and not known


class Watches:
    """Five followers and the view they make together, made again only when something changed."""

    def __init__(self, connection: Connection) -> None:
        readers, self._changed = Readers(), threading.Condition()
        self.nodes = Follower(connection, NODES, readers.node, self._changed, urgent=became_ready)
        self.pods = Follower(connection, PODS, readers.pod, self._changed, urgent=became_unschedulable)
        self._budgets = Follower(connection, BUDGETS, readers.budget, self._changed)
        self._claims = Follower(connection, CLAIMS, readers.claim, self._changed)
        self._volumes = Follower(connection, VOLUMES, readers.volume, self._changed)
        self._view = ClusterView()
        self._seen: tuple[int, ...] = ()
        for follower in self._all:
            follower.start()

    @property
    def _all(self) -> Sequence[Follower[Any, Any]]:
        return self.nodes, self.pods, self._budgets, self._claims, self._volumes

    def view(self) -> ClusterView | None:
        """None while not all of them are known to be current."""
        if not all(follower.current for follower in self._all):
            return None
        changes = tuple(follower.changes for follower in self._all)
        if changes != self._seen:
            volumes = {volume.name: volume for volume in self._volumes.items()}
            storage = Storage(dict(self._claims.items()), volumes)
            self._view = assemble(self.nodes.items(), self.pods.items(), self._budgets.items(), storage)
            self._seen = changes
        return self._view

    @property
    def urgencies(self) -> int:
        return self.nodes.urgencies + self.pods.urgencies

    def await_first(self, seconds: float) -> None:
        """Until all have been listed, or one has failed."""

        def told() -> bool:
            return all(f.current for f in self._all) or any(f.failures for f in self._all)

        self._await(told, seconds)

    def _await(self, reached: Callable[[], bool], seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(reached, seconds)

    def await_pod(self, namespace: str, name: str, reached: Callable[[Pod | None], bool]) -> None:
        def told() -> bool:
            seen = self.pods.find(namespace, name)
            return reached(seen.pod if seen else None)

        self._await(told, OWN_WRITE_SECONDS)

    def await_node_gone(self, name: str, uid: str) -> None:
        def told() -> bool:
            node = self.nodes.find("", name)
            return node is None or node.uid != uid

        self._await(told, OWN_WRITE_SECONDS)

    def close(self) -> None:
        for follower in self._all:
            follower.stop()
        for follower in self._all:
            follower.join(CLOSE_SECONDS)


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    name: str
    attached_as: str = ""
    """How a node names it while it is attached."""
    zones: tuple[str, ...] = ()
    terms: Terms = ()
    local: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Storage:
    """Claims by namespace and name, volumes by name."""

    claims: Mapping[tuple[str, str], str] = field(default_factory=dict)
    volumes: Mapping[str, VolumeSeen] = field(default_factory=dict)

    @property
    def name_of_attached(self) -> Mapping[str, str]:
        return {volume.attached_as: volume.name for volume in self.volumes.values() if volume.attached_as}


def read_claim(wire: WireClaim) -> tuple[tuple[str, str], str]:
    return (wire.metadata.namespace, wire.metadata.name), wire.spec.volume_name


def read_volume(wire: WireVolume, understanding: Understanding) -> VolumeSeen:
    spec, name = wire.spec, wire.metadata.name
    csi = spec.csi
    attached_as = f"kubernetes.io/csi/{csi.driver}^{csi.volume_handle}" if csi else ""
    local = bool(bytes(spec.local) or bytes(spec.host_path))
    labels = dict(understanding.labels(wire.metadata.labels))
    zones = next((tuple(labels[key].split("__")) for key in names.ZONES if labels.get(key)), ())
    seen = VolumeSeen(name, attached_as, zones, local=local)
    if spec.node_affinity is None:
        return seen
    try:
        terms = read_node_terms(decode(spec.node_affinity.required, NodeTerms, "a volume's affinity"))
    except NotUnderstood as what:
        return replace(seen, problem=f"volume {name} with {what}")
    bound = _zones(terms)
    return replace(seen, zones=bound) if bound else replace(seen, terms=terms)


def _zones(terms: Terms) -> tuple[str, ...]:
    """The zones, where the terms say nothing but zones."""
    found: set[str] = set()
    for term in terms:
        said = [each for each in term if not _on_any_machine(each)]
        if (
            len(said) != 1
            or said[0].key not in names.VOLUME_ZONES
            or said[0].operator is not SelectorOperator.IN
        ):
            return ()
        found.update(said[0].values)
    return tuple(sorted(found))


def _on_any_machine(asked: Requirement) -> bool:
    """A machine that is still to be launched has no labels of a driver yet, but will have these."""
    has = names.ON_ANY_MACHINE.get(asked.key)
    return asked.operator is SelectorOperator.IN and has is not None and has in asked.values


def complete_pod(seen: PodSeen, storage: Storage) -> Pod:
    if not seen.claims:
        return seen.pod
    pod, scheduling, mounted = seen.pod, seen.pod.scheduling, []
    problems = list(scheduling.unsupported)
    local = pod.local_storage
    for claim in seen.claims:
        name = storage.claims.get((pod.namespace, claim))
        if name is None:
            problems.append(f"a volume claim {claim} that is not there")
            continue
        if not name:
            continue  # not bound yet: it will be made where the pod goes
        volume = storage.volumes.get(name)
        if volume is None:
            problems.append(f"a volume {name} that is not there")
            continue
        mounted.append(name)
        local = local or volume.local
        if volume.problem:
            problems.append(volume.problem)
        scheduling = _bound_to(scheduling, volume)
        if scheduling.volume_zones == IMPOSSIBLE:
            problems.append("volumes in different zones")
    scheduling = replace(scheduling, unsupported=tuple(problems))
    return replace(pod, scheduling=scheduling, volumes=tuple(mounted), local_storage=local)


IMPOSSIBLE = ("",)
"""Zones of a pod whose volumes have none in common."""


def _bound_to(scheduling: Scheduling, volume: VolumeSeen) -> Scheduling:
    if volume.zones:
        before = scheduling.volume_zones or volume.zones
        common = tuple(zone for zone in before if zone in volume.zones)
        scheduling = replace(scheduling, volume_zones=common or IMPOSSIBLE)
    if volume.terms:
        both = product(scheduling.node_affinity or ((),), volume.terms)
        scheduling = replace(scheduling, node_affinity=tuple(one + other for one, other in both))
    return scheduling


def complete_nodes(nodes: Iterable[Node], storage: Storage) -> Iterable[Node]:
    """Nodes with the volumes attached to them under the names that pods use."""
    known = storage.name_of_attached
    for node in nodes:
        if node.volumes_attached:
            named = tuple(sorted(known.get(name, name) for name in node.volumes_attached))
            yield replace(node, volumes_attached=named)
        else:
            yield node


FIRST_LIST_SECONDS = 60.0


class KubeCluster:
    def __init__(self, connection: Connection, watching: bool = False) -> None:
        self._connection = connection
        events = Events(connection)
        self._actor = Actor(connection, events)
        self.teller = NodeTeller(events, lambda: {node.name: node.uid for node in self._view.nodes})
        """Reports on nodes why they are kept; the observer of the runner that decides."""
        self._watching = watching
        self._watches: Watches | None = None
        self._one_reads = threading.Lock()
        """The tick, the rounds over policies and the API read at the same time. Without it each would begin
        watches of its own, and one that is slow could leave an older view behind than another was shown."""
        self._view = ClusterView()

    def read(self) -> ClusterView:
        view = self._watched() if self._watching else None
        self._view = list_view(self._connection) if view is None else view
        return self._view

    def urgencies(self) -> int:
        """Grows with every pod that no node takes and every node that becomes Ready, where watched."""
        return 0 if self._watches is None else self._watches.urgencies

    def arrived_at(self) -> float:
        """When the last pod came that no node takes, where watched; 0 where none did."""
        return 0.0 if self._watches is None else self._watches.pods.urgent_at

    @property
    def cpu_milli_of(self) -> Mapping[str, int]:
        """CPU by node name as last read: what a use of CPU is a share of."""
        return {node.name: node.allocatable.cpu_milli for node in self._view.nodes}

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        return list_pods_on(self._connection, node_name)

    def label_node(self, name: str, uid: str, labels: Mapping[str, str]) -> None:
        """For `ebbtide adopt`. Labels that are there stay; `NotOurs` for another node or another pool."""
        self._actor.label(name, uid, labels)

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        self._show(self._actor.soft_taint(effect, token))

    def cordon(self, effect: Cordon, token: int) -> None:
        self._show(self._actor.cordon(effect, token))

    def uncordon(self, effect: Uncordon, token: int) -> None:
        self._show(self._actor.uncordon(effect, token))

    def evict(self, effect: Evict) -> None:
        self._actor.evict(effect)
        if self._watches is not None:
            self._watches.await_pod(
                effect.namespace,
                effect.name,
                lambda pod: pod is None or pod.uid != effect.uid or pod.terminating,
            )

    def delete_node(self, effect: DeleteNode) -> None:
        self._actor.delete_node(effect)
        if self._watches is not None:
            self._watches.await_node_gone(effect.node_name, effect.node_uid)

    def close(self) -> None:
        self.teller.close()
        if self._watches is not None:
            self._watches.close()
        self._connection.close()

    def _watched(self) -> ClusterView | None:
        """None where the watches do not work (yet): then a list is read, and its error is the caller's."""
        with self._one_reads:
            if self._watches is None:
                self._watches = Watches(self._connection)
                self._watches.await_first(FIRST_LIST_SECONDS)
            return self._watches.view()

    def _show(self, changed: WireNode | None) -> None:
        if self._watches is not None and changed is not None:
            self._watches.nodes.put(changed)
