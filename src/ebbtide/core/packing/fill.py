"""Greedy fills: one node of every type at once, in several orders of the classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbtide.core.packing.problem import PackingProblem

_ALMOST = 1e-9


def fill(arrays: Arrays, types: Ints, orders: Ints, most: Floats) -> Floats:
    """Patterns: for each order, one for each of the types.

    `orders` has a row for each order; `most` is what a node may hold of each class.
    """
    ways, steps = orders.shape
    # One array a resource: reducing over a short last axis is several times as slow.
    room = [np.tile(arrays.offer[types, resource], (ways, 1)) for resource in range(RESOURCES)]
    patterns = np.zeros((ways, len(types), arrays.kinds))
    admitted = arrays.admitted[types]
    everywhere = bool(admitted.all())
    size = [arrays.size[orders, resource][:, :, np.newaxis] for resource in range(RESOURCES)]
    inverse = [1.0 / each for each in size]
    ceiling = most[orders][:, :, np.newaxis]
    way = np.arange(ways)
    for step in range(steps):
        take = room[0] * inverse[0][:, step]
        for resource in range(1, RESOURCES):
            np.minimum(take, room[resource] * inverse[resource][:, step], out=take)
        np.minimum(np.floor(take + _ALMOST, out=take), ceiling[:, step], out=take)
        if not everywhere:
            take *= admitted[:, orders[:, step]].T
        for resource in range(RESOURCES):
            room[resource] -= take * size[resource][:, step]
        patterns[way, :, orders[:, step]] = take
    return patterns.reshape(-1, arrays.kinds)


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RESOURCES = 3


@dataclass(frozen=True, slots=True)
class Arrays:
    """Rows are classes or types; columns of `size` and `offer` are CPU, memory, pod slots."""

    size: Floats
    counts: Floats
    limit: Floats
    worth: Floats
    """Value of a class at the fluid prices."""
    parts: Floats
    """The same by resource."""
    offer: Floats
    price: Floats
    admitted: Bools
    """Type by class."""

    @property
    def kinds(self) -> int:
        return len(self.counts)

    @property
    def excess(self) -> Floats:
        """Share of each type's price that the fluid bound would not pay; 0 for the best types."""
        result: Floats = 1.0 - self.offer @ (self.parts[0] / self.size[0]) / self.price
        return result

    def only(self, kinds: Ints, counts: Floats) -> Arrays:
        """The same with these classes alone, in these counts."""
        return Arrays(
            size=self.size[kinds],
            counts=counts,
            limit=self.limit[kinds],
            worth=self.worth[kinds],
            parts=self.parts[kinds],
            offer=self.offer,
            price=self.price,
            admitted=np.ascontiguousarray(self.admitted[:, kinds]),
        )


def arrays_of(problem: PackingProblem) -> Arrays:
    kinds, types = problem.kinds, problem.types
    size = np.array([(k.cpu_milli, k.memory_mib, k.slots) for k in kinds], dtype=float)
    counts = np.array(problem.counts, dtype=float)
    parts = size * np.array(problem.values)
    return Arrays(
        size=size,
        counts=counts,
        limit=np.array([float(kind.limit) for kind in kinds]),
        worth=parts.sum(axis=1),
        parts=parts,
        offer=np.array([(t.cpu_milli, t.memory_mib, t.pods) for t in types], dtype=float),
        price=np.array([type_.price for type_ in types]),
        admitted=_bits([kind.admitted for kind in kinds], len(types)),
    )


def _bits(masks: list[int], types: int) -> Bools:
    width = (types + 7) // 8
    raw = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), dtype=np.uint8)
    bits = np.unpackbits(raw.reshape(len(masks), width), axis=1, bitorder="little")[:, :types]
    return np.ascontiguousarray(bits.T.astype(bool))


_MOST = 40_000
"""Combinations to keep: more make the table slower to price than they make it better."""
_STEPS = 512
_INDEX_BITS = 20
_VALUE_BITS = 40


