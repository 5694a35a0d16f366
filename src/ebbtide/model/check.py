"""One precondition of an action, and one node that was skipped."""

from __future__ import annotations

from dataclasses import dataclass
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
class Check:
    """One precondition: a stable name, whether it held, and a sentence with both values."""

    name: str
    passed: bool
    says: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was considered for removal and skipped, and why."""

    node_name: str
    reason: str
