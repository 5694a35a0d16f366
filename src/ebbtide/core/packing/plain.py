"""Packing in plain Python, for inputs too small to load a solver for, or where no solver is wanted.

Nodes are filled one after the other, each with the type whose content is worth most for its price;
and as long as time and luck last some nodes are taken out and filled again. A plan is replaced only by
a cheaper one, so the search may be stopped anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.core.packing.problem import Bin, Content, PackingProblem, UnitClass
from ebbtide.core.packing.types import Budget, Dice

_PATIENCE = 300
"""Rounds without any gain after which a search of this kind rarely finds more."""
_CLOSE = 1e-9


def search(problem: PackingProblem, bins: Sequence[Bin], budget: Budget) -> list[Bin]:
    """The cheapest bins found by refilling, never more expensive than those given."""
    dice = Dice(budget.seed)
    filler = _Filler(problem)
    best, cost = list(bins), problem.cost(bins)
    found = _filled(filler, problem.counts, dice, budget)
    if found is not None and problem.cost(found) < cost:
        best, cost = found, problem.cost(found)
    idle = 0
    while idle < _PATIENCE and cost > problem.bound * (1 + _CLOSE) and budget.left() > 0:
        idle += 1
        kept, counts = _ruin(problem, best, dice)
        again = _filled(filler, counts, dice, budget)
        if again is not None and problem.cost(kept) + problem.cost(again) < cost - _CLOSE:
            best = _merged([*kept, *again])
            cost, idle = problem.cost(best), 0
    return best


class _Filler:
    """What a fill asks about classes and types again and again, worked out once."""

    def __init__(self, problem: PackingProblem) -> None:
        self.problem = problem
        cpu, memory, slot = problem.values
        self.worth = [
            kind.cpu_milli * cpu + kind.memory_mib * memory + kind.slots * slot for kind in problem.kinds
        ]

    def order(self, dice: Dice) -> list[int]:
        """Large classes first, by a random weight of CPU and memory and with more or less disorder."""
        lean, (cpu, memory, slot) = dice.share() * 2.0, self.problem.values
        kinds = self.problem.kinds
        size = [k.cpu_milli * cpu * lean + k.memory_mib * memory * (2 - lean) + k.slots * slot for k in kinds]
        disorder = dice.share() ** 2
        size = [each * (1.0 + disorder * (2.0 * dice.share() - 1.0)) for each in size]
        return sorted(range(len(kinds)), key=lambda index: -size[index])

    def fill(self, number: int, order: list[int], left: list[int]) -> tuple[Content, float]:
        """What this type can take in this order, and what that is worth."""
        type_ = self.problem.types[number]
        cpu, memory, slots = type_.cpu_milli, type_.memory_mib, type_.pods
        content: list[tuple[int, int]] = []
        worth = 0.0
        for index in order:
            kind = self.problem.kinds[index]
            if not left[index] or not kind.admitted >> number & 1:
                continue
            take = min(cpu // kind.cpu_milli, memory // kind.memory_mib, slots // kind.slots)
            take = min(take, left[index], kind.limit)
            if take:
                cpu -= take * kind.cpu_milli
                memory -= take * kind.memory_mib
                slots -= take * kind.slots
                content.append((index, take))
                worth += take * self.worth[index]
        return tuple(content), worth


def _filled(filler: _Filler, counts: list[int], dice: Dice, budget: Budget) -> list[Bin] | None:
    """Nodes for these counts, one kind of node after the other; None when time runs out."""
    problem, left, bins = filler.problem, list(counts), []
    order = filler.order(dice)
    while any(left):
        if budget.left() <= 0:
            return None
        order = [index for index in order if left[index]]
        # The largest class left must be in: left for the end, it would fill nodes badly.
        lead = order[0]
        content: Content = ()
        chosen, ratio = 0, -1.0
        for number in _admitting(problem, lead):
            taken, worth = filler.fill(number, order, left)
            if worth / problem.types[number].price > ratio:
                content, chosen, ratio = taken, number, worth / problem.types[number].price
        times = min(left[index] // count for index, count in content)
        for index, count in content:
            left[index] -= count * times
        bins.append(Bin(problem.cheapest_for(content, chosen), content, times))
    return bins


def _ruin(problem: PackingProblem, bins: list[Bin], dice: Dice) -> tuple[list[Bin], list[int]]:
    """Take some nodes out: those left, and the counts of what was on the others."""
    share = 0.1 + 0.9 * dice.share() ** 2
    kept: list[Bin] = []
    counts = [0] * len(problem.kinds)
    for each in bins:
        out = sum(dice.share() < share for _ in range(min(each.times, 8)))
        if out < each.times:
            kept.append(Bin(each.type, each.content, each.times - out))
        for index, count in each.content:
            counts[index] += count * out
    return kept, counts


def _merged(bins: Sequence[Bin]) -> list[Bin]:
    times: dict[tuple[int, Content], int] = {}
    for each in bins:
        key = (each.type, tuple(sorted(each.content)))
        times[key] = times.get(key, 0) + each.times
    return [Bin(number, content, count) for (number, content), count in times.items()]


def _admitting(problem: PackingProblem, index: int) -> Iterator[int]:
    admitted = problem.kinds[index].admitted
    return (number for number in range(len(problem.types)) if admitted >> number & 1)


_OPEN = 16
"""Nodes looked at for a class; older ones are nearly full."""
_DIGITS = 3


class _Node:
    __slots__ = ("content", "cpu", "memory", "slots", "type")

    def __init__(self, number: int, room: tuple[int, int, int]) -> None:
        self.type = number
        self.cpu, self.memory, self.slots = room
        self.content: list[tuple[int, int]] = []

    def most(self, kind: UnitClass) -> int:
        """How many of this class it has room for."""
        if not kind.admitted >> self.type & 1:
            return 0
        by_size = min(self.cpu // kind.cpu_milli, self.memory // kind.memory_mib)
        return min(by_size, self.slots // kind.slots, kind.limit)

    def put(self, index: int, kind: UnitClass, count: int) -> None:
        self.cpu -= kind.cpu_milli * count
        self.memory -= kind.memory_mib * count
        self.slots -= kind.slots * count
        self.content.append((index, count))


def first_fit(problem: PackingProblem, counts: Sequence[int]) -> list[Bin]:
    """Nodes for these counts, each of the cheapest type that holds what it was given."""
    bins: list[Bin] = []
    nodes: list[_Node] = []
    best: dict[int, int] = {}
    for index in _largest_first(problem, counts):
        kind, left = problem.kinds[index], counts[index]
        for node in nodes[-_OPEN:]:
            if node.cpu < kind.cpu_milli or node.memory < kind.memory_mib:
                continue
            take = min(node.most(kind), left)
            if take:
                node.put(index, kind, take)
                left -= take
        if not left:
            continue
        number = best.setdefault(kind.admitted, _best_type(problem, kind.admitted))
        each = min(_empty(problem, number).most(kind), left)
        full, rest = divmod(left, each)
        # Of many equal nodes one stays open for smaller classes.
        if full > 1:
            bins.append(_bin(problem, number, ((index, each),), full - 1))
        for count in (each, rest):
            if count:
                nodes.append(_empty(problem, number))
                nodes[-1].put(index, kind, count)
    bins.extend(_bin(problem, node.type, tuple(sorted(node.content)), 1) for node in nodes)
    return bins


def _largest_first(problem: PackingProblem, counts: Sequence[int]) -> list[int]:
    cpu, memory, slot = problem.values
    size = [kind.cpu_milli * cpu + kind.memory_mib * memory + kind.slots * slot for kind in problem.kinds]
    return sorted((index for index, count in enumerate(counts) if count), key=lambda index: -size[index])


def _best_type(problem: PackingProblem, admitted: int) -> int:
    """Of the types admitted, the one whose room is worth most for its price; of equals the largest."""
    cpu, memory, slot = problem.values

    def worth(number: int) -> tuple[float, float]:
        type_ = problem.types[number]
        value = type_.cpu_milli * cpu + type_.memory_mib * memory + type_.pods * slot
        return round(value / type_.price, _DIGITS), type_.price

    return max((number for number in range(len(problem.types)) if admitted >> number & 1), key=worth)


def _empty(problem: PackingProblem, number: int) -> _Node:
    type_ = problem.types[number]
    return _Node(number, (type_.cpu_milli, type_.memory_mib, type_.pods))


def _bin(problem: PackingProblem, number: int, content: Content, times: int) -> Bin:
    return Bin(problem.cheapest_for(content, number), content, times)
