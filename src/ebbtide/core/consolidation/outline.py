"""What a set of nodes costs for these pods at the least: from sizes and prices, before any pod is placed.

Two bounds. The fluid bound takes pods for a fluid; it is the one that reports name. The bound in whole pods
counts: if every pod asks for at least 350m, a node with 7550m holds no more than 21 of them. Where even that
allows nothing cheaper than what is paid, no draft needs to be made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from math import gcd, lcm

from ebbtide.core.packing.problem import Vector, fluid_bound, fluid_prices

Size = tuple[int, int, int]
"""CPU in milli, memory in MiB, pod slots."""
_STEP = Decimal("0.000001")
_RESOURCES = range(3)
MOST_UNITS = 12
"""Amounts of a resource that pods are counted in, the most common first."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node that is there, by its numbers."""

    price: Decimal
    share: Size
    """How much of it may be used."""
    free: Size
    """The same without what comes with every node."""
    load: Size
    """What its other pods ask for."""
    removable: bool

    @property
    def offer(self) -> Size:
        """All that may be on it, apart from what comes with every node: more than its share where more is
        there already."""
        free, load = self.free, self.load
        return max(free[0], load[0], 1), max(free[1], load[1], 1), max(free[2], load[2], 1)


Offer = tuple[Size, Decimal]
"""Room and price of a node."""


@dataclass(frozen=True)
class Outline:
    places: tuple[Place, ...]
    offers: tuple[Offer, ...]
    """Nodes that could be launched."""
    sizes: Mapping[Size, int]
    """How many pods ask for so much, apart from those that come with every node."""

    @cached_property
    def cost(self) -> Decimal:
        return sum((place.price for place in self.places), Decimal(0))

    @cached_property
    def demand(self) -> Vector:
        loads = [place.load for place in self.places]
        cpu, memory, count = (sum(load[resource] for load in loads) for resource in _RESOURCES)
        return float(cpu), float(memory), float(count)

    @cached_property
    def values(self) -> Vector:
        """What a milli-CPU, a MiB and a pod slot are worth at the least, by the fluid bound."""
        if not self._known or not self.demand[2]:
            return (0.0, 0.0, 0.0)
        pairs = sorted(self._known)
        offers = [(float(size[0]), float(size[1]), float(size[2])) for size, _ in pairs]
        return fluid_prices(offers, [float(price) for _, price in pairs], self.demand)

    @cached_property
    def bound(self) -> Decimal:
        """No set of these nodes and offers that leaves the unmovable where they are costs less."""
        fluid = fluid_bound(self.values, self.demand)
        for place in self.places:
            if not place.removable:
                fluid += max(0.0, float(place.price) - self.worth(place.offer))
        return min(self.cost, Decimal(fluid).quantize(_STEP, ROUND_FLOOR))

    def worth(self, size: Size) -> float:
        cpu, memory, slot = self.values
        return size[0] * cpu + size[1] * memory + size[2] * slot

    @property
    def may_cost_less(self) -> bool:
        """Whether whole pods leave room for a set of nodes that costs less; where not, none can be found."""
        return all(least < self.cost for least in self._in_whole_pods())

    def _in_whole_pods(self) -> Iterator[Decimal]:
        """Lower bounds, one for each unit: a pod counts as often as the unit goes into what it asks for, and
        so does a node for what it offers. What is rounded off a node is never less than what is rounded off
        its pods. Costs are sums of prices, so a bound is rounded up to what such a sum can be."""
        scale = lcm(*(price.as_integer_ratio()[1] for _, price in self._known))
        prices = [(size, int(price * scale)) for size, price in self._known]
        step = gcd(*(price for _, price in prices))
        for resource in _RESOURCES:
            for unit in self._units(resource):
                count = sum(size[resource] // unit * often for size, often in self.sizes.items())
                steps = (
                    -(-count * price // (size[resource] // unit * step))
                    for size, price in prices
                    if size[resource] >= unit
                )
                yield Decimal(min(steps, default=0) * step) / scale

    def _units(self, resource: int) -> list[int]:
        amounts: Counter[int] = Counter()
        for size, often in self.sizes.items():
            if size[resource] > 0:
                amounts[size[resource]] += often
        return [amount for amount, _ in amounts.most_common(MOST_UNITS)]

    @cached_property
    def _known(self) -> frozenset[Offer]:
        return frozenset((place.offer, place.price) for place in self.places) | frozenset(self.offers)
