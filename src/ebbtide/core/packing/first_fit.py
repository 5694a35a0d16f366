"""A plan at once: largest class first, into the first open node that has room.

Never very good, never very bad, and in time even for many thousand sizes: it is what comes back when
the deadline leaves no time for more, and what takes the last pods of a search that was cut short.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.packing.problem import Bin, Content, Kind, Problem

_OPEN = 16
"""Nodes looked at for a class; older ones are nearly full."""
_DIGITS = 3


class _Node:
    __slots__ = ("content", "cpu", "memory", "slots", "type")

    def __init__(self, number: int, room: tuple[int, int, int]) -> None:
        self.type = number
        self.cpu, self.memory, self.slots = room
        self.content: list[tuple[int, int]] = []

    def most(self, kind: Kind) -> int:
        """How many of this class it has room for."""
        if not kind.admitted >> self.type & 1:
            return 0
        by_size = min(self.cpu // kind.cpu_milli, self.memory // kind.memory_mib)
        return min(by_size, self.slots // kind.slots, kind.limit)

    def put(self, index: int, kind: Kind, count: int) -> None:
        self.cpu -= kind.cpu_milli * count
        self.memory -= kind.memory_mib * count
        self.slots -= kind.slots * count
        self.content.append((index, count))


def first_fit(problem: Problem, counts: Sequence[int]) -> list[Bin]:
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


def _largest_first(problem: Problem, counts: Sequence[int]) -> list[int]:
    cpu, memory, slot = problem.values
    size = [kind.cpu_milli * cpu + kind.memory_mib * memory + kind.slots * slot for kind in problem.kinds]
    return sorted((index for index, count in enumerate(counts) if count), key=lambda index: -size[index])


def _best_type(problem: Problem, admitted: int) -> int:
    """Of the types admitted, the one whose room is worth most for its price; of equals the largest."""
    cpu, memory, slot = problem.values

    def worth(number: int) -> tuple[float, float]:
        type_ = problem.types[number]
        value = type_.cpu_milli * cpu + type_.memory_mib * memory + type_.pods * slot
        return round(value / type_.price, _DIGITS), type_.price

    return max((number for number in range(len(problem.types)) if admitted >> number & 1), key=worth)


def _empty(problem: Problem, number: int) -> _Node:
    type_ = problem.types[number]
    return _Node(number, (type_.cpu_milli, type_.memory_mib, type_.pods))


def _bin(problem: Problem, number: int, content: Content, times: int) -> Bin:
    return Bin(problem.cheapest_for(content, number), content, times)
