"""From a fluid plan to whole nodes, by diving: take what is whole, then ask again for the rest.

Each step fixes the whole parts of the master's answer, or where there are none its largest fractions,
and solves the master again for the pods left, with new columns made for just those.
"""

from __future__ import annotations

import numpy as np

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.columns import Generator
from ebbtide.core.packing.fill import Floats, Ints
from ebbtide.core.packing.pricing import Columns

_SURE = 0.5
"""A fraction of this size is taken for a whole node, if what it was to hold is all still there."""
_WASTE = 0.02
_ALMOST = 1e-6

Fixed = tuple[int, Floats, int]
"""A type, what it holds, and how many such nodes."""


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
