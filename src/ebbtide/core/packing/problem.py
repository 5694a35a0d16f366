"""The packing problem in the form the methods work on: numbered classes, numbered types, counts.

Three rules are left to keep at this stage: room, the types a class may use, and how many of it a node
may hold. `frame` has settled all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.packing.fluid import Vector
from ebbtide.core.packing.types import NodeType, Plan, PlannedNode, Unplaced

UNLIMITED = 1 << 30

Content = tuple[tuple[int, int], ...]
"""What one node holds: class numbers with their counts, in the order of the classes."""


@dataclass(frozen=True, slots=True)
class Bin:
    """So many equal nodes."""

    type: int
    content: Content
    times: int


@dataclass(frozen=True, slots=True)
class Kind:
    """One class of units: its size, how many a node may hold, and the types it may use as a bit set."""

    cpu_milli: int
    memory_mib: int
    slots: int
    limit: int
    admitted: int


@dataclass(frozen=True, slots=True)
class Problem:
    kinds: tuple[Kind, ...]
    names: tuple[tuple[str, ...], ...]
    types: tuple[NodeType, ...]
    """Undominated, cheapest first."""
    unplaced: tuple[Unplaced, ...]
    values: Vector
    bound: float

    @property
    def counts(self) -> list[int]:
        return [len(names) // kind.slots for names, kind in zip(self.names, self.kinds, strict=True)]

    def cost(self, bins: Sequence[Bin]) -> float:
        return sum(self.types[each.type].price * each.times for each in bins)

    def cheapest_for(self, content: Content, at_most: int) -> int:
        """The cheapest type that holds this content, which type `at_most` is known to do."""
        cpu_milli = sum(self.kinds[index].cpu_milli * count for index, count in content)
        memory_mib = sum(self.kinds[index].memory_mib * count for index, count in content)
        slots = sum(self.kinds[index].slots * count for index, count in content)
        admitted = -1
        for index, _ in content:
            admitted &= self.kinds[index].admitted
        for number in range(at_most):
            offer = self.types[number]
            holds = offer.cpu_milli >= cpu_milli and offer.memory_mib >= memory_mib and offer.pods >= slots
            if holds and admitted >> number & 1:
                return number
        return at_most

    def plan(self, bins: Sequence[Bin]) -> Plan:
        nodes = tuple(self._nodes(bins))
        cost = self.cost(bins)
        # Rounding of sums must not put a cost below its own bound.
        return Plan(nodes, cost, min(self.bound, cost), self.unplaced)

    def _nodes(self, bins: Sequence[Bin]) -> Iterator[PlannedNode]:
        taken = [0] * len(self.kinds)
        for each in bins:
            for _ in range(each.times):
                pods: list[str] = []
                for index, count in each.content:
                    start = taken[index]
                    taken[index] = start + count * self.kinds[index].slots
                    pods.extend(self.names[index][start : taken[index]])
                yield PlannedNode(self.types[each.type], tuple(pods))
