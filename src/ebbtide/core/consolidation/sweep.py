"""The frontier: for more and more pods moved, the least that the cluster could cost.

Deletion alone is tried in several orders; where new nodes may be launched, growing sets of the most
wasteful nodes are emptied at once: what fits goes into the rooms of those that stay, the rest onto new
nodes. New nodes are there before the first pod moves, so a spread has to count with their empty domains.
A draft stays if none is cheaper with as few moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import chain

from ebbtide.core.consolidation.drafts import (
    Content,
    Draft,
    Floors,
    FreeRoom,
    Fresh,
    Layout,
    fill,
)
from ebbtide.core.consolidation.eliminate import (
    eliminate,
    emptiest_order,
    keep_order,
    price_order,
    removal_order,
    too_expensive,
    waste_order,
)
from ebbtide.core.consolidation.scene import Offered, Scene
from ebbtide.core.nodes.fit import Neighbours
from ebbtide.core.nodes.headroom import Wanted
from ebbtide.core.nodes.room import Room, room_of_new
from ebbtide.core.packing import Item, NodeType, PlacementRules
from ebbtide.core.packing.pack import PLAIN_UNITS, needing_solver, pack_within
from ebbtide.core.packing.types import Budget
from ebbtide.model.settings import Packer

FEW_SITES = 12
"""Up to so many, every beginning of the order and every single site is tried."""
MANY_PARCELS = 4_000
MOST_POINTS = 40
_CHEAPEST = (1.03, 1.0, 0.97, 1.1, 0.9)
"""Of the sites that could go if pods were a fluid: near all of them for the least cost..."""
_FEWEST_MOVES = (0.96, 0.85, 0.7, 0.5, 0.3, 0.15)
"""...and fewer, chosen for few moves."""
Keys = Callable[[int], str]
"""The key of the launch slot with this number."""
_ROUNDING = Decimal("0.000001")
"""Less than any price differs from another, more than floats go astray."""


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


def replaced(layout: Layout, removed: Sequence[int], budget: Budget, keys: Keys) -> Draft | None:
    """Without these sites; none where a pod would have no place, or where nothing could be saved. The layout
    is put back."""
    work = _Replacement(layout, removed, budget, keys)
    try:
        return work.draft()
    finally:
        work.undo()


class _Replacement:
    def __init__(self, layout: Layout, removed: Sequence[int], budget: Budget, keys: Keys) -> None:
        self._layout = layout
        self._scene = layout.scene
        self._removed = removed
        self._offers = _of_same_weight(layout.scene, removed)
        self._budget = budget
        self._keys = keys
        self._lifted: list[int] = []
        self._opened: list[Room] = []
        self._fresh: list[Fresh] = []
        self._fresh_spaces: list[FreeRoom] = []
        self._admitted: list[int] = []
        """Shapes that admit all that is on each new node."""

    def draft(self) -> Draft | None:
        layout, scene = self._layout, self._scene
        if not self._offers:
            return None
        for number in self._removed:
            layout.drop(number)
        gone = set(self._removed)
        kept = [layout.spaces[n] for n in keep_order(scene) if n not in gone and scene.sites[n].target]
        for offer in _one_of_each_place(self._offers):
            # Each under a name of its own, since none of them may stand for another.
            name = f"{self._keys(-1)}/{offer.pool.name}/{offer.zone}"
            self._make_known(room_of_new(name, offer.pool, offer.node_type, offer.zone))
        if not self._place_alone(kept):
            return None
        moves = self._place_many([*kept, *self._fresh_spaces])
        if moves is None:
            return None
        self._reach_floor()
        self._balance()
        cost = layout.cost + self._fresh_cost()
        placed = {number: space.name for number, space in layout.moves} | moves
        order = [n for site in self._removed for n in scene.largest_first[site]]
        return Draft(tuple(self._removed), tuple((n, placed[n]) for n in order), tuple(self._fresh), cost)

    def undo(self) -> None:
        placed = {number for number, _ in self._layout.moves}
        for number in self._lifted:
            if number not in placed:
                self._layout.lift(self._scene.parcels[number], 1)
        self._layout.reset()
        for room in self._opened:
            self._layout.neighbours.close_room(room)

    def _make_known(self, room: Room) -> None:
        self._layout.neighbours.open_room(room)
        self._opened.append(room)

    def _place_alone(self, kept: Sequence[FreeRoom]) -> bool:
        """Those with rules of their own, in the order of the moves, since each changes what the next may do:
        on a node that stays, else on a new one that has room, else on the cheapest of its own."""
        layout, scene = self._layout, self._scene
        offers = sorted(self._offers, key=lambda offer: (offer.price, offer.name))
        for site in self._removed:
            for number in scene.largest_first[site]:
                parcel = scene.parcels[number]
                if not parcel.alone:
                    break
                self._lifted.append(number)
                layout.lift(parcel)
                space = layout.first_fit(number, chain(kept, self._fresh_spaces))
                if space is None:
                    fitting = (o for o in offers if layout.fits(parcel, self._space(self._keys(-1), o)))
                    offer = next(fitting, None)
                    if offer is None:
                        return False
                    space = self._open(offer, 1 << offer.shape)
                layout.put(number, space)
        return True

    def _place_many(self, kept: Sequence[FreeRoom]) -> dict[int, str] | None:
        scene = self._scene
        waiting: list[list[int]] = [[] for _ in scene.kinds]
        for site in self._removed:
            for number in scene.sites[site].parcels:
                if not scene.parcels[number].alone:
                    waiting[scene.parcels[number].kind].append(number)
        left = [len(numbers) for numbers in waiting]
        moves: dict[int, str] = {}
        for space, content in self._filled(kept, left):
            for kind, count in content:
                moves.update((waiting[kind].pop(), space.name) for _ in range(count))
        packed = self._packed(waiting)
        return None if packed is None else moves | packed

    def _filled(self, kept: Sequence[FreeRoom], left: list[int]) -> list[tuple[FreeRoom, Content]]:
        if self._budget.packer is Packer.HIGHS and sum(left) > PLAIN_UNITS:
            with needing_solver():
                from ebbtide.core.consolidation.fill_many import fill_many
            return fill_many(self._scene, kept, left, self._budget.seed)
        return fill(self._scene, kept, left)

    def _packed(self, waiting: Sequence[Sequence[int]]) -> dict[int, str] | None:
        scene = self._scene
        items = [
            Item(kind.cpu_milli, kind.memory_mib, tuple(map(str, numbers)), 1, self._rules(kind.admitted))
            for kind, numbers in zip(scene.kinds, waiting, strict=True)
            if numbers
        ]
        if not items:
            return {}
        if self._too_expensive(waiting):
            return None
        types = [NodeType(o.name, *o.room, price=float(o.price), zone=o.zone) for o in self._offers]
        plan = pack_within(items, types, self._budget, prove=False)
        if plan.unplaced:
            return None
        offered = {offer.name: offer for offer in self._offers}
        moves: dict[int, str] = {}
        for node in plan.nodes:
            space = self._open(offered[node.type.name], -1)
            for name in node.pods:
                kind = scene.kinds[scene.parcels[int(name)].kind]
                space.cpu -= kind.cpu_milli
                space.memory -= kind.memory_mib
                space.slots -= 1
                moves[int(name)] = space.name
                self._admitted[-1] &= kind.admitted
        return moves

    def _too_expensive(self, waiting: Sequence[Sequence[int]]) -> bool:
        """Whether all would cost as much as now, even if pods were a fluid: then no packing need be tried."""
        scene = self._scene
        worth = sum(each * len(numbers) for each, numbers in zip(scene.worths, waiting, strict=True))
        least = max(min(offer.price for offer in self._offers), Decimal(worth) - _ROUNDING)
        return self._layout.cost + self._fresh_cost() + least >= scene.cost

    def _fresh_cost(self) -> Decimal:
        return sum((fresh.offer.price for fresh in self._fresh), Decimal(0))

    def _rules(self, admitted: int) -> PlacementRules:
        names = frozenset(o.name for o in self._offers if admitted >> o.shape & 1)
        return PlacementRules() if len(names) == len(self._offers) else PlacementRules(types=names)

    def _open(self, offer: Offered, admitted: int) -> FreeRoom:
        fresh = Fresh(self._keys(len(self._fresh)), offer)
        space = self._space(fresh.key, offer)
        self._make_known(space.room)
        self._fresh.append(fresh)
        self._admitted.append(admitted)
        self._fresh_spaces.append(space)
        return space

    def _space(self, name: str, offer: Offered) -> FreeRoom:
        room = room_of_new(name, offer.pool, offer.node_type, offer.zone)
        return FreeRoom(name, offer.room, offer.shape, room)

    def _reach_floor(self) -> None:
        """Where fewer nodes would do than are always kept, the cheapest make up their number."""
        left = len(self._scene.sites) - len(self._removed) + len(self._fresh)
        for _ in range(self._layout.floors.nodes - left):
            self._open(min(self._offers, key=lambda offer: (offer.price, offer.name)), -1)

    def _balance(self) -> None:
        """Where another zone will do as well at the same price, the one with the fewest nodes is taken."""
        gone = set(self._removed)
        zones = Counter(site.node.zone for n, site in enumerate(self._scene.sites) if n not in gone)
        for number, fresh in enumerate(self._fresh):
            same = [
                offer
                for offer in self._offers
                if (offer.pool.name, offer.node_type.name, offer.price)
                == (fresh.offer.pool.name, fresh.offer.node_type.name, fresh.offer.price)
                and self._admitted[number] >> offer.shape & 1
            ]
            best = min(same, key=lambda offer: (zones[offer.zone], offer.zone))
            zones[best.zone] += 1
            self._fresh[number] = Fresh(fresh.key, best)


def _of_same_weight(scene: Scene, removed: Sequence[int]) -> list[Offered]:
    """Weights say where to launch, prices what to replace. A node is replaced only within its weight:
    otherwise a launch and a consolidation would move nodes between two pools forever, and a weight that
    changes would replace what stands."""
    weights = {scene.sites[number].weight for number in removed}
    return [offer for offer in scene.offers if weights == {offer.pool.weight}]


def _one_of_each_place(offers: Sequence[Offered]) -> list[Offered]:
    return list({(offer.pool.name, offer.zone): offer for offer in offers}.values())
