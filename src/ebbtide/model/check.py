"""One precondition of an action, and one node that was skipped."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum


class Gate(StrEnum):
    """The checks that every voluntary removal passes, whatever started it. The names are in the log."""

    NOT_PAUSED = "not paused"
    COMPLETE = "observation complete"
    HEALTHY = "cluster healthy"
    CPU_KNOWN = "CPU known"
    LOAD_NOT_HIGH = "load not high"
    WORKERS_MATCHED = "workers matched"
    MINIMUM_KEPT = "minimum kept"
    ZONE_KEPT = "zone kept"
    BUDGET_LEFT = "budget left"
    WITHIN_BUDGET = "within budget"
    PLAUSIBLE = "plausible"
    NO_POD_PENDING = "no pod pending"
    LOAD_FITS = "load fits the rest"
    POOL_WELL = "pool well"
    HEADROOM_KEPT = "headroom kept"


@dataclass(frozen=True, slots=True)
class Values:
    """What a check found, the limit it has, and the pod, node, pool, zone or operation it is about. Durations
    are in seconds."""

    found: float | None = None
    limit: float | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One precondition: a stable name, whether it held, a sentence with both values, and the values."""

    name: str
    passed: bool
    says: str
    values: Values | None = field(default=None, compare=False)
    """Not compared: a decision that an older version stored has none, and is still the same decision."""


class NodeCause(StrEnum):
    """Why a node is kept, or goes; the sentence next to it says so with names and numbers."""

    UNKNOWN = ""
    """Stored by a version that did not write it down."""
    NO_INSTANCE = "no_instance"
    """The cloud lists no instance of ours for it."""
    NOT_READY = "not_ready"
    GOING = "going"
    """Another operation or the cloud is removing it."""
    CORDONED = "cordoned"
    MARKED = "marked"
    """It carries the mark of another operation."""
    BACKED_OFF = "backed_off"
    """It could not be drained before, and is left alone for a while."""
    CHANGED = "changed"
    """It left the cluster, or is not the node it was."""
    LAUNCHING = "launching"
    """A scale-up is in progress that counts on it, or still follows it."""
    NO_POOL = "no_pool"
    """Its pool is not configured."""
    POOL_SLEEPS = "pool_sleeps"
    LAST_IN_ZONE = "last_in_zone"
    POOL_MINIMUM = "pool_minimum"
    MINIMUM = "minimum"
    BUDGET = "budget"
    POD_BLOCKS = "pod_blocks"
    """A pod on it may not be evicted."""
    POD_WAITS = "pod_waits"
    """A pod on it may not be evicted now."""
    NO_PLACE = "no_place"
    """A pod on it would fit nowhere else."""
    HEADROOM = "headroom"
    CHECK = "check"
    """A check of every removal does not hold."""
    TOO_YOUNG = "too_young"
    NOT_IDLE = "not_idle"
    """Not empty, idle or underused for long enough."""
    IN_USE = "in_use"
    """Too much of it is requested."""
    NO_PRICE = "no_price"
    """Its price is not known, or not in the currency of most nodes."""
    NO_REPLACEMENT = "no_replacement"
    """Nothing may be launched that could take its place."""
    NOTHING_CHEAPER = "nothing_cheaper"
    TAKES_IN = "takes_in"
    """Pods of other nodes are to move onto it."""
    FITS_ELSEWHERE = "fits_elsewhere"
    """It goes: its pods fit on others."""
    EMPTY = "empty"
    """It goes: it has been empty for long enough."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> NodeCause:
        """One that only a newer version knows."""
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class Why:
    """Why a node is kept: the cause, and the same for people."""

    cause: NodeCause
    says: str
    about: str = ""
    """The pod, pool, zone, operation or check it is about."""


def held_by(checks: Iterable[Check]) -> Why | None:
    """The first of these that does not hold."""
    failed = next((check for check in checks if not check.passed), None)
    return None if failed is None else Why(NodeCause.CHECK, failed.says, failed.name)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was considered for removal and skipped, and why."""

    node_name: str
    reason: str
    cause: NodeCause = field(default=NodeCause.UNKNOWN, compare=False)
    about: str = field(default="", compare=False)
    """As the values of a check: a decision that an older version stored has none, and is still the same."""


def refused(node_name: str, why: Why) -> Refusal:
    return Refusal(node_name, why.says, why.cause, why.about)
