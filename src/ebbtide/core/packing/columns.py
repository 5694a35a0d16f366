"""Column generation: find the nodes worth having, and how many of each a fluid plan would take.

The master values the classes, pricing finds nodes that are worth more than they cost at those values,
and so on until there are none or time is up.
"""

from __future__ import annotations

import numpy as np

from ebbtide.core.packing.arrays import Arrays, Floats, Ints
from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.master import Master
from ebbtide.core.packing.pricing import Ask, Columns, Pricer, groups

_SMOOTHING = 0.3
"""Share of the last values kept: values that jump about make columns that are never used."""
_NEAR = 0.015
"""Types whose price exceeds the fluid value by no more than this are priced in every round."""
_MANY = 40
_ALL_EVERY = 3
_GROUPS_A_ROUND = 3
_IN_USE = 1e-6


class Generator:
    """The master and the pricing, with what they need to know of each other."""

    def __init__(self, arrays: Arrays, seed: int) -> None:
        self.arrays = arrays
        self.master = Master(arrays)
        self._pricer = Pricer(arrays, seed)
        excess = arrays.excess
        self._all = [types[np.argsort(excess[types], kind="stable")] for types in groups(arrays)]
        self._near = [types[excess[types] <= excess[types[0]] + _NEAR][:_MANY] for types in self._all]
        self._turn = 0
        self.master.add(_singles(arrays))

    def generate(self, budget: Budget) -> None:
        """Add columns until none pays or the time is up."""
        counts = self.arrays.counts
        usage, value = self.master.solve()
        smooth = (value + self.arrays.worth) / 2.0
        idle = 0
        while idle < _ALL_EVERY * self.turns and budget.left() > 0:
            if self.price(smooth, usage, counts):
                usage, value = self.master.solve()
                smooth, idle = _SMOOTHING * smooth + (1.0 - _SMOOTHING) * value, 0
            else:
                smooth, idle = value, idle + 1

    @property
    def turns(self) -> int:
        """Rounds of pricing in which every group has its turn."""
        return -(-len(self._all) // _GROUPS_A_ROUND)

    def price(self, value: Floats, usage: Floats, counts: Floats) -> int:
        """One round of pricing for what is left to place; how many columns are new."""
        most = np.minimum(counts, self.arrays.limit)
        columns = self.master.columns
        ask = Ask(value, most, columns[np.flatnonzero(usage > _IN_USE)])
        added = 0
        for group in range(min(len(self._all), _GROUPS_A_ROUND)):
            number = (self._turn * _GROUPS_A_ROUND + group) % len(self._all)
            near = self._turn // self.turns % _ALL_EVERY
            types = self._near[number] if near else self._all[number]
            added += self.master.add(self._pricer.price(types, ask))
        self._turn += 1
        return added


def _singles(arrays: Arrays) -> Columns:
    """Each class by itself on the type that is cheapest for it: the master is never without a plan."""
    fit = np.floor((arrays.offer[:, np.newaxis, :] / arrays.size).min(axis=2))
    fit = np.minimum(fit, np.minimum(arrays.limit, arrays.counts)) * arrays.admitted
    each = arrays.price[:, np.newaxis] / np.maximum(fit, 1e-9)
    types: Ints = each.argmin(axis=0)
    return Columns(types, np.diag(fit[types, np.arange(arrays.kinds)]))
