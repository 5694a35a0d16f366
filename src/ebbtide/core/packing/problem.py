"""The packing problem in the form the methods work on: numbered classes, numbered types, counts.

Three rules are left to keep at this stage: room, the types a class may use, and how many of it a node
may hold. `frame` has settled all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.packing.fluid import Vector
from ebbtide.core.packing.types import Item, NodeType, Plan, PlannedNode, Pod, Rules, Unplaced

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


@dataclass(frozen=True, slots=True)
class _Unit:
    cpu_milli: int
    memory_mib: int
    slots: int
    rules: Rules


def group(pods: Iterable[Pod]) -> tuple[Item, ...]:
    """The classes of these pods, in the order in which each first appears."""
    names: dict[_Unit, list[str]] = {}
    for unit, members in _units(pods):
        names.setdefault(unit, []).extend(members)
    return tuple(
        Item(unit.cpu_milli, unit.memory_mib, tuple(members), unit.slots, unit.rules)
        for unit, members in names.items()
    )


def _units(pods: Iterable[Pod]) -> list[tuple[_Unit, list[str]]]:
    joined: dict[str, list[Pod]] = {}
    units: list[tuple[_Unit, list[str]]] = []
    for pod in pods:
        if pod.together is None:
            units.append((_Unit(pod.cpu_milli, pod.memory_mib, 1, pod.rules), [pod.name]))
        else:
            joined.setdefault(pod.together, []).append(pod)
    for members in joined.values():
        units.append((_join(members), [pod.name for pod in members]))
    return units


def _join(members: list[Pod]) -> _Unit:
    rules = members[0].rules
    for pod in members[1:]:
        rules = both_of(rules, pod.rules)
    cpu_milli = sum(pod.cpu_milli for pod in members)
    memory_mib = sum(pod.memory_mib for pod in members)
    return _Unit(cpu_milli, memory_mib, len(members), rules)


def both_of(one: Rules, other: Rules) -> Rules:
    """Rules that hold both: a unit may go only where each of its pods may."""
    return Rules(
        types=_intersection(one.types, other.types),
        zones=_intersection(one.zones, other.zones),
        max_per_node=_least(one.max_per_node, other.max_per_node),
        max_skew=_least(one.max_skew, other.max_skew),
        zone_counts=one.zone_counts or other.zone_counts,
    )


def _intersection(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def undominated(types: Sequence[NodeType], admits: Sequence[int]) -> list[int]:
    """Indices of the types worth keeping, cheapest first.

    `admits` has one bit set a type: the classes that may run on it. A type is left out only for one
    that admits all it does.
    """
    order = sorted(range(len(types)), key=lambda index: _rank(types[index]))
    kept: list[int] = []
    for index in order:
        mine, admitted = types[index], admits[index]
        if admitted and not any(
            admits[other] & admitted == admitted and _covers(types[other], mine) for other in kept
        ):
            kept.append(index)
    return kept


def _rank(type_: NodeType) -> tuple[float, int, int, int]:
    # What dominates another comes before it: cheaper, or at one price the larger.
    return (type_.price, -type_.cpu_milli, -type_.memory_mib, -type_.pods)


def _covers(large: NodeType, small: NodeType) -> bool:
    return (
        large.cpu_milli >= small.cpu_milli
        and large.memory_mib >= small.memory_mib
        and large.pods >= small.pods
        and large.price <= small.price
    )
