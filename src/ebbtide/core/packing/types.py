"""The values that go into the packer and come out of it.

Sizes are whole milli-CPUs and MiB, so a plan is checked exactly. A price is per hour, in any one
currency: the packer adds and compares prices and never converts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rules:
    """Where a pod may be placed, already worked out from taints, selectors and affinities."""

    types: frozenset[str] | None = None
    """Names of the node types it may use; None is any."""
    zones: frozenset[str] | None = None
    """Zones it may use; None is any."""
    max_per_node: int | None = None
    """At most so many of its class on one node; anti-affinity is 1."""
    max_skew: int | None = None
    """Largest difference of its class between two zones that it may use."""
    zone_counts: tuple[tuple[str, int], ...] = ()
    """How many of its class already run in each zone; they count for `max_skew`."""

    def __post_init__(self) -> None:
        for what, least in (("max_per_node", self.max_per_node), ("max_skew", self.max_skew)):
            if least is not None and least < 1:
                raise ValueError(f"{what} is {least}, and must be at least 1")


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    cpu_milli: int
    memory_mib: int
    rules: Rules = field(default_factory=Rules)
    together: str | None = None
    """Pods of one such key must share a node, and are packed as one."""


@dataclass(frozen=True, slots=True)
class Item:
    """A class: units of one size under one set of rules. A unit is one pod, or pods that stay together.

    `names` lists the pods unit by unit, `slots` of them for each.
    """

    cpu_milli: int
    memory_mib: int
    names: tuple[str, ...]
    slots: int = 1
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0:
            raise ValueError(f"{self.names[:1]} asks for less than nothing")
        if self.slots < 1 or len(self.names) % self.slots:
            raise ValueError(f"{len(self.names)} names do not make units of {self.slots}")

    @property
    def count(self) -> int:
        return len(self.names) // self.slots


@dataclass(frozen=True, slots=True)
class NodeType:
    """What one node of a type offers to pods, after what the system keeps for itself."""

    name: str
    cpu_milli: int
    memory_mib: int
    pods: int
    price: float
    zone: str | None = None

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.memory_mib, self.pods) < 1:
            raise ValueError(f"type {self.name} has no room")
        if not 0 < self.price < float("inf"):
            raise ValueError(f"type {self.name} has no price above zero")


@dataclass(frozen=True, slots=True)
class PlannedNode:
    type: NodeType
    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    pods: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Nodes and what they hold. No set of nodes for the placed pods costs less than `bound`.

    The bound treats pods as a fluid, so it is loose for few or large pods: a gap does not say that a
    cheaper plan exists.
    """

    nodes: tuple[PlannedNode, ...]
    cost: float
    bound: float
    unplaced: tuple[Unplaced, ...] = ()

    @property
    def gap(self) -> float:
        """Cost over the bound, as a share of the bound."""
        return self.cost / self.bound - 1.0 if self.bound > 0 else 0.0
