"""The frontier: for more and more pods moved, the least that the cluster could cost.

Deletion alone is tried in several orders; where new nodes may be launched, growing sets of the most
wasteful nodes are emptied at once. A draft stays if none is cheaper with as few moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from ebbtide.core.consolidation.drafts import Draft, Floors, Layout
from ebbtide.core.consolidation.eliminate import (
    eliminate,
    emptiest_order,
    price_order,
    removal_order,
    too_expensive,
    waste_order,
)
from ebbtide.core.consolidation.replace import Keys, replaced
from ebbtide.core.consolidation.scene import Scene
from ebbtide.core.nodes.headroom import Wanted
from ebbtide.core.nodes.neighbours import Neighbours
from ebbtide.core.packing.types import Budget

FEW_SITES = 12
"""Up to so many, every beginning of the order and every single site is tried."""
MANY_PARCELS = 4_000
MOST_POINTS = 40
_CHEAPEST = (1.03, 1.0, 0.97, 1.1, 0.9)
"""Of the sites that could go if pods were a fluid: near all of them for the least cost..."""
_FEWEST_MOVES = (0.96, 0.85, 0.7, 0.5, 0.3, 0.15)
"""...and fewer, chosen for few moves."""


@dataclass(frozen=True, slots=True)
class Limits:
    floors: Floors
    replace: bool
    """Whether new nodes may be launched."""
    wanted: Sequence[Wanted] = ()
    """Headroom that deletion alone keeps; drafts with new nodes are asked for it afterwards."""


Maker = Callable[[], Draft]
Found = tuple[int, Decimal, Maker]
"""Moves, cost, and how to write the draft out."""


def sweep(
    scene: Scene, neighbours: Neighbours, limits: Limits, budget: Budget, keys: Keys
) -> tuple[Draft, ...]:
    """Those without new nodes, then those with; in both, with more moves it costs less."""
    layout = Layout(scene, neighbours, limits.floors, limits.wanted)
    found: list[Found] = []
    orders = {tuple(order(scene)): None for order in (removal_order, waste_order, price_order)}
    for order in orders:
        steps = eliminate(layout, order)
        for mark, (_, moves, cost) in enumerate(steps.marks):
            found.append((moves, cost, partial(steps.draft, mark)))
    chosen = _thinned(_undominated(found))
    if limits.replace and scene.offers:
        chosen += _undominated(list(_replacements(layout, limits.floors, budget, keys)))
    return tuple(make() for _, _, make in chosen)


def _replacements(layout: Layout, floors: Floors, budget: Budget, keys: Keys) -> Iterator[Found]:
    sets = list(_sets(layout.scene))
    for done, removed in enumerate(sets):
        if budget.left() <= 0:
            break
        part = budget.part(1.0 / (len(sets) - done))
        draft = replaced(layout, removed, part, keys)
        # Launching where nothing moves would only swap an empty node for another.
        if draft is not None and draft.moves and _enough_left(layout.scene, draft, floors):
            yield len(draft.moves), draft.cost, partial(_same, draft)


def _same(draft: Draft) -> Draft:
    return draft


def _sets(scene: Scene) -> Iterator[tuple[int, ...]]:
    """Sets of sites to empty at once, the most promising first; each of pools of one weight."""
    wasteful = waste_order(scene)
    for weight in sorted({scene.sites[number].weight for number in wasteful}):
        yield from _sets_of(scene, [n for n in wasteful if scene.sites[n].weight == weight])


def _sets_of(scene: Scene, order: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if len(order) <= FEW_SITES:
        yield from (tuple(order[:count]) for count in range(1, len(order) + 1))
        yield from ((number,) for number in order[1:])
        return
    large = len(scene.parcels) > MANY_PARCELS
    expensive = sum(too_expensive(scene, number) for number in order)
    alike = set(order)
    emptiest = [number for number in emptiest_order(scene) if number in alike]
    yield from _beginnings(emptiest, scene, _CHEAPEST[:1] if large else _CHEAPEST, expensive)
    yield from _beginnings(order, scene, _FEWEST_MOVES[:1] if large else _FEWEST_MOVES, 1)


def _beginnings(
    order: Sequence[int], scene: Scene, shares: Sequence[float], least: int
) -> Iterator[tuple[int, ...]]:
    needed = _needed(scene, order)
    counts = {min(len(order), max(least, 1, round(needed * share))): None for share in shares}
    yield from (tuple(order[:count]) for count in counts)


def _needed(scene: Scene, order: Sequence[int]) -> int:
    """How many sites can go until those that stay are worth no more than what they have to hold."""
    demand = scene.values[0] * scene.demand[0] + scene.values[1] * scene.demand[1]
    demand += scene.values[2] * scene.demand[2]
    standing = sum(scene.worth(site.offer) for site in scene.sites)
    for count, number in enumerate(order):
        standing -= scene.worth(scene.sites[number].offer)
        if standing < demand:
            return count + 1
    return len(order)


def _enough_left(scene: Scene, draft: Draft, floors: Floors) -> bool:
    gone = set(draft.removed)
    left = [(site.node.pool, site.node.zone) for n, site in enumerate(scene.sites) if n not in gone]
    left += [(fresh.offer.pool.name, fresh.offer.zone) for fresh in draft.fresh]
    zones = {site.node.zone for site in scene.sites}
    if len(left) < floors.nodes or (floors.several_zones and zones - {zone for _, zone in left}):
        return False
    return all(sum(name == pool for name, _ in left) >= least for pool, least in floors.pools)


def _undominated(found: Sequence[Found]) -> list[Found]:
    best: list[Found] = []
    for each in sorted(found, key=lambda one: one[:2]):
        if not best or each[1] < best[-1][1]:
            best.append(each)
    return best


def _thinned(found: list[Found]) -> list[Found]:
    """Both ends and points between, evenly."""
    if len(found) <= MOST_POINTS:
        return found
    step = (len(found) - 1) / (MOST_POINTS - 1)
    return [found[round(index * step)] for index in range(MOST_POINTS)]
