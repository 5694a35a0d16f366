"""What was seen of the cluster, the cloud and the metrics at one moment: nodes as the cluster shows them,
instances as the cloud does, pods and metrics.

A `ClusterView` that did not change may be shared by many snapshots; what is derived from it is
computed once. `problems` says why a snapshot is not to be trusted with a removal.

A node as the cluster shows it, and an instance as the cloud shows it. They are two things: an instance may
never join, and a node may outlive its instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar

from ebbtide.model.pod import NOTHING, Budget, Labels, Pod, Resources, Taint, TaintEffect

LEAVING = Taint("ebbtide.dev/leaving", TaintEffect.PREFER_NO_SCHEDULE)
"""On a node that is to go, from before its cordon until it is given back: better not here."""


class Market(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The annotation that a soft taint or a cordon of ours leaves on a node."""

    operation_id: str
    token: int
    cordoned: bool = True
    """Whether the cordon, where there is one, is ours too; before that there is only the soft taint, and
    a cordon is a person's."""


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str
    provider_id: str = ""
    instance_id: str = ""
    """From the label set at join; used where there is no provider id."""
    private_ip: str = ""
    zone: str = ""
    pool: str = ""
    """Name of the pool it belongs to; empty for a node that is not ours."""
    instance_type: str = ""
    market: Market = Market.ON_DEMAND
    created_at: int = 0
    ready: bool = True
    unschedulable: bool = False
    control_plane: bool = False
    system: bool = False
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    max_pods: int = 110
    owner: Ownership | None = None
    volumes_attached: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    """What it reports of itself apart from Ready, as `Type=Status`; a pressure that is not there is left
    out."""

    @property
    def cordoned_by_us(self) -> bool:
        return self.unschedulable and self.owner is not None and self.owner.cordoned

    @property
    def worker(self) -> bool:
        """Ours to count and to remove: in a pool, no control plane, not marked as system."""
        return bool(self.pool) and not self.control_plane and not self.system


class InstanceState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Instance:
    id: str
    provider_id: str = ""
    key: str = ""
    """Idempotency key of the launch slot that made it; empty where it was not made by us."""
    pool: str = ""
    zone: str = ""
    instance_type: str = ""
    market: Market = Market.ON_DEMAND
    state: InstanceState = InstanceState.RUNNING
    launched_at: int = 0
    private_ip: str = ""
    launch_hash: str = ""
    """Of the configuration it was launched with; empty where it carries none."""

    @property
    def alive(self) -> bool:
        return self.state is InstanceState.RUNNING or self.state is InstanceState.PENDING


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric that is known (`value`) or not, with the `problem` that kept it from being known."""

    value: float | None = None
    at: int = 0
    problem: str = ""
    failed: bool = False
    """Nobody answered, or not in a way that can be read; else the answer was there and said too little."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What a node really uses of its CPU and memory, as shares. Shown to people; nothing is decided on it."""

    cpu: float
    memory: float | None = None
    at: int = 0


class Load:
    """The pods of a node, without the finished ones. What is worked out of them is kept: where they did not
    change, a later view may have the same load."""

    __slots__ = ("_known", "pods")

    def __init__(self, pods: tuple[Pod, ...]) -> None:
        self.pods = pods
        self._known: dict[Callable[[tuple[Pod, ...]], Any], Any] = {}

    def of(self, work_out: Callable[[tuple[Pod, ...]], T]) -> T:
        """What this pure function makes of the pods. It must be one that lives on, not made for this call."""
        known: T | None = self._known.get(work_out)
        if known is None:
            known = self._known[work_out] = work_out(self.pods)
        return known


EMPTY = Load(())


def tied_pods(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.tied_to_node)


