"""A pod: what it asks for, where it may run, and what draining needs to know of it; and the Deployments and
StatefulSets that pods belong to.

What a node offers and what a pod asks for, in whole milli-CPUs and mebibytes. Readers round requests up and
offers down, so "fits" is never optimistic.

Where a pod may run: the part of a pod's specification that the fit rules understand. What a reader meets and
these values cannot say goes into `Scheduling.unsupported`; such a pod is never moved and never placed by us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Any, assert_never


@dataclass(frozen=True, slots=True)
class Resources:
    cpu_milli: int = 0
    memory_mib: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Other named amounts (GPUs and the like), each known by its full name."""

    def plus(self, other: Resources, times: int = 1) -> Resources:
        """CPU and memory of both together; other amounts are left out."""
        return Resources(self.cpu_milli + times * other.cpu_milli, self.memory_mib + times * other.memory_mib)


NOTHING = Resources()


Labels = tuple[tuple[str, str], ...]
"""Label pairs, sorted by key."""


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Matches where every requirement holds; with no requirement it matches everything."""

    requirements: tuple[Requirement, ...] = ()


class TaintEffect(StrEnum):
    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    effect: TaintEffect
    value: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty key tolerates every key, no effect every effect; `exists` ignores the value."""

    key: str = ""
    exists: bool = False
    value: str = ""
    effect: TaintEffect | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A hard topology spread constraint (`whenUnsatisfiable: DoNotSchedule`)."""

    topology_key: str
    max_skew: int
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class AntiAffinity:
    """No other pod of the same namespace that matches, in the same topology domain."""

    topology_key: str
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class PodNearby:
    """At least one pod of the same namespace that matches, in the same topology domain."""

    topology_key: str
    selector: LabelSelector


@dataclass(frozen=True, slots=True)
class Scheduling:
    node_selector: Labels = ()
    node_affinity: tuple[tuple[Requirement, ...], ...] = ()
    """Terms, of which one must hold whole; no term at all asks for nothing."""
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[Spread, ...] = ()
    anti_affinity: tuple[AntiAffinity, ...] = ()
    volume_zones: tuple[str, ...] = ()
    """Zones its volumes are bound to; none means that it may run in any."""
    unsupported: tuple[str, ...] = ()
    affinity: tuple[PodNearby, ...] = ()

    @property
    def carries_rules(self) -> bool:
        """Whether it says anything about other pods."""
        return bool(self.anti_affinity or self.affinity or self.spread)


ANYWHERE = Scheduling()


class FitCause(StrEnum):
    """Why a pod does not fit a node."""

    UNKNOWN = ""
    """Stored by a version that did not write it down."""
    CPU = "cpu"
    MEMORY = "memory"
    SLOTS = "slots"
    """The node has as many pods as it may have."""
    EXTENDED = "extended"
    """Too little of another resource, such as a GPU."""
    UNSUPPORTED = "unsupported"
    """The pod has a rule that is not understood."""
    TAINT = "taint"
    NODE_SELECTOR = "node_selector"
    NODE_AFFINITY = "node_affinity"
    VOLUME_ZONE = "volume_zone"
    ANTI_AFFINITY = "anti_affinity"
    ANTI_AFFINITY_OF_OTHERS = "anti_affinity_of_others"
    AFFINITY = "affinity"
    NO_LABEL_FOR_AFFINITY = "no_label_for_affinity"
    NO_LABEL_FOR_SPREAD = "no_label_for_spread"
    SPREAD = "spread"
    UNSIZED = "unsized"
    """Nothing is known of what the pod needs: no node that is there is counted on."""
    UNSIZED_FULL = "unsized_full"
    """The node is taken to hold no more pods of unknown size."""
    NO_POOL = "no_pool"
    """No pool is configured."""
    NO_SUCH_POOL = "no_such_pool"
    """The pool that is asked for is not configured."""
    POOLS_FULL = "pools_full"
    """No pool may have another node."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> FitCause:
        """One that only a newer version knows."""
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a pod does not fit a node. Asked of every pod and every node, so the sentence is made when it is
    read."""

    cause: FitCause
    found: int = 0
    """What the pod needs; of a spread, the pods that would then be in its domain."""
    limit: int = 0
    """What the node has free; of a spread, the skew."""
    about: str = ""
    """The resource, taint, label, zones, domain, rule or pool."""
    least: int = 0
    """Of a spread: the pods in the domain that has fewest."""

    @property
    def says(self) -> str:
        return _MISFITS[self.cause].format(m=self)


_MISFITS = {
    FitCause.UNKNOWN: "the cause is not known",
    FitCause.CPU: "needs {m.found}m CPU, {m.limit}m free",
    FitCause.MEMORY: "needs {m.found} MiB memory, {m.limit} MiB free",
    FitCause.SLOTS: "has no pod slot left",
    FitCause.EXTENDED: "needs {m.found} {m.about}, {m.limit} free",
    FitCause.UNSUPPORTED: "has {m.about}, which Ebbtide does not understand",
    FitCause.TAINT: "does not tolerate taint {m.about}",
    FitCause.NODE_SELECTOR: "asks for a node with {m.about}",
    FitCause.NODE_AFFINITY: "its node affinity does not match",
    FitCause.VOLUME_ZONE: "has a volume in {m.about}",
    FitCause.ANTI_AFFINITY: "anti-affinity keeps it away from a pod in the same {m.about}",
    FitCause.ANTI_AFFINITY_OF_OTHERS: "the anti-affinity of a pod in the same {m.about} keeps it away",
    FitCause.AFFINITY: "affinity asks for a pod in the same {m.about}, and none is there",
    FitCause.NO_LABEL_FOR_AFFINITY: "the node has no label {m.about} to be near anything",
    FitCause.NO_LABEL_FOR_SPREAD: "the node has no label {m.about} to spread over",
    FitCause.SPREAD: "would be {m.found} in {m.about}, the least is {m.least}, skew at most {m.limit}",
    FitCause.UNSIZED: "nothing is known of what the pod needs",
    FitCause.UNSIZED_FULL: "holds as many pods of unknown size as a node is taken to",
    FitCause.NO_POOL: "no pool is configured",
    FitCause.NO_SUCH_POOL: "there is no node pool {m.about}",
    FitCause.POOLS_FULL: "no pool may have another node",
    FitCause.OTHER: "another cause",
}


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A pending pod that no node of any pool could take."""

    pod: str
    """`namespace/name`."""
    why: Misfit

    @property
    def says(self) -> str:
        return f"{self.pod} fits no type of any pool: {self.why.says}"


