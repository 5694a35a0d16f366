"""The packing problem in the form the methods work on: numbered classes, numbered types, counts; and the
fluid bound: what the pods would cost if they could be poured into nodes.

Three rules are left to keep at this stage: room, the types a class may use, and how many of it a node may
hold. `pack` has settled all others.

The bound is a linear programme with one row a resource and one variable a type. The simplex method on
three rows is short enough to be written out, so the bound needs no solver. The prices it ends with are
made feasible before use, which proves the bound whatever the arithmetic did on the way there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.packing.types import Item, NodeType, PlacementRules, Plan, PlannedNode, Pod, Unplaced

UNLIMITED = 1 << 30

Content = tuple[tuple[int, int], ...]
"""What one node holds: class numbers with their counts, in the order of the classes."""
Vector = tuple[float, float, float]

_ROWS = range(3)
_STEPS = 500
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Bin:
    """So many equal nodes."""

    type: int
    content: Content
    times: int


@dataclass(frozen=True, slots=True)
class UnitClass:
    """One class of units: its size, how many a node may hold, and the types it may use as a bit set."""

    cpu_milli: int
    memory_mib: int
    slots: int
    limit: int
    admitted: int


@dataclass(frozen=True, slots=True)
class PackingProblem:
    kinds: tuple[UnitClass, ...]
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
    rules: PlacementRules


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


def both_of(one: PlacementRules, other: PlacementRules) -> PlacementRules:
    """Rules that hold both: a unit may go only where each of its pods may."""
    return PlacementRules(
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


def fluid_prices(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> Vector:
    """Value of a milli-CPU, a MiB and a pod slot that make the bound as high as it can be.

    No type offers more than its price is worth at these values.
    """
    # Rows of one scale, so one tolerance serves them all.
    units = (max(o[0] for o in offers), max(o[1] for o in offers), max(o[2] for o in offers))
    values = _simplex([_over(offer, units) for offer in offers], prices, _over(demand, units))
    return _feasible(offers, prices, _over(values, units))


def _simplex(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> Vector:
    basis = _first_basis(offers, prices, demand)
    inverse, values = _priced(offers, prices, basis)
    steps = 0
    while (entering := _entering(offers, prices, values)) is not None and steps < _STEPS:
        basis[_leaving(inverse, _column(offers, entering), demand)] = entering
        inverse, values = _priced(offers, prices, basis)
        steps += 1
    return values


def _priced(
    offers: Sequence[Vector], prices: Sequence[float], basis: list[int]
) -> tuple[list[Vector], Vector]:
    inverse = _invert([_column(offers, index) for index in basis])
    return inverse, _times_left([_cost(prices, index) for index in basis], inverse)


def fluid_bound(values: Vector, demand: Vector) -> float:
    return sum(value * amount for value, amount in zip(values, demand, strict=True))


def _over(one: Vector, other: Vector) -> Vector:
    return (one[0] / other[0], one[1] / other[1], one[2] / other[2])


def _first_basis(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> list[int]:
    """One type in the amount that covers every row, and the surplus of the rows it more than covers."""

    def amount(index: int) -> float:
        return max(need / offer for need, offer in zip(demand, offers[index], strict=True))

    best = min(range(len(offers)), key=lambda index: amount(index) * prices[index])
    ratios = [need / offer for need, offer in zip(demand, offers[best], strict=True)]
    tight = ratios.index(max(ratios))
    return [best if row == tight else -1 - row for row in _ROWS]


def _column(offers: Sequence[Vector], index: int) -> Vector:
    """A type's offer, or for a negative index the surplus of one row."""
    if index >= 0:
        return offers[index]
    cpu, memory, slots = (-1.0 if index == -1 - row else 0.0 for row in _ROWS)
    return (cpu, memory, slots)


def _cost(prices: Sequence[float], index: int) -> float:
    return prices[index] if index >= 0 else 0.0


def _entering(offers: Sequence[Vector], prices: Sequence[float], values: Vector) -> int | None:
    """The column that most undercuts its price, as a share of it; a surplus when its value is negative."""
    best, index = 1e-9, None
    for row in _ROWS:
        if values[row] < -_TINY:
            return -1 - row
    for type_index, offer in enumerate(offers):
        worth = fluid_bound(values, offer) / prices[type_index] - 1.0
        if worth > best:
            best, index = worth, type_index
    return index


def _leaving(inverse: list[Vector], column: Vector, demand: Vector) -> int:
    steps = [fluid_bound(row, column) for row in inverse]
    ratios = [
        fluid_bound(row, demand) / step if step > _TINY else float("inf")
        for row, step in zip(inverse, steps, strict=True)
    ]
    return ratios.index(min(ratios))


def _feasible(offers: Sequence[Vector], prices: Sequence[float], values: Vector) -> Vector:
    a, b, c = (max(0.0, value) for value in values)
    worst = max(fluid_bound((a, b, c), offer) / price for offer, price in zip(offers, prices, strict=True))
    scale = max(1.0, worst)
    return (a / scale, b / scale, c / scale)


def _invert(columns: list[Vector]) -> list[Vector]:
    """Inverse of the 3×3 matrix with these columns, row by row."""
    (a, d, g), (b, e, h), (c, f, i) = columns
    cofactors = (e * i - f * h, c * h - b * i, b * f - c * e)
    determinant = a * cofactors[0] + d * cofactors[1] + g * cofactors[2] or _TINY
    rows = (
        cofactors,
        (f * g - d * i, a * i - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return [(x / determinant, y / determinant, z / determinant) for x, y, z in rows]


def _times_left(row: list[float], matrix: list[Vector]) -> Vector:
    x, y, z = (sum(row[k] * matrix[k][column] for k in _ROWS) for column in _ROWS)
    return (x, y, z)