@dataclass(frozen=True)
class ClusterView:
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def __getstate__(self) -> dict[str, object]:
        """Without what was worked out from it: another thread may add to that while this one is pickled."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def workers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.worker)

    @cached_property
    def ready_names(self) -> tuple[str, ...]:
        """Of the workers that are Ready."""
        return tuple(node.name for node in self.workers if node.ready)

    @cached_property
    def unready_workers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.workers if not node.ready)

    @cached_property
    def signed_workers(self) -> tuple[Node, ...]:
        """Those with a soft taint or a cordon of ours."""
        return tuple(node for node in self.workers if node.owner is not None)

    @cached_property
    def node_named(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def pods_on(self) -> Mapping[str, tuple[Pod, ...]]:
        """Pods by node name, without the finished ones."""
        found: dict[str, list[Pod]] = {}
        for pod in self.pods:
            if pod.node_name and not pod.finished:
                found.setdefault(pod.node_name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """The same, with what is worked out of the pods of each node."""
        return {name: Load(pods) for name, pods in self.pods_on.items()}

    @cached_property
    def placed_count(self) -> int:
        """How many pods are on nodes, without the finished ones."""
        return sum(map(len, self.pods_on.values()))

    @cached_property
    def unplaced_pods(self) -> tuple[Pod, ...]:
        """Pods on no node, also those that do not wait for one."""
        return tuple(pod for pod in self.pods if not pod.node_name)

    @cached_property
    def residents_by_pool(self) -> Mapping[str, tuple[Pod, ...]]:
        """What every node of a pool carries anyway, by the worker of it that carries most."""
        most: dict[str, tuple[tuple[int, int], tuple[Pod, ...]]] = {}
        for node in self.workers:
            tied = self.loads.get(node.name, EMPTY).of(tied_pods)
            weight = (sum(pod.requests.cpu_milli for pod in tied), len(tied))
            if node.pool not in most or weight > most[node.pool][0]:
                most[node.pool] = (weight, tied)
        return {pool: tied for pool, (_, tied) in most.items()}

    @cached_property
    def waiting_pods(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.waiting)

    @cached_property
    def empty_workers(self) -> tuple[str, ...]:
        """UIDs of the workers without a pod that counts, in order."""
        pods_on = self.pods_on
        empty = (
            node.uid for node in self.workers if all(pod.tied_to_node for pod in pods_on.get(node.name, ()))
        )
        return tuple(sorted(filter(None, empty)))


@dataclass(frozen=True)
class Snapshot:
    at: int
    cluster: ClusterView = ClusterView()
    instances: tuple[Instance, ...] = ()
    cpu: Reading = Reading(problem="not read")
    problems: tuple[str, ...] = ()
    players: tuple[tuple[str, int], ...] = ()
    """Players by `namespace/pod`, where a query for them is configured."""

    @cached_property
    def players_of(self) -> Mapping[str, int]:
        return dict(self.players)

    @cached_property
    def instance_with_id(self) -> Mapping[str, Instance]:
        return {instance.id: instance for instance in self.instances}

    @cached_property
    def instance_with_key(self) -> Mapping[str, Instance]:
        return {instance.key: instance for instance in self.instances if instance.key}

    @cached_property
    def instance_of(self) -> Mapping[str, Instance]:
        """Instance by node name: by provider id; without one by the label set at join; without
        that by the private address, as long as the node is not older than the instance."""
        by_provider = {i.provider_id: i for i in self.instances if i.provider_id}
        found: dict[str, Instance] = {}
        for node in self.cluster.nodes:
            if node.provider_id:
                instance = by_provider.get(node.provider_id)
            elif node.instance_id:
                instance = self.instance_with_id.get(node.instance_id)
            else:
                instance = self._instance_at.get(node.private_ip)
                if instance is not None and node.created_at < instance.launched_at:
                    instance = None
            if instance is not None:
                found[node.name] = instance
        return found

    @cached_property
    def alive(self) -> tuple[Instance, ...]:
        """Instances of our pools that have not ended."""
        return tuple(instance for instance in self.instances if instance.alive and instance.pool)

    @cached_property
    def lone(self) -> tuple[Instance, ...]:
        """Alive, launched by us, and without a node."""
        node_of = self.node_of
        return tuple(instance for instance in self.alive if instance.key and instance.id not in node_of)

    @cached_property
    def unmatched(self) -> tuple[Node, ...]:
        """Workers without an instance."""
        return tuple(node for node in self.cluster.workers if node.name not in self.instance_of)

    @cached_property
    def working(self) -> tuple[Node, ...]:
        """Ready workers, without those whose instance is known to have ended."""
        instance_of = self.instance_of
        ended = {name for name, instance in instance_of.items() if not instance.alive}
        return tuple(node for node in self.cluster.workers if node.ready and node.name not in ended)

    @cached_property
    def schedulable(self) -> tuple[Node, ...]:
        """Those of them that take pods."""
        return tuple(node for node in self.working if not node.unschedulable)

    @cached_property
    def enlisted(self) -> tuple[Node, ...]:
        """Those of them that take pods, and those that we cordoned ourselves."""
        return tuple(node for node in self.working if node.cordoned_by_us or not node.unschedulable)

    @cached_property
    def alive_by_pool(self) -> Mapping[str, int]:
        return Counter(instance.pool for instance in self.alive)

    @cached_property
    def ready_strangers(self) -> tuple[Node, ...]:
        """Ready nodes, other than those of the control plane, that match no instance."""
        matched = self.instance_of
        return tuple(
            node
            for node in self.cluster.nodes
            if node.ready and not node.control_plane and node.name not in matched
        )

    @cached_property
    def _instance_at(self) -> Mapping[str, Instance]:
        return {i.private_ip: i for i in self.instances if i.private_ip and i.alive}

    @cached_property
    def node_of(self) -> Mapping[str, Node]:
        """Node by instance id."""
        return {instance.id: self.cluster.node_named[name] for name, instance in self.instance_of.items()}
