"""Packing with numpy and HiGHS: columns, rounding, then ruin and recreate until the deadline."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.packing.arrays import arrays_of
from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.first_fit import first_fit
from ebbtide.core.packing.problem import Bin, Problem
from ebbtide.core.packing.solve import FEW, solve


def improve(problem: Problem, bins: Sequence[Bin], budget: Budget, few: int = FEW) -> list[Bin]:
    """The cheapest bins found by the deadline, never dearer than those given."""
    arrays = arrays_of(problem)
    found, left = solve(arrays, arrays.counts, budget, few)
    found.extend(first_fit(problem, left))
    return found if problem.cost(found) < problem.cost(bins) else list(bins)
