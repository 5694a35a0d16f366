"""One precondition of an action, and one node that was skipped."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was considered for removal and skipped, and why."""

    node_name: str
    reason: str
