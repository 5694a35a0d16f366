"""Many different sizes as a few: units of much the same size share one class of their mean size.

Column generation needs classes, and pods that a vertical autoscaler has sized have none. Planned with
mean sizes, a node is filled right on average; which unit goes where is then chosen by `realise` so
each node is right exactly.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from ebbtide.core.packing.fill import Arrays, Floats, Ints

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


_TRIES = 3
_WIDTH = 160
"""Units of a cluster looked at for a pair."""
_WELL = 0.998
_BADLY = 0.97
"""Worth over planned worth that is good enough at once, and that is not worth making."""


@dataclass(frozen=True, slots=True)
class _Choice:
    worth: float
    drawn: list[tuple[int, int]]
    """Cluster and place in its pool."""


class Pools:
    """The units of each cluster that are not placed yet, in random order."""

    def __init__(self, arrays: Arrays, clusters: Clusters, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._worth = arrays.worth
        self._size = np.ascontiguousarray(arrays.size[:, :2])
        self._units = [self._rng.permutation(units) for units in clusters.members]
        self._left = [len(units) for units in self._units]
        self._spare = arrays.limit.copy()
        self._limited = bool((arrays.limit < arrays.counts).any())

    def make(self, room: Floats, clusters: list[int], planned: float) -> Ints | None:
        """Units for a node with this room, one of each cluster named; None if they would fill it badly."""
        best: _Choice | None = None
        for _ in range(_TRIES):
            choice = self._choose(room, [clusters[index] for index in self._rng.permutation(len(clusters))])
            if choice is not None and (best is None or choice.worth > best.worth):
                best = choice
                if choice.worth >= planned * _WELL:
                    break
        if best is None or best.worth < planned * _BADLY:
            return None
        # From the back, so taking one out does not move another that is to be taken.
        return np.array([self._take(*place) for place in sorted(best.drawn, reverse=True)])

    def _take(self, cluster: int, place: int) -> int:
        units, last = self._units[cluster], self._left[cluster] - 1
        units[place], units[last] = units[last], units[place]
        self._left[cluster] = last
        return int(units[last])

    def _choose(self, room: Floats, clusters: list[int]) -> _Choice | None:
        drawn: list[tuple[int, int]] = []
        for cluster in clusters[:-2]:
            drawn.extend(self._draw(cluster, drawn))
        kinds = np.array([self._units[cluster][place] for cluster, place in drawn], dtype=np.int64)
        cpu, memory = room[:2] - self._size[kinds].sum(axis=0)
        last = self._last(cpu, memory, clusters[-2:], drawn) if len(drawn) == len(clusters[:-2]) else None
        np.add.at(self._spare, kinds, 1.0)
        return None if last is None else _Choice(self._worth[kinds].sum() + last.worth, drawn + last.drawn)

    def _draw(self, cluster: int, drawn: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A random unit of the cluster that the node may still hold, if there is one."""
        start, left = int(self._rng.integers(self._left[cluster])), self._left[cluster]
        for step in range(left):
            place = (start + step) % left
            kind = self._units[cluster][place]
            if self._spare[kind] > 0 and (cluster, place) not in drawn:
                self._spare[kind] -= 1.0
                return [(cluster, place)]
        return []

    def _last(
        self, cpu: float, memory: float, clusters: list[int], drawn: list[tuple[int, int]]
    ) -> _Choice | None:
        """The one or two units, of these clusters, that fill this room best."""
        one, other = clusters[0], clusters[-1]
        if len(clusters) == 1:
            return self._single(cpu, memory, one)
        first, second = self._free(one, drawn), self._free(other, drawn)
        if not len(first) or not len(second):
            return None
        units, mates = self._units[one][first], self._units[other][second]
        fits = self._size[units, 0][:, np.newaxis] <= cpu - self._size[mates, 0]
        fits &= self._size[units, 1][:, np.newaxis] <= memory - self._size[mates, 1]
        if one == other:
            fits &= first[:, np.newaxis] != second
        if self._limited:
            fits &= (units[:, np.newaxis] != mates) | (self._spare[units] > 1)[:, np.newaxis]
        worth = np.where(fits, self._worth[units][:, np.newaxis] + self._worth[mates], -1.0)
        row, column = divmod(int(worth.argmax()), len(mates))
        if not fits[row, column]:
            return None
        places = [(one, int(first[row])), (other, int(second[column]))]
        return _Choice(float(worth[row, column]), places)

    def _single(self, cpu: float, memory: float, cluster: int) -> _Choice | None:
        units = self._units[cluster][: self._left[cluster]]
        fits = (self._size[units, 0] <= cpu) & (self._size[units, 1] <= memory)
        worth = np.where(fits, self._worth[units], -1.0)
        place = int(worth.argmax())
        return _Choice(float(worth[place]), [(cluster, place)]) if fits[place] else None

    def _free(self, cluster: int, drawn: list[tuple[int, int]]) -> Ints:
        places = np.arange(min(self._left[cluster], _WIDTH + len(drawn)))
        taken = [place for drawn_from, place in drawn if drawn_from == cluster]
        places = np.delete(places, [place for place in taken if place < len(places)]) if taken else places
        return places[self._spare[self._units[cluster][places]] > 0] if self._limited else places