class StopCause(StrEnum):
    """Why nothing further is launched although something is still asked for."""

    AT_MAXIMUM = "at_maximum"
    """Every pool, when nodes are counted."""
    AT_LIMITS = "at_limits"
    """Every pool, when what is pending asks for one."""
    NO_FIT = "no_fit"
    """What is left fits no node that may be launched now."""


@dataclass(frozen=True, slots=True)
class PlanStop:
    cause: StopCause
    about: str = ""
    """The pod that is left, or headroom."""

    @property
    def says(self) -> str:
        return _STOPS[self.cause].format(self.about)


_STOPS = {
    StopCause.AT_MAXIMUM: "every pool is at its maximum",
    StopCause.AT_LIMITS: "every pool is at its maximum or its limits",
    StopCause.NO_FIT: "{} fits no further node that may be launched now",
}


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case SelectorOperator.IN:
            return value in requirement.values
        case SelectorOperator.NOT_IN:
            return value not in requirement.values
        case SelectorOperator.EXISTS:
            return value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return value is None
        case SelectorOperator.GREATER | SelectorOperator.LESS:
            have, limit = _integer(value), _integer(next(iter(requirement.values), None))
            if have is None or limit is None:
                return False
            return have > limit if requirement.operator is SelectorOperator.GREATER else have < limit
        case unknown:
            assert_never(unknown)


def _integer(value: str | None) -> int | None:
    return int(value) if value is not None and re.fullmatch("[+-]?[0-9]+", value) else None


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(holds(requirement, labels) for requirement in selector.requirements)


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    node_name: str = ""
    phase: PodPhase = PodPhase.RUNNING
    ready: bool = True
    created_at: int = 0
    terminating: bool = False
    requests: Resources = NOTHING
    controller: str = ""
    """Kind of the owning controller ("ReplicaSet", "DaemonSet"), empty for a bare pod."""
    mirror: bool = False
    priority_class: str = ""
    local_storage: bool = False
    safe_to_evict: bool | None = None
    do_not_disrupt: bool = False
    grace_seconds: int = 30
    labels: Labels = ()
    scheduling: Scheduling = ANYWHERE
    volumes: tuple[str, ...] = ()
    annotations: Labels = ()
    """Those that say something about a game server (`core.servers`), sorted by key."""
    ends_at: int = 0
    """While terminating: when its grace is over; 0 where that is not known."""
    owner_uid: str = ""
    """UID of the owning controller: what takes the place of this pod has the same."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def tied_to_node(self) -> bool:
        """Comes and goes with its node, so it neither keeps one busy nor moves to another."""
        return self.mirror or self.controller == "DaemonSet"

    @property
    def waiting(self) -> bool:
        """Waits for a node: accepted, not placed, not on its way out."""
        return self.phase is PodPhase.PENDING and not self.node_name and not self.terminating


_NAMES = tuple(field.name for field in fields(Pod))
_PLACES = {name: place for place, name in enumerate(_NAMES)}
_values_of = attrgetter(*_NAMES)


def changed(pod: Pod, **values: Any) -> Pod:
    """As `dataclasses.replace`, which takes twice as long: a simulation changes each pod several times."""
    held = list(_values_of(pod))
    for name, value in values.items():
        held[_PLACES[name]] = value
    return Pod(*held)


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods it selects may be disturbed now."""

    namespace: str
    name: str
    selector: LabelSelector
    disruptions_allowed: int


class WorkloadKind(StrEnum):
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    kind: WorkloadKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """What was seen of one workload at one moment."""

    ref: WorkloadRef
    replicas: int
    """Asked for in the specification."""
    ready_replicas: int = 0
    version: str = ""
    """Changes with every change of the object: the condition of the next `scale`."""
    created_at: int = 0
    deployed_at: int = 0
    """When its pod template last changed, as far as is known; a new version deserves a grace."""
    autoscaler: str = ""
    """The HorizontalPodAutoscaler on the same target; empty where there is none."""
    requests: Resources = NOTHING
    """What one replica asks for."""
    labels: Labels = ()
    """Of its pods."""
    scheduling: Scheduling = ANYWHERE
    """Of its pods, as the template says it; the zones of their volumes are not among it."""

    @property
    def ready(self) -> bool:
        return self.replicas > 0 and self.ready_replicas >= self.replicas
