"""What the oracle is asked about: one moment of a cluster, in its own words.

Nodes, pods, budgets and settings are the values of `ebbtide.model`, of which the oracle reads only the plain
fields and none of the properties that already interpret them. What operations mean for nodes is spelled out
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide.model.pod import Budget, Pod
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node


class By(StrEnum):
    """On whose behalf something is done to a node or a pod."""

    SCALE_DOWN = "scale-down"
    CONSOLIDATION = "consolidation"
    REBALANCE = "rebalance"
    INTERRUPTION = "interruption"


@dataclass(frozen=True, slots=True)
class Launching:
    """A node that is reserved or on its way, and not yet a worker."""

    pool: str
    zone: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a node: what it was launched as."""

    kind: str
    configuration: str = ""
    """The hash of what its pool launched when it was made; empty where nobody wrote it down."""
    runs: bool = True


@dataclass(frozen=True)
class Moment:
    """All that the rules about nodes need to know."""

    now: int
    settings: Settings
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[Budget, ...] = ()
    cpu: float | None = None
    players: Mapping[str, int] = field(default_factory=dict)
    whole: bool = True
    """Whether everything was seen."""

    going: frozenset[str] = frozenset()
    """Names of nodes that are on their way out, for any reason."""
    coming: tuple[Launching, ...] = ()
    alive: int = 0
    """Instances of ours that exist, with or without a node."""
    alive_in: Mapping[str, int] = field(default_factory=dict)
    """The same by pool."""

    launching: bool = False
    """An operation that adds nodes is open."""
    removing: bool = False
    """An operation that removes or empties nodes is open."""
    notices: int = 0
    """Spot notices that are open."""
    held: bool = False
    """Somebody paused removals, or something was set aside for a person."""

    pending_since: int = 0
    idle_since: int = 0
    last_scale_at: int = 0
    removal_backoff_until: int = 0
    launch_backoff_until: int = 0
    launch_backoff_about: frozenset[str] = frozenset()
    """Pools, and `zone/market/type`; none: every launch waits."""
    empty_since: Mapping[str, int] = field(default_factory=dict)
    """By node name."""
    last_consolidation_at: int = 0
    resting: frozenset[str] = frozenset()
    """Nodes that are left alone for a while."""
    machines: Mapping[str, Machine] = field(default_factory=dict)
    """By node name."""
    kinds_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The type of every machine that is alive, by pool."""
    unwell_since: Mapping[str, int] = field(default_factory=dict)
    """By node name: since when it was seen unwell without a break."""
    without_capacity: frozenset[str] = frozenset()
    """Offers (zone/market/type) for which the cloud had no capacity lately."""

    def on(self, node_name: str) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if pod.node_name == node_name)

    def named(self, node_name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == node_name), None)
