"""Pools: groups of nodes that Ebbtide may launch and remove, the types each may launch, and prices; how many
may leave at the same time, and spare room that is kept free. A price that is not known is None wherever
it may appear.

How many workers may be on their way out at the same time, by pool, by reason and by the hour. Not to be
mistaken for a PodDisruptionBudget (`ebbtide.model.pod.Budget`), which guards pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.pod import Labels, Resources, Taint
from ebbtide.model.snapshot import Market


@dataclass(frozen=True, slots=True)
class CronWindow:
    """Open from every time the cron line names in the zone, for the duration: `start <= now < end`."""

    cron: str
    zone: str
    duration_seconds: int


class RemovalReason(StrEnum):
    """Why a worker is to go of our own will; what the cloud takes by itself has no budget."""

    IDLE = "idle"
    """A scale-down: the cluster idles."""
    EMPTY = "empty"
    """Consolidation: the node has no pods."""
    UNDERUTILISED = "underutilised"
    """Consolidation: the node's pods are moved to others first."""
    REBALANCE = "rebalance"
    """The cloud recommends replacing a spot instance."""
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


@dataclass(frozen=True, slots=True)
class Headroom:
    cpu_milli: int
    memory_mib: int
    count: int = 1
    """Pods of that size for which there must be room, all at the same time."""
    pool: str = ""
    """Only room on nodes of this pool counts; empty for any pool without taints."""
    zones: tuple[str, ...] = ()
    """Only room in one of these zones counts; none for any zone."""
    window: CronWindow | None = None
    """None means always."""
    expected: str = ""
    """What is expected, of a headroom that a forecast asks for; empty for one of the configuration."""


@dataclass(frozen=True, slots=True)
class HeadroomSeen:
    """How much of one headroom there was at the last look."""

    says: str
    """The headroom in words."""
    wanted: int
    """0 while its window is closed, or while its pool sleeps."""
    there: int

    @property
    def missing(self) -> int:
        return self.wanted - self.there


@dataclass(frozen=True, slots=True)
class NodeType:
    name: str
    allocatable: Resources
    max_pods: int = 110
    price: Price | None = None
    spot_price: Price | None = None

    def price_in(self, market: Market) -> Price | None:
        return self.spot_price if market is Market.SPOT else self.price


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """How much all nodes of a pool may offer together; None is without a limit."""

    cpu_milli: int | None = None
    memory_mib: int | None = None

    def why_over(self, held: Resources) -> str:
        """The first limit that is exceeded, with both numbers; empty where none is."""
        if self.cpu_milli is not None and held.cpu_milli > self.cpu_milli:
            return f"{held.cpu_milli}m CPU, its limit is {self.cpu_milli}m"
        if self.memory_mib is not None and held.memory_mib > self.memory_mib:
            return f"{held.memory_mib} MiB memory, its limit is {self.memory_mib} MiB"
        return ""


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    types: tuple[NodeType, ...]
    zones: tuple[str, ...]
    market: Market = Market.ON_DEMAND
    on_demand_fallback: bool = True
    """For a spot pool: whether on-demand may be asked for after a definite "no capacity"."""
    min_workers: int = 0
    max_workers: int | None = None
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    budgets: tuple[RemovalBudget, ...] = ()
    expire_seconds: int = 0
    """Nodes that are older are replaced; 0 is never."""
    launch_hash: str = ""
    """Of all that a new node of it is launched with; an instance carries the one it was launched with."""
    may_be_empty: bool = False
    """It sleeps: not even one worker of it is kept. Set by policies, not by the configuration."""
    waking: bool = False
    """Somebody waits for it: what it lacks is launched at once. Set by policies, too."""
    weight: int = 0
    """Of pools that a pod could use, the one with the highest weight is launched from first."""
    limits: PoolLimits | None = None

    def takes_more(self, nodes: int) -> bool:
        """Whether it is below its maximum with so many."""
        return self.max_workers is None or nodes < self.max_workers

    def type_named(self, name: str) -> NodeType | None:
        for node_type in self.types:
            if node_type.name == name:
                return node_type
        return None


@dataclass(frozen=True, slots=True)
class Price:
    per_hour: Decimal
    currency: str
    source: str
    as_of: str = ""
    """The day the price was read, ISO 8601; empty where the source does not say."""
