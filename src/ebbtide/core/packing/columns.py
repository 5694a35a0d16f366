"""Column generation: find the nodes worth having, and how many of each a fluid plan would take.

The master values the classes, pricing finds nodes that are worth more than they cost at those values, and
so on until there are none or time is up. Every round of pricing fills all types greedily in a few orders,
adds the columns in use, takes a few units out of each at random and fills the room with the best
combination of the table. What pays is then checked against every rule, so a column is always a node that
could be launched.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from ebbtide.core.packing.fill import Arrays, Bools, Combos, Floats, Ints, fill
from ebbtide.core.packing.types import Budget

_SMOOTHING = 0.3
"""Share of the last values kept: values that jump about make columns that are never used."""
_NEAR = 0.015
"""Types whose price exceeds the fluid value by no more than this are priced in every round."""
_MANY = 40
_ALL_EVERY = 3
_GROUPS_A_ROUND = 3
_IN_USE = 1e-6
_ORDERS = 7
_TRIES = 12
_TAKEN_OUT = 4
_LOOKED_AT = 400
_TAKEN = 25


class Generator:
    """The master and the pricing, with what they need to know of each other."""

    def __init__(self, arrays: Arrays, seed: int) -> None:
        self.arrays = arrays
        self.master = Master(arrays)
        self._pricer = Pricer(arrays, seed)
        excess = arrays.excess
        self._all = [types[np.argsort(excess[types], kind="stable")] for types in groups(arrays)]
        self._near = [types[excess[types] <= excess[types[0]] + _NEAR][:_MANY] for types in self._all]
        self._turn = 0
        self.master.add(_singles(arrays))

    def generate(self, budget: Budget) -> None:
        """Add columns until none pays or the time is up."""
        counts = self.arrays.counts
        usage, value = self.master.solve()
        smooth = (value + self.arrays.worth) / 2.0
        idle = 0
        while idle < _ALL_EVERY * self.turns and budget.left() > 0:
            if self.price(smooth, usage, counts):
                usage, value = self.master.solve()
                smooth, idle = _SMOOTHING * smooth + (1.0 - _SMOOTHING) * value, 0
            else:
                smooth, idle = value, idle + 1

    @property
    def turns(self) -> int:
        """Rounds of pricing in which every group has its turn."""
        return -(-len(self._all) // _GROUPS_A_ROUND)

    def price(self, value: Floats, usage: Floats, counts: Floats) -> int:
        """One round of pricing for what is left to place; how many columns are new."""
        most = np.minimum(counts, self.arrays.limit)
        columns = self.master.columns
        ask = Ask(value, most, columns[np.flatnonzero(usage > _IN_USE)])
        added = 0
        for group in range(min(len(self._all), _GROUPS_A_ROUND)):
            number = (self._turn * _GROUPS_A_ROUND + group) % len(self._all)
            near = self._turn // self.turns % _ALL_EVERY
            types = self._near[number] if near else self._all[number]
            added += self.master.add(self._pricer.price(types, ask))
        self._turn += 1
        return added


def _singles(arrays: Arrays) -> Columns:
    """Each class by itself on the type that is cheapest for it: the master is never without a plan."""
    fit = np.floor((arrays.offer[:, np.newaxis, :] / arrays.size).min(axis=2))
    fit = np.minimum(fit, np.minimum(arrays.limit, arrays.counts)) * arrays.admitted
    each = arrays.price[:, np.newaxis] / np.maximum(fit, 1e-9)
    types: Ints = each.argmin(axis=0)
    return Columns(types, np.diag(fit[types, np.arange(arrays.kinds)]))


_REPLACED = 150
_PRIMAL = 4


class Master:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._price = arrays.price
        self._open: Bools = np.zeros(0, dtype=bool)
        self._seen: set[tuple[int, bytes]] = set()
        self.columns = Columns(np.zeros(0, dtype=np.int64), np.zeros((0, arrays.kinds)))
        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        # After new columns the last basis is still a plan, so the primal method continues from it; its
        # perturbation costs more rounds here than it saves.
        self._solver.setOptionValue("simplex_strategy", _PRIMAL)
        self._solver.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0)
        endless = np.full(arrays.kinds, highspy.kHighsInf)
        none, nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        starts = np.zeros(arrays.kinds, dtype=np.int32)
        self._solver.addRows(arrays.kinds, arrays.counts, endless, 0, starts, none, nothing)

    def add(self, columns: Columns) -> int:
        """Take in the columns that are new; how many those were."""
        new = [index for index in range(len(columns)) if self._is_new(columns, index)]
        if not new:
            return 0
        added = columns[np.array(new)]
        row, kind = np.nonzero(added.patterns)
        starts = np.searchsorted(row, np.arange(len(new))).astype(np.int32)
        zero, endless = np.zeros(len(new)), np.full(len(new), highspy.kHighsInf)
        price, entries = self._price[added.types], added.patterns[row, kind]
        self._solver.addCols(len(new), price, zero, endless, len(row), starts, kind.astype(np.int32), entries)
        self.columns = Columns(
            np.concatenate([self.columns.types, added.types]),
            np.concatenate([self.columns.patterns, added.patterns]),
        )
        self._open = np.concatenate([self._open, np.ones(len(new), dtype=bool)])
        return len(new)

    def demand(self, counts: Floats) -> None:
        """Ask for these counts from now on."""
        for row, count in enumerate(counts.tolist()):
            self._solver.changeRowBounds(row, count, highspy.kHighsInf)

    def confine(self, counts: Floats, value: Floats) -> None:
        """Ask for these counts, and replace the columns that hold more by what they can hold of them.

        A column that holds more than is left looks cheaper to the master than it is.
        """
        self.demand(counts)
        over = np.flatnonzero(self._open & (self.columns.patterns > counts).any(axis=1))
        for index in over.tolist():
            self._solver.changeColBounds(index, 0.0, 0.0)
        self._open[over] = False
        wide = self.columns[over]
        worth = (wide.patterns @ value) / self._price[wide.types]
        best = wide[np.argsort(-worth, kind="stable")[:_REPLACED]]
        self.add(cheapest(self._arrays, Columns(best.types, np.minimum(best.patterns, counts))))
        # No class may be left without a column, or the master has no answer.
        bare = np.flatnonzero((counts > 0) & ~self.columns.patterns[self._open].any(axis=0))
        ones = np.zeros((len(bare), len(counts)))
        ones[np.arange(len(bare)), bare] = 1.0
        self.add(cheapest(self._arrays, Columns(np.zeros(len(bare), dtype=np.int64), ones)))

    def solve(self) -> tuple[Floats, Floats]:
        """How many of each column, and the value of one unit of each class."""
        self._solver.run()
        solution = self._solver.getSolution()
        return np.array(solution.col_value), np.array(solution.row_dual)

    def _is_new(self, columns: Columns, index: int) -> bool:
        key = (int(columns.types[index]), columns.patterns[index].tobytes())
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


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
