"""The front of the packer: the cheapest nodes for these items that are found by the deadline. What fits
nowhere is set aside, items are spread over zones, types are pruned, and a lower bound is proven.

A spread over zones is settled here, before any packing: a class with `max_skew` becomes one class a zone,
with counts as even as they can be, so no later step can break it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

from ebbtide.core.packing.plain import first_fit, search
from ebbtide.core.packing.problem import (
    UNLIMITED,
    PackingProblem,
    UnitClass,
    Vector,
    fluid_bound,
    fluid_prices,
    undominated,
)
from ebbtide.core.packing.types import Budget, Item, NodeType, PlacementRules, Plan, Unplaced
from ebbtide.model.settings import Packer

HOW_TO_PACK = "Install Ebbtide with its extra `solver`, or set packer to plain."

PLAIN_UNITS = 200
"""Up to so many units plain Python is as good as the solver, and spares its import."""
SOLVER = ("numpy", "highspy")
_SEARCHING = 0.95
"""Share of the time for the search; the rest is for writing the plan out."""


class PackerMissing(ImportError):
    """Start-up checks `why_missing` first; this is for callers that did not."""


def why_missing(packer: Packer) -> str:
    """Why this packer cannot be used here; empty where it can. Nothing is imported for it."""
    missing = [name for name in SOLVER if packer is Packer.HIGHS and find_spec(name) is None]
    return f"the packer highs needs {' and '.join(missing)}, not installed here" if missing else ""


def installed_packer() -> Packer:
    """For a preview that nothing depends on. For a decision, the packer is an argument."""
    return Packer.PLAIN if why_missing(Packer.HIGHS) else Packer.HIGHS


@contextmanager
def needing_solver() -> Iterator[None]:
    """Without it the answer would be another one. That is an error and no silent change: `replay` differed
    between installs."""
    try:
        yield
    except ImportError as cause:
        why = why_missing(Packer.HIGHS) or f"the packer highs cannot be loaded ({cause})"
        raise PackerMissing(f"{why}; nothing was decided. {HOW_TO_PACK}") from cause


def pack(
    items: Sequence[Item],
    types: Sequence[NodeType],
    *,
    deadline: float,
    clock: Callable[[], float],
    seed: int = 0,
    prove: bool = True,
) -> Plan:
    """As `pack_within`, with the packer that finds most."""
    return pack_within(items, types, Budget(clock, deadline, seed), prove)


def pack_within(items: Sequence[Item], types: Sequence[NodeType], budget: Budget, prove: bool = True) -> Plan:
    """The cheapest plan found before the clock reaches the deadline, with its bound.

    Every item is placed that fits some type its rules allow; the others are in `unplaced` with the
    reason. A plan comes back even if the deadline has passed. Who does not need the bound saves time
    with `prove` off; it is then lower where rules about types matter. `PackerMissing` where the packer is
    not installed: another one would give another answer.
    """
    problem = frame(items, types)
    budget = budget.part(_SEARCHING)
    if budget.packer is Packer.HIGHS and sum(problem.counts) > PLAIN_UNITS and budget.left() > 0:
        with needing_solver():
            from ebbtide.core.packing.improve import improve, tightened
        problem = tightened(problem, budget) if prove else problem
        return problem.plan(improve(problem, budget))
    return problem.plan(search(problem, first_fit(problem, problem.counts), budget))


@dataclass(frozen=True, slots=True)
class _Part:
    """Types a class may use, as bits; with a limited spread, one part for each zone."""

    zone: str
    allowed: int


def frame(items: Sequence[Item], types: Sequence[NodeType]) -> PackingProblem:
    parts = {rules: _parts(rules, types) for rules in {item.rules for item in items}}
    kept = _kept(parts, types)
    chosen = [types[index] for index in kept]
    parts = {rules: _renumbered(old, kept) for rules, old in parts.items()}
    room = _Room(chosen)
    merged: dict[tuple[UnitClass, int], list[str]] = {}
    unplaced: list[Unplaced] = []
    for number, item in enumerate(items):
        places = _places(item, parts[item.rules], room)
        if isinstance(places, str):
            unplaced.append(Unplaced(item.names, places))
            continue
        for kind, names in _spread(item, places):
            # Two classes that each stay apart from their own kind do not stay apart from each other.
            key = -1 if kind.limit == UNLIMITED else number
            merged.setdefault((kind, key), []).extend(names)
    kinds = tuple(_whole(kind) for kind, _ in merged)
    values, bound = _bound([(kind, len(names)) for (kind, _), names in merged.items()], chosen)
    names_of = tuple(tuple(names) for names in merged.values())
    return PackingProblem(kinds, names_of, tuple(chosen), tuple(unplaced), values, bound)


def _parts(rules: PlacementRules, types: Sequence[NodeType]) -> tuple[_Part, ...]:
    allowed: dict[str, int] = {}
    for number, type_ in enumerate(types):
        if rules.types is not None and type_.name not in rules.types:
            continue
        if rules.zones is not None and type_.zone not in rules.zones:
            continue
        zone = "" if rules.max_skew is None else type_.zone or ""
        allowed[zone] = allowed.get(zone, 0) | 1 << number
    return tuple(_Part(zone, allowed[zone]) for zone in sorted(allowed))


def _kept(parts: dict[PlacementRules, tuple[_Part, ...]], types: Sequence[NodeType]) -> list[int]:
    masks = {part.allowed for each in parts.values() for part in each}
    admits = [0] * len(types)
    for bit, mask in enumerate(sorted(masks)):
        for number in range(len(types)):
            if mask >> number & 1:
                admits[number] |= 1 << bit
    return undominated(types, admits)


def _renumbered(parts: tuple[_Part, ...], kept: list[int]) -> tuple[_Part, ...]:
    return tuple(
        _Part(part.zone, sum(1 << new for new, old in enumerate(kept) if part.allowed >> old & 1))
        for part in parts
    )


class _Room:
    """Which types have room for a size, found by bisection: there may be many thousand sizes."""

    def __init__(self, types: Sequence[NodeType]) -> None:
        self._cpu = _steps([type_.cpu_milli for type_ in types])
        self._memory = _steps([type_.memory_mib for type_ in types])
        self._pods = _steps([type_.pods for type_ in types])

    def fitting(self, item: Item) -> int:
        return (
            _at_least(self._cpu, item.cpu_milli)
            & _at_least(self._memory, item.memory_mib)
            & _at_least(self._pods, item.slots)
        )


_Steps = tuple[list[int], list[int]]


def _steps(offers: list[int]) -> _Steps:
    """The offers in rising order, and for each the types that offer as much or more."""
    levels = sorted(set(offers))
    masks = [sum(1 << n for n, offer in enumerate(offers) if offer >= level) for level in levels]
    return levels, [*masks, 0]


def _at_least(steps: _Steps, amount: int) -> int:
    levels, masks = steps
    return masks[bisect_left(levels, amount)]


def _places(item: Item, parts: tuple[_Part, ...], room: _Room) -> list[_Part] | str:
    """Where this class may go and fits; or the reason why that is nowhere."""
    if not parts:
        return "its rules allow no node type"
    fitting = room.fitting(item)
    places = [_Part(part.zone, part.allowed & fitting) for part in parts if part.allowed & fitting]
    if places:
        return places
    pods = "" if item.slots == 1 else f" and {item.slots} pods on one node"
    return f"{item.cpu_milli}m CPU, {item.memory_mib} MiB{pods} are more than any type it may use offers"


def _spread(item: Item, places: list[_Part]) -> Iterator[tuple[UnitClass, tuple[str, ...]]]:
    start = 0
    for place, share in zip(places, _even(item, [place.zone for place in places]), strict=True):
        names = item.names[start : start + share * item.slots]
        start += len(names)
        if names:
            most = item.rules.max_per_node
            limit = UNLIMITED if most is None or most >= share else most
            yield UnitClass(item.cpu_milli, item.memory_mib, item.slots, limit, place.allowed), names


def _even(item: Item, zones: list[str]) -> list[int]:
    """Units for each zone so, with those already there, zones differ as little as they can."""
    there = dict(item.rules.zone_counts)
    total = [there.get(zone, 0) for zone in zones]
    order = sorted(range(len(zones)), key=lambda index: total[index])
    # The lowest zones that the units can raise to one level; the others get none.
    raised = len(order)
    while raised > 1 and total[order[raised - 1]] * raised - _sum(total, order[:raised]) > item.count:
        raised -= 1
    level, rest = divmod(item.count + _sum(total, order[:raised]), raised)
    shares = [0] * len(zones)
    for place, index in enumerate(order[:raised]):
        shares[index] = level + (place < rest) - total[index]
    return shares


def _sum(amounts: list[int], indices: list[int]) -> int:
    return sum(amounts[index] for index in indices)


def _whole(kind: UnitClass) -> UnitClass:
    """A request of nothing counts as the least unit where nodes are filled, which keeps division safe."""
    cpu_milli, memory_mib = max(1, kind.cpu_milli), max(1, kind.memory_mib)
    return UnitClass(cpu_milli, memory_mib, kind.slots, kind.limit, kind.admitted)


def _bound(sizes: list[tuple[UnitClass, int]], types: Sequence[NodeType]) -> tuple[Vector, float]:
    if not sizes:
        return (0.0, 0.0, 0.0), 0.0
    demand = (
        float(sum(kind.cpu_milli * (pods // kind.slots) for kind, pods in sizes)),
        float(sum(kind.memory_mib * (pods // kind.slots) for kind, pods in sizes)),
        float(sum(pods for _, pods in sizes)),
    )
    offers = [(float(t.cpu_milli), float(t.memory_mib), float(t.pods)) for t in types]
    values = fluid_prices(offers, [type_.price for type_ in types], demand)
    # Each type pays its whole price at the values scaled up for it alone. A class is worth what it is
    # at the least of the scales of the types it may use; so no node holds more worth than it costs.
    scales = [type_.price / fluid_bound(values, offer) for type_, offer in zip(types, offers, strict=True)]
    least: dict[int, float] = {}
    bound = highest = 0.0
    for kind, pods in sizes:
        if kind.admitted not in least:
            usable = [number for number in range(len(types)) if kind.admitted >> number & 1]
            least[kind.admitted] = min(scales[number] for number in usable)
            # Types are in order of price, and every class needs one node at least.
            highest = max(highest, types[usable[0]].price)
        unit = fluid_bound(values, (kind.cpu_milli, kind.memory_mib, kind.slots))
        bound += unit * (pods // kind.slots) * least[kind.admitted]
    return values, max(bound, highest)
