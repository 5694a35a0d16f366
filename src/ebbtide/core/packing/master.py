"""The master programme: how many nodes of each known column, for the least money.

A linear programme kept in HiGHS between rounds, so each starts from the last basis.
"""

from __future__ import annotations

import highspy
import numpy as np

from ebbtide.core.packing.arrays import Arrays, Bools, Floats
from ebbtide.core.packing.pricing import Columns, cheapest

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
