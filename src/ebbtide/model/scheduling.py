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
