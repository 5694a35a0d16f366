"""Column generation: find the nodes worth having, and how many of each a fluid plan would take.

The master values the classes, pricing finds nodes that are worth more than they cost at those values,
and so on until there are none or time is up.
"""

from __future__ import annotations

import highspy
import numpy as np

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.fill import Arrays, Bools, Floats, Ints
from ebbtide.core.packing.pricing import Ask, Columns, Pricer, cheapest, groups

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


_REPLACED = 150
_PRIMAL = 4


class Master:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._price = arrays.price
        self._open: Bools = np.zeros(0, dtype=bool)
        self._seen: set[tuple[int, bytes]] = set()
        self.columns = Columns(np.zeros(0, dtype=np.int64), np.zeros((0, arrays.kinds)))
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        # After new columns the last basis is still a plan, so the primal method goes on from it; its
        # perturbation costs more rounds here than it saves.
        self._solver.setOptionValue("simplex_strategy", _PRIMAL)
        self._solver.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0)
        endless = np.full(arrays.kinds, highspy.kHighsInf)
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        starts = np.zeros(arrays.kinds, dtype=np.int32)
        self._solver.addRows(arrays.kinds, arrays.counts, endless, 0, starts, none, nothing)

    def add(self, columns: Columns) -> int:
        """Take in the columns that are new; how many those were."""
        new = [index for index in range(len(columns)) if self._is_new(columns, index)]
        if not new:
            return 0
        added = columns[np.array(new)]
        row, kind = np.nonzero(added.patterns)
        starts = np.searchsorted(row, np.arange(len(new))).astype(np.int32)
        zero, endless = np.zeros(len(new)), np.full(len(new), highspy.kHighsInf)
        price, entries = self._price[added.types], added.patterns[row, kind]
        self._solver.addCols(len(new), price, zero, endless, len(row), starts, kind.astype(np.int32), entries)
        self.columns = Columns(
            np.concatenate([self.columns.types, added.types]),
            np.concatenate([self.columns.patterns, added.patterns]),
        )
        self._open = np.concatenate([self._open, np.ones(len(new), dtype=bool)])
        return len(new)

    def demand(self, counts: Floats) -> None:
        """Ask for these counts from now on."""
        for row, count in enumerate(counts.tolist()):
            self._solver.changeRowBounds(row, count, highspy.kHighsInf)

    def confine(self, counts: Floats, value: Floats) -> None:
        """Ask for these counts, and replace the columns that hold more by what they can hold of them.

        A column that holds more than is left looks cheaper to the master than it is.
        """
        self.demand(counts)
        over = np.flatnonzero(self._open & (self.columns.patterns > counts).any(axis=1))
        for index in over.tolist():
            self._solver.changeColBounds(index, 0.0, 0.0)
        self._open[over] = False
        wide = self.columns[over]
        worth = (wide.patterns @ value) / self._price[wide.types]
        best = wide[np.argsort(-worth, kind="stable")[:_REPLACED]]
        self.add(cheapest(self._arrays, Columns(best.types, np.minimum(best.patterns, counts))))
        # No class may be left without a column, or the master has no answer.
        bare = np.flatnonzero((counts > 0) & ~self.columns.patterns[self._open].any(axis=0))
        ones = np.zeros((len(bare), len(counts)))
        ones[np.arange(len(bare)), bare] = 1.0
        self.add(cheapest(self._arrays, Columns(np.zeros(len(bare), dtype=np.int64), ones)))

    def solve(self) -> tuple[Floats, Floats]:
        """How many of each column, and the value of one unit of each class."""
        self._solver.run()
        solution = self._solver.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)

    def _is_new(self, columns: Columns, index: int) -> bool:
        key = (int(columns.types[index]), columns.patterns[index].tobytes())
        if key in self._seen:
            return False
        self._seen.add(key)
        return True
