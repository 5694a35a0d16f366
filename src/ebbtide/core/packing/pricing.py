"""New columns: nodes whose content is worth more, at the master's values, than the node costs.

Every round fills all types greedily in a few orders, adds the columns in use, takes a few units out of
each at random and fills the room with the best combination of the table. What pays is then checked
against every rule, so a column is always a node that could be launched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebbtide.core.packing.fill import Arrays, Bools, Combos, Floats, Ints, fill

_ORDERS = 7
_TRIES = 12
_TAKEN_OUT = 4
_LOOKED_AT = 400
_TAKEN = 25


@dataclass(frozen=True, slots=True)
class Columns:
    """Patterns, counts by class, with the type that each is a node of."""

    types: Ints
    patterns: Floats

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, which: Ints) -> Columns:
        return Columns(self.types[which], self.patterns[which])


def stacked(parts: list[Columns]) -> Columns:
    types = np.concatenate([part.types for part in parts])
    return Columns(types, np.concatenate([part.patterns for part in parts]))


@dataclass(frozen=True, slots=True)
class Ask:
    """What columns are wanted: at these values of the classes, with at most so many of each."""

    value: Floats
    most: Floats
    base: Columns
    least: float = 1.0 + 1e-7
    """Worth over price that a column must exceed."""


class Pricer:
    def __init__(self, arrays: Arrays, seed: int) -> None:
        self._arrays = arrays
        self._combos = Combos(arrays)
        self._rng = np.random.default_rng(seed)

    def price(self, types: Ints, ask: Ask) -> Columns:
        """Columns of these types, which must bar the same classes: the best, and the best for each class."""
        arrays = self._arrays
        usable = np.where((ask.most > 0) & _open(arrays, types), np.maximum(ask.value, 0.0), -1.0)
        self._combos.revalue(usable)
        starts = self._starts(types, usable, ask)
        room = arrays.offer[starts.types] - starts.patterns @ arrays.size
        worth = starts.patterns @ np.maximum(usable, 0.0)
        rows = np.repeat(np.arange(len(starts)), _TRIES)
        out, amount = self._taken_out(starts.patterns)
        # One class more, of no size and no value, stands for a try that takes nothing out.
        size = np.vstack([arrays.size, np.zeros((1, arrays.size.shape[1]))])
        room = room[rows] + (size[out] * amount[:, :, np.newaxis]).sum(axis=1)
        worth = worth[rows] - (np.append(np.maximum(usable, 0.0), 0.0)[out] * amount).sum(axis=1)
        best, any_ = self._combos.best_in(room)
        ratio = (worth + np.where(any_, self._combos.value[best], 0.0)) / arrays.price[starts.types[rows]]
        chosen = np.flatnonzero(ratio > ask.least)
        chosen = chosen[np.argsort(-ratio[chosen], kind="stable")][:_LOOKED_AT]
        patterns = np.zeros((len(chosen), arrays.kinds + 1))
        patterns[:, :-1] = starts.patterns[rows[chosen]]
        each = np.arange(len(chosen))
        for place in range(_TAKEN_OUT):
            patterns[each, out[chosen, place]] -= amount[chosen, place]
        for place in range(3):
            patterns[each, self._combos.members[best[chosen], place]] += any_[chosen]
        return self._checked(Columns(starts.types[rows[chosen]], patterns[:, :-1]), ask.most)

    def _starts(self, types: Ints, usable: Floats, ask: Ask) -> Columns:
        """Greedy fills by value for weight, the weight leaning to CPU or memory, and the columns in use."""
        arrays = self._arrays
        lean = np.linspace(0.15, 1.85, _ORDERS)[:, np.newaxis]
        cpu, memory, slot = arrays.parts.T
        weight = cpu * lean + memory * (2.0 - lean) + slot + 1e-12
        noise = np.exp(self._rng.normal(0.0, 0.15, weight.shape))
        wanted = int((usable > 0).sum())
        orders = np.argsort(-usable / weight * noise, axis=1, kind="stable")[:, :wanted]
        filled = Columns(np.tile(types, _ORDERS), fill(arrays, types, orders, ask.most))
        return stacked([filled, ask.base[np.flatnonzero(np.isin(ask.base.types, types))]])

    def _taken_out(self, patterns: Floats) -> tuple[Ints, Floats]:
        """For each pattern and try, up to a few classes to take out, and how many units of each."""
        held, counts = _entries(patterns)
        rows = np.repeat(np.arange(len(patterns)), _TRIES)
        held, counts = held[rows], counts[rows]
        order = np.argsort(self._rng.random(held.shape) + (counts == 0), axis=1)[:, :_TAKEN_OUT]
        out, there = np.take_along_axis(held, order, axis=1), np.take_along_axis(counts, order, axis=1)
        amount = np.floor(self._rng.random(out.shape) * 2.0 + 1.0)
        # The first try of each takes nothing out, the next one class, and so on round.
        tries = np.tile(np.arange(_TRIES) % (_TAKEN_OUT + 1), len(patterns))
        amount *= np.arange(out.shape[1]) < tries[:, np.newaxis]
        return out, np.minimum(amount, there)

    def _checked(self, columns: Columns, most: Floats) -> Columns:
        patterns = columns.patterns
        held = np.all(patterns <= most, axis=1) & patterns.any(axis=1)
        held &= np.all(patterns @ self._arrays.size <= self._arrays.offer[columns.types], axis=1)
        columns = columns[np.flatnonzero(held)]
        if not len(columns):
            return columns
        has = columns.patterns > 0
        first = has.argmax(axis=0)[has.any(axis=0)]
        return columns[np.union1d(np.arange(min(_TAKEN, len(columns))), first)]


def cheapest(arrays: Arrays, columns: Columns) -> Columns:
    """The same patterns, each on the cheapest type that may hold it; empty ones are left out."""
    columns = columns[np.flatnonzero(columns.patterns.any(axis=1))]
    fits = np.all((columns.patterns @ arrays.size)[:, np.newaxis, :] <= arrays.offer, axis=2)
    fits &= ~((columns.patterns > 0) @ ~arrays.admitted.T)
    return Columns(np.where(fits, arrays.price, np.inf).argmin(axis=1), columns.patterns)


def _open(arrays: Arrays, types: Ints) -> Bools:
    """Classes that are not barred from these types by a rule; one too large is kept out by its size."""
    fits = np.all(arrays.size <= arrays.offer[types][:, np.newaxis, :], axis=2)
    result: Bools = ~np.any(fits & ~arrays.admitted[types], axis=0)
    return result


def _entries(patterns: Floats) -> tuple[Ints, Floats]:
    """The classes in each pattern and their counts, in rows padded to one length."""
    row, kind = np.nonzero(patterns)
    first = np.searchsorted(row, np.arange(len(patterns)))
    place = np.arange(len(row)) - first[row]
    width = max(_TAKEN_OUT, int(place.max(initial=0)) + 1)
    held = np.full((len(patterns), width), patterns.shape[1])
    counts = np.zeros((len(patterns), width))
    held[row, place], counts[row, place] = kind, patterns[row, kind]
    return held, counts


def groups(arrays: Arrays) -> list[Ints]:
    """Types in groups that bar the same classes, so one table of combinations serves each group."""
    fits = np.all(arrays.size <= arrays.offer[:, np.newaxis, :], axis=2)
    barred = fits & ~arrays.admitted
    found: list[tuple[Bools, list[int]]] = []
    for number in np.argsort(-barred.sum(axis=1), kind="stable").tolist():
        for mask, members in found:
            if np.array_equal(mask & fits[number], barred[number]):
                members.append(number)
                break
        else:
            found.append((barred[number], [number]))
    return [np.array(members) for _, members in found]
