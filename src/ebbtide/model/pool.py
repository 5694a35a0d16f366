"""Pools: groups of nodes that Ebbtide may launch and remove, and the types each may launch."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.model.budget import RemovalBudget
from ebbtide.model.money import Price
from ebbtide.model.node import Market
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import Labels, Taint


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

    def takes_more(self, nodes: int) -> bool:
        """Whether it is below its maximum with so many."""
        return self.max_workers is None or nodes < self.max_workers

    def type_named(self, name: str) -> NodeType | None:
        return next((node_type for node_type in self.types if node_type.name == name), None)
