"""Packing with numpy and HiGHS: columns, rounding, then ruin and recreate until the deadline."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.packing.arrays import arrays_of
from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.coupled import coupled_bound
from ebbtide.core.packing.first_fit import first_fit
from ebbtide.core.packing.problem import Bin, Problem
from ebbtide.core.packing.ruin import ruin
from ebbtide.core.packing.solve import FEW, many, solve

_POOR = 1.05
_PROVING = 0.3
"""Share of the time that a better bound may take."""
_SOLVING = 0.8
"""Share of the time for a first plan where classes are too many to plan them well at one go."""


def tightened(problem: Problem, budget: Budget) -> Problem:
    """The same with a higher bound, where rules about types make the fluid one too low."""
    seconds = max(0.0, budget.left()) * _PROVING
    return replace(problem, bound=max(problem.bound, coupled_bound(arrays_of(problem), seconds)))


def improve(problem: Problem, budget: Budget, few: int = FEW) -> list[Bin]:
    """The cheapest bins found by the deadline."""
    arrays = arrays_of(problem)
    solving = budget.part(_SOLVING) if many(arrays, few) else budget
    bins, left = solve(arrays, arrays.counts, solving, few)
    bins.extend(first_fit(problem, left))
    if problem.cost(bins) > problem.bound * _POOR:
        # Cut short, a search may end with less than it takes no time to find.
        bins = min(bins, first_fit(problem, problem.counts), key=problem.cost)
    return ruin(problem, arrays, bins, budget)
