"""Nodes for some classes in some counts, by columns or, where sizes are too many, by clusters."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.clusters import Pools, clustered
from ebbtide.core.packing.columns import Generator
from ebbtide.core.packing.fill import Arrays, Floats, Ints
from ebbtide.core.packing.pricing import cheapest
from ebbtide.core.packing.problem import Bin
from ebbtide.core.packing.rounding import dive

FEW = 100
"""Classes that the master still handles one by one."""
_CLUSTERS = 40
_UNITS_EACH = 8
"""Units of a cluster, on average: with fewer there is no choice among them."""
_GENERATING = 0.6
"""Share of the time spent on columns, before they are rounded to nodes."""
_MANY_EACH = 12
_PLANNING = 0.5
"""Share of the time spent on clusters, before units are chosen from them and the rest is planned."""


def solve(arrays: Arrays, counts: Floats, budget: Budget, few: int = FEW) -> tuple[list[Bin], list[int]]:
    """Nodes for these counts, and what is left over when the time is up.

    Clusters are used while more than a `few` classes are left.
    """
    bins: list[Bin] = []
    left = counts.copy()
    while (kinds := np.flatnonzero(left)).size and budget.left() > 0:
        rest = arrays.only(kinds, left[kinds])
        made = (_by_clusters if many(rest, few) else _by_columns)(rest, kinds, budget)
        if not made:
            break
        for each in made:
            for index, count in each.content:
                left[index] -= count * each.times
        bins.extend(made)
    return bins, [int(count) for count in left]


def many(arrays: Arrays, few: int) -> bool:
    """Whether classes are too many to plan one by one; they may be more if each has many units."""
    return arrays.kinds > (4 * few if arrays.counts.mean() > _MANY_EACH else few)


def _by_columns(arrays: Arrays, kinds: Ints, budget: Budget) -> list[Bin]:
    generator = Generator(arrays, budget.seed)
    generator.generate(budget.part(_GENERATING))
    columns, times = dive(generator, arrays.counts, budget)
    columns = cheapest(arrays, columns)
    return [
        Bin(number, tuple((int(kinds[at]), int(pattern[at])) for at in np.flatnonzero(pattern)), count)
        for number, pattern, count in zip(
            columns.types.tolist(), columns.patterns, times.tolist(), strict=True
        )
    ]


def _by_clusters(arrays: Arrays, kinds: Ints, budget: Budget) -> list[Bin]:
    """Nodes for most of these units; those that would fill a node badly are left over."""
    clusters = clustered(arrays, min(_CLUSTERS, int(arrays.counts.sum()) // _UNITS_EACH))
    coarse = clusters.arrays
    planning = budget.part(_PLANNING)
    generator = Generator(coarse, budget.seed)
    generator.generate(planning.part(_GENERATING))
    columns, times = dive(generator, coarse.counts, planning)
    pools = Pools(arrays, clusters, budget.seed)
    bins: list[Bin] = []
    nodes = np.random.default_rng(budget.seed).permutation(np.repeat(np.arange(len(columns)), times))
    for node in nodes.tolist():
        if budget.left() <= 0:
            break
        pattern, number = columns.patterns[node], int(columns.types[node])
        of = np.repeat(np.arange(coarse.kinds), pattern.astype(np.int64)).tolist()
        made = pools.make(arrays.offer[number], of, float(pattern @ coarse.worth))
        if made is not None:
            content = tuple(sorted(Counter(kinds[made].tolist()).items()))
            bins.append(Bin(number, content, 1))
    return bins
