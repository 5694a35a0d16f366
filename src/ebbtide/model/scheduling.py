"""Where a pod may run: the part of a pod's specification that the fit rules understand.

What a reader meets and these values cannot say goes into `Scheduling.unsupported`; such a pod is never
moved and never placed by us.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Labels = tuple[tuple[str, str], ...]
"""Label pairs, sorted by key."""


class Operator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    key: str
    operator: Operator
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
class Stop:
    cause: StopCause
    about: str = ""
    """The pod that is left, or headroom."""

    @property
    def says(self) -> str:
        return _STOPS[self.cause].format(self.about)


_STOPS = {
    StopCause.AT_MAXIMUM: "every pool is at its maximum",
    StopCause.AT_LIMITS: "every pool is at its maximum or its limits",
    StopCause.NO_FIT: "{} fits no node that may be launched now",
}
