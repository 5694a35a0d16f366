"""Packing with numpy and HiGHS: columns or, where sizes are too many, clusters; rounding by diving; then
ruin and recreate until the deadline.

Diving keeps the whole numbers of a fluid plan, then plans the rest again: each step fixes the whole parts
of the master's answer, or where there are none its largest fractions, and solves the master again for the
pods left, with new columns made for just those.

The coupled bound knows which classes may use which types. The fluid bound has one price for a milli-CPU,
wherever it is; where rules keep classes apart that is far too low, since memory that is left over in
nodes of one kind is of no use to pods that may not go there. Here each type has prices of its own, which
together make up no more than a node of it costs, and a class is worth what it takes of the cheapest type
that it may use. So no node holds more than it costs, whatever its type; the linear programme only finds
the prices at which that proves most.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import highspy
import numpy as np

from ebbtide.core.packing.clusters import Pools, clustered
from ebbtide.core.packing.columns import Columns, Generator, cheapest
from ebbtide.core.packing.fill import RESOURCES, Arrays, Floats, Ints, arrays_of
from ebbtide.core.packing.plain import first_fit
from ebbtide.core.packing.problem import Bin, PackingProblem
from ebbtide.core.packing.types import Budget

_POOR = 1.05
_PROVING = 0.6
"""Share of the time that a better bound may take."""
_SOLVING = 0.8
"""Share of the time for a first plan where classes are too many to plan them well at one go."""
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
_SURE = 0.5
"""A fraction of this size is taken for a whole node, if what it was to hold is all still there."""
_WASTE = 0.02
_ALMOST = 1e-6

Fixed = tuple[int, Floats, int]
"""A type, what it holds, and how many such nodes."""
_SECONDS_A_PAIR = 1.5e-5
"""What the programme takes for a class and a type that it may use, on a slow machine."""
_MOST_STEPS = 4_000
"""Of the simplex method: a number and not a time, so the same input has the same bound. Cut short, its
prices still prove something."""


def tightened(problem: PackingProblem, budget: Budget) -> PackingProblem:
    """The same with a higher bound, where rules about types make the fluid one too low."""
    seconds = max(0.0, budget.left()) * _PROVING
    return replace(problem, bound=max(problem.bound, coupled_bound(arrays_of(problem), seconds)))


def improve(problem: PackingProblem, budget: Budget, few: int = FEW) -> list[Bin]:
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


def ruin(problem: PackingProblem, arrays: Arrays, bins: list[Bin], budget: Budget) -> list[Bin]:
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
    problem: PackingProblem, arrays: Arrays, bins: list[Bin], rng: np.random.Generator
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


def dive(generator: Generator, counts: Floats, budget: Budget) -> tuple[Columns, Ints]:
    """Nodes for these counts, as columns with how many of each."""
    left = counts.copy()
    fixed: list[Fixed] = []
    value = generator.arrays.worth
    while left.any():
        generator.master.confine(left, value)
        usage, value = generator.master.solve()
        hurried = budget.left() <= 0
        if not hurried and generator.price(value, usage, left):
            usage, value = generator.master.solve()
        fixed.extend(fix(generator.master.columns, usage, value, left, hurried))
    columns = Columns(
        np.array([number for number, _, _ in fixed], dtype=np.int64),
        np.array([pattern for _, pattern, _ in fixed]).reshape(len(fixed), len(counts)),
    )
    return columns, np.array([times for _, _, times in fixed], dtype=np.int64)


def fix(columns: Columns, usage: Floats, value: Floats, left: Floats, hurried: bool) -> list[Fixed]:
    """The nodes to keep of this answer; what they hold is taken off `left`.

    In a hurry every fraction becomes a node, so few answers are needed.
    """
    whole = np.floor(usage + _ALMOST)
    fixed = _whole(columns, whole, left)
    if fixed and not hurried:
        return fixed
    part = usage - whole
    for index in np.argsort(-part, kind="stable").tolist():
        if fixed and part[index] < (_ALMOST if hurried else _SURE):
            break
        pattern = np.minimum(columns.patterns[index], left)
        lost = 1.0 - float(pattern @ value) / max(float(columns.patterns[index] @ value), 1e-12)
        if pattern.any() and (hurried or not fixed or lost < _WASTE):
            left -= pattern
            fixed.append((int(columns.types[index]), pattern, 1))
    return fixed


def _whole(columns: Columns, whole: Floats, left: Floats) -> list[Fixed]:
    fixed: list[Fixed] = []
    for index in np.flatnonzero(whole).tolist():
        pattern = columns.patterns[index]
        held = pattern > 0
        times = int(min(whole[index], (left[held] // pattern[held]).min()))
        if times:
            left -= times * pattern
            fixed.append((int(columns.types[index]), pattern, times))
    return fixed


def coupled_bound(arrays: Arrays, seconds: float) -> float:
    """No set of nodes for these classes costs less. 0, which proves nothing, where no rule keeps a class
    from a type that it fits, or where it would take longer than this."""
    fits = np.all(arrays.size <= arrays.offer[:, np.newaxis, :], axis=2)
    if not np.any(fits & ~arrays.admitted) or fits.sum() * _SECONDS_A_PAIR > seconds:
        return 0.0
    pairs = np.argwhere(arrays.admitted.T & fits.T)
    size = arrays.size.copy()
    # A request of nothing was rounded up to the least unit, which no bound may count on.
    size[:, :2][size[:, :2] <= 1.0] = 0.0
    unit = arrays.offer.max(axis=0)
    prices = _prices(arrays, size / unit, pairs) / unit
    paid = np.maximum((prices * arrays.offer).sum(axis=1), 1e-300)
    prices *= np.minimum(1.0, arrays.price / paid)[:, np.newaxis]
    worth = np.where(arrays.admitted & fits, prices @ size.T, np.inf).min(axis=0)
    return float(worth @ arrays.counts)


def _prices(arrays: Arrays, size: Floats, pairs: Ints) -> Floats:
    """For each type what a unit of each resource is worth there; units are those of the largest offer."""
    types, kinds = len(arrays.price), arrays.kinds
    columns = types * RESOURCES + kinds
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("simplex_iteration_limit", _MOST_STEPS)
    none, endless = np.zeros(0, dtype=np.int32), np.full(columns, highspy.kHighsInf)
    gain = np.concatenate([np.zeros(types * RESOURCES), -arrays.counts])
    solver.addCols(
        columns, gain, np.zeros(columns), endless, 0, np.zeros(columns, dtype=np.int32), none, np.zeros(0)
    )
    # A type's prices for all it offers are no more than it costs.
    offer = arrays.offer / arrays.offer.max(axis=0)
    first = np.arange(types * RESOURCES, dtype=np.int32)
    starts = np.arange(0, types * RESOURCES, RESOURCES, dtype=np.int32)
    lowest = np.full(types, -highspy.kHighsInf)
    solver.addRows(types, lowest, arrays.price, len(first), starts, first, offer.ravel())
    # A class is worth no more than what it takes of any type it may use.
    kind, type_ = pairs[:, 0], pairs[:, 1]
    where = type_[:, np.newaxis] * RESOURCES + np.arange(RESOURCES)
    index = np.column_stack([types * RESOURCES + kind, where]).astype(np.int32)
    value = np.column_stack([np.ones(len(pairs)), -size[kind]])
    starts = np.arange(0, index.size, RESOURCES + 1, dtype=np.int32)
    lowest = np.full(len(pairs), -highspy.kHighsInf)
    zero = np.zeros(len(pairs))
    solver.addRows(len(pairs), lowest, zero, index.size, starts, index.ravel(), value.ravel())
    solver.run()
    found: Floats = np.array(solver.getSolution().col_value[: types * RESOURCES])
    return np.maximum(found, 0.0).reshape(types, RESOURCES)
