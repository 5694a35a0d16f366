"""Many different sizes as a few: units of much the same size share one class of their mean size.

Column generation needs classes, and pods that a vertical autoscaler has sized have none. Planned with
mean sizes, a node is filled right on average; which unit goes where is then chosen by `realise` so
that each node is right exactly.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from ebbtide.core.packing.arrays import Arrays, Floats, Ints

_SLACK = 1.002
"""Planned size over mean size: what choosing among the units of a class cannot quite make up for."""


@dataclass(frozen=True, slots=True)
class Clusters:
    arrays: Arrays
    """Classes of mean size."""
    members: list[Ints]
    """For each, the true class of every unit in it."""


def clustered(arrays: Arrays, most: int) -> Clusters:
    """About `most` clusters; units under different rules are never in one."""
    members: list[Ints] = []
    alike = _alike(arrays)
    for kinds in alike:
        units = np.repeat(kinds, arrays.counts[kinds].astype(np.int64))
        share = max(1, round(most * len(units) / arrays.counts.sum()))
        members.extend(_split(arrays.parts, units, share))
    size = np.array([np.ceil(arrays.size[units].mean(axis=0) * _SLACK) for units in members])
    size[:, 2] = [arrays.size[units[0], 2] for units in members]
    # Rounded up, the mean of one unit must still fit where the unit does.
    size = np.minimum(size, [arrays.size[units].max(axis=0) for units in members])
    value = arrays.parts[0] / arrays.size[0]
    coarse = Arrays(
        size=size,
        counts=np.array([float(len(units)) for units in members]),
        limit=np.array([_limit(arrays, units) for units in members]),
        worth=size @ value,
        parts=size * value,
        offer=arrays.offer,
        price=arrays.price,
        admitted=np.array([arrays.admitted[:, units].all(axis=1) for units in members]).T,
    )
    return Clusters(coarse, members)


def _limit(arrays: Arrays, units: Ints) -> float:
    """Units of a cluster that one node may hold: as many of each class in it as that class allows."""
    kinds, there = np.unique(units, return_counts=True)
    return float(np.minimum(arrays.limit[kinds], there).sum())


def _alike(arrays: Arrays) -> list[Ints]:
    """Classes in groups: of one number of pods a unit, barred from the same types by more than size."""
    fits = np.all(arrays.size <= arrays.offer[:, np.newaxis, :], axis=2)
    barred = np.packbits(fits & ~arrays.admitted, axis=0).T
    limited = (arrays.limit < arrays.counts).tolist()
    found: dict[tuple[float, bool, bytes], list[int]] = {}
    for index, slots in enumerate(arrays.size[:, 2].tolist()):
        found.setdefault((slots, limited[index], barred[index].tobytes()), []).append(index)
    return [np.array(kinds) for kinds in found.values()]


def _split(parts: Floats, units: Ints, most: int) -> list[Ints]:
    """Halve, again and again, the part in which sizes differ most."""
    ties = count()
    heap = [_entry(parts, units, next(ties))]
    while len(heap) < most and heap[0][0] < 0:
        _, _, widest, resource = heapq.heappop(heap)
        order = widest[np.argsort(parts[widest, resource], kind="stable")]
        for half in (order[: len(order) // 2], order[len(order) // 2 :]):
            heapq.heappush(heap, _entry(parts, half, next(ties)))
    return [units for _, _, units, _ in heap]


def _entry(parts: Floats, units: Ints, tie: int) -> tuple[float, int, Ints, int]:
    spread = parts[units].var(axis=0) * len(units)
    return (-float(spread.sum()), tie, units, int(spread.argmax()))
