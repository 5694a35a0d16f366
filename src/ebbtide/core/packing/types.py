"""The values that go into the packer and come out of it, and what a search may use: time until a deadline,
chance from a seed, and a packer.

Sizes are whole milli-CPUs and MiB, so a plan is checked exactly. A price is per hour, in any one
currency: the packer adds and compares prices and never converts them. Time, chance and packer are handed
in, so one seed, one packer and enough time give one plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ebbtide.model.settings import Packer

CALLS_PER_SECOND = 100
"""Looks at a counting clock that make a second."""


@dataclass(frozen=True, slots=True)
class PlacementRules:
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
    rules: PlacementRules = field(default_factory=PlacementRules)
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
    rules: PlacementRules = field(default_factory=PlacementRules)

    def __post_init__(self) -> None:
        if self.cpu_milli < 0 or self.memory_mib < 0:
            raise ValueError(f"{self.names[:1]} has a negative request")
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


@dataclass(frozen=True, slots=True)
class Budget:
    clock: Callable[[], float]
    deadline: float
    seed: int = 0
    packer: Packer = Packer.HIGHS

    def left(self) -> float:
        return self.deadline - self.clock()

    def part(self, share: float) -> Budget:
        """A budget that ends when this share of what is left is used."""
        return replace(self, deadline=self.clock() + max(0.0, self.left()) * share)


class CountingClock:
    """A clock that moves on whenever it is looked at, for planning that can be repeated exactly."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self) -> float:
        self._calls += 1
        return self._calls / CALLS_PER_SECOND


class Dice:
    """A linear congruential generator: enough for a search, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 2 + 1) & _MASK

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1."""
        return self._next() * end >> _BITS

    def share(self) -> float:
        """A number from 0 up to 1."""
        return self._next() / (1 << _BITS)

    def _next(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
        return self._state >> (64 - _BITS)


_BITS = 32
_MASK = (1 << 64) - 1