class Combos:
    """Combinations of up to three units. The number of classes stands for `no class`."""

    def __init__(self, arrays: Arrays) -> None:
        self.members = _members(arrays)
        padded = np.vstack([arrays.size, np.zeros((1, arrays.size.shape[1]))])
        sizes = padded[self.members].sum(axis=1)
        largest = arrays.offer.max(axis=0)
        fits = np.all(sizes <= largest, axis=1)
        self.members, sizes = self.members[fits], sizes[fits]
        self._edges = [_edges(sizes[:, resource]) for resource in range(2)]
        self._width = len(self._edges[1]) + 1
        self._height = len(self._edges[0]) + 1
        cells = [np.searchsorted(self._edges[resource], sizes[:, resource]) + 1 for resource in range(2)]
        flat = cells[0] * self._width + cells[1]
        order = np.argsort(flat, kind="stable")
        self.members, flat = self.members[order], flat[order]
        self._flat = flat
        self._barred: Bools = np.zeros(0, dtype=bool)
        self._narrow(np.zeros(arrays.kinds, dtype=bool))
        self.value: Floats = np.zeros(len(flat))
        self._best: Ints = np.zeros((self._height, self._width), dtype=np.int64)

    def _narrow(self, barred: Bools) -> None:
        """Leave out combinations with a barred class; as pods are placed, fewer and fewer remain."""
        if np.array_equal(barred, self._barred):
            return
        self._barred = barred
        self._numbers = np.flatnonzero(~np.append(barred, False)[self.members].any(axis=1))
        flat = self._flat[self._numbers]
        self._starts = np.flatnonzero(np.concatenate([[True], flat[1:] != flat[:-1]])[: len(flat)])
        self._cells = flat[self._starts]
        self._slim = [np.ascontiguousarray(self.members[self._numbers, place]) for place in range(3)]

    def revalue(self, value: Floats) -> None:
        """Take these values of the classes; a class with a negative one is used in no combination."""
        self._narrow(value < 0)
        padded = np.append(value, 0.0)
        first, second, third = self._slim
        worth = padded[first] + padded[second] + padded[third]
        self.value[self._numbers] = worth
        # Value and number in one integer, so a running maximum carries the combination along.
        scale = (1 << _VALUE_BITS) / (float(worth.max(initial=0.0)) or 1.0)
        codes = (worth * scale).astype(np.int64) << _INDEX_BITS | self._numbers
        best = np.zeros(self._height * self._width, dtype=np.int64)
        best[self._cells] = np.maximum.reduceat(codes, self._starts) if len(codes) else 0
        self._best = best.reshape(self._height, self._width)
        np.maximum.accumulate(self._best, axis=0, out=self._best)
        np.maximum.accumulate(self._best, axis=1, out=self._best)

    def best_in(self, room: Floats) -> tuple[Ints, Bools]:
        """For each row of CPU and memory the number of the best combination, and whether there is one."""
        row = np.searchsorted(self._edges[0], room[:, 0], side="right")
        column = np.searchsorted(self._edges[1], room[:, 1], side="right")
        codes = self._best[row, column]
        return codes & ((1 << _INDEX_BITS) - 1), codes >> _INDEX_BITS > 0


def _members(arrays: Arrays) -> Ints:
    """Singles, then pairs, then triples, each of the classes with the most to place that room allows."""
    kinds = arrays.kinds
    order = np.argsort(-arrays.worth * arrays.counts, kind="stable")
    pairing = np.sort(order[: int((_MOST) ** 0.5)])
    tripling = np.sort(order[: int((6 * _MOST) ** (1 / 3))])
    first, second = np.triu_indices(len(pairing))
    nothing = np.full(len(first), kinds)
    parts = [
        np.column_stack([np.arange(kinds), np.full(kinds, kinds), np.full(kinds, kinds)]),
        np.column_stack([pairing[first], pairing[second], nothing]),
    ]
    first, second = np.triu_indices(len(tripling))
    more = len(tripling) - second
    third = np.arange(more.sum()) - np.repeat(np.cumsum(more) - more, more) + np.repeat(second, more)
    first, second = np.repeat(first, more), np.repeat(second, more)
    parts.append(np.column_stack([tripling[first], tripling[second], tripling[third]]))
    return np.concatenate(parts)


def _edges(sizes: Floats) -> Floats:
    steps = np.unique(sizes)
    if len(steps) <= _STEPS:
        return steps
    return np.unique(np.quantile(sizes, np.linspace(0, 1, _STEPS), method="higher"))
