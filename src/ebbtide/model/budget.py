"""How many workers may be on their way out at the same time, by pool, by reason and by the hour.

Not to be mistaken for a PodDisruptionBudget (`ebbtide.model.pod.Budget`), which guards pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.schedule import CronWindow


class RemovalReason(StrEnum):
    """Why a worker is to go of our own will; what the cloud takes by itself has no budget."""

    IDLE = "idle"
    """A scale-down: the cluster idles."""
    EMPTY = "empty"
    """Consolidation: the node has no pods."""
    UNDERUTILISED = "underutilised"
    """Consolidation: the node's pods are moved to others first."""
    REBALANCE = "rebalance"
    """The cloud recommends to replace a spot instance."""
    UNHEALTHY = "unhealthy"
    """Repair: not Ready for too long, or a condition that was listed says that it is broken."""
    EXPIRED = "expired"
    """It is older than its pool allows."""
    DRIFTED = "drifted"
    """It is not what its pool would launch today."""


@dataclass(frozen=True, slots=True)
class RemovalBudget:
    """At most so many workers of the pool (or of the cluster) at a time, while its window is open."""

    nodes: int
    percent: bool = False
    """Whether `nodes` is a share of the workers: rounded up, as Karpenter does."""
    reasons: tuple[RemovalReason, ...] = ()
    """None means every reason."""
    window: CronWindow | None = None
    """None means always."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many more workers may be taken away now, and which budget says so."""

    count: int
    says: str
