"""A bound that knows which classes may use which types.

The fluid bound has one price for a milli-CPU, wherever it is. Where rules keep classes apart that is far
too low: memory that is left over in nodes of one kind is of no use to pods that may not go there. Here each
type has prices of its own, which together make up no more than a node of it costs, and a class is worth
what it takes of the cheapest type that it may use. So no node holds more than it costs, whatever its type;
the linear programme only finds the prices at which that proves most.
"""

from __future__ import annotations

import highspy
import numpy as np

from ebbtide.core.packing.fill import RESOURCES, Arrays, Floats, Ints

_SECONDS_A_PAIR = 1.5e-5
"""What the programme takes for a class and a type that it may use, on a slow machine."""
_MOST_STEPS = 4_000
"""Of the simplex method: a number and not a time, so the same input has the same bound. Cut short, its
prices still prove something."""


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
