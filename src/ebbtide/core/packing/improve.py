"""Packing with numpy and HiGHS: columns, rounding, then ruin and recreate until the deadline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.coupled import coupled_bound
from ebbtide.core.packing.fill import Arrays, Floats, arrays_of
from ebbtide.core.packing.plain import first_fit
from ebbtide.core.packing.problem import Bin, Problem
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


_PATIENCE = 6
"""Rounds without gain after which more rarely help."""
_LEAST, _MOST = 60, 300
"""Units to plan again in a round: fewer leave no choice, more are no better planned than before."""
_CLOSE = 1e-4
_ROUND = 0.3
"""Share of the time left that one round may take."""


def ruin(problem: Problem, arrays: Arrays, bins: list[Bin], budget: Budget) -> list[Bin]:
    """Bins at most as expensive as these; until the deadline, or until nothing is gained any more."""
    rng = np.random.default_rng(budget.seed)
    idle = 0
    while idle < _PATIENCE and budget.left() > 0 and problem.cost(bins) > problem.bound * (1 + _CLOSE):
        kept, counts = _taken_out(problem, arrays, bins, rng)
        part = budget.part(_ROUND)
        seeded = replace(part, seed=int(rng.integers(1 << 30)))
        made, left = solve(arrays, counts, seeded, FEW)
        again = [*kept, *made, *first_fit(problem, left)]
        idle += 1
        if problem.cost(again) < problem.cost(bins) * (1 - 1e-9):
            bins, idle = again, 0
    return bins


def _taken_out(
    problem: Problem, arrays: Arrays, bins: list[Bin], rng: np.random.Generator
) -> tuple[list[Bin], Floats]:
    """The bins that stay, and the counts of the units on the others."""
    worth = arrays.worth.tolist()
    fill = [
        sum(worth[index] * count for index, count in each.content) / problem.types[each.type].price
        for each in bins
    ]
    # A little disorder, so the same nodes are not tried again and again.
    order = np.argsort(np.array(fill) + rng.normal(0.0, 0.02, len(fill)))
    goal = int(rng.integers(_LEAST, _MOST))
    counts = np.zeros(arrays.kinds)
    out = dict.fromkeys(range(len(bins)), 0)
    for place in order.tolist():
        each = bins[place]
        held = sum(count for _, count in each.content)
        out[place] = min(each.times, max(1, int((goal - counts.sum()) // held)))
        for index, count in each.content:
            counts[index] += count * out[place]
        if counts.sum() >= goal:
            break
    kept = [
        Bin(each.type, each.content, each.times - out[place])
        for place, each in enumerate(bins)
        if each.times > out[place]
    ]
    return kept, counts
