"""Emptying a whole set of nodes: what fits goes into the rooms of those that stay, the rest onto new nodes.

New nodes are there before the first pod moves, so a spread has to count with their empty domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import chain

from ebbtide.core.consolidation.drafts import Draft, Fresh, Layout, Space, largest_first
from ebbtide.core.consolidation.eliminate import keep_order
from ebbtide.core.consolidation.fill import Content, fill
from ebbtide.core.consolidation.scene import Offered, Scene
from ebbtide.core.nodes.room import Room, room_of_new
from ebbtide.core.packing import Item, NodeType, Rules
from ebbtide.core.packing.pack import PLAIN_UNITS, needing_solver, pack_within
from ebbtide.core.packing.types import Budget
from ebbtide.model.packer import Packer

Keys = Callable[[int], str]
"""The key of the launch slot with this number."""
_ROUNDING = Decimal("0.000001")
"""Less than any price differs from another, more than floats go astray."""


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
        self._fresh_spaces: list[Space] = []
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
        order = [n for site in self._removed for n in largest_first(scene, scene.sites[site].parcels)]
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

    def _place_alone(self, kept: Sequence[Space]) -> bool:
        """Those with rules of their own, in the order of the moves, since each changes what the next may do:
        on a node that stays, else on a new one that has room, else on the cheapest of its own."""
        layout, scene = self._layout, self._scene
        offers = sorted(self._offers, key=lambda offer: (offer.price, offer.name))
        for site in self._removed:
            for number in largest_first(scene, scene.sites[site].parcels):
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

    def _place_many(self, kept: Sequence[Space]) -> dict[int, str] | None:
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

    def _filled(self, kept: Sequence[Space], left: list[int]) -> list[tuple[Space, Content]]:
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

    def _rules(self, admitted: int) -> Rules:
        names = frozenset(o.name for o in self._offers if admitted >> o.shape & 1)
        return Rules() if len(names) == len(self._offers) else Rules(types=names)

    def _open(self, offer: Offered, admitted: int) -> Space:
        fresh = Fresh(self._keys(len(self._fresh)), offer)
        space = self._space(fresh.key, offer)
        self._make_known(space.room)
        self._fresh.append(fresh)
        self._admitted.append(admitted)
        self._fresh_spaces.append(space)
        return space

    def _space(self, name: str, offer: Offered) -> Space:
        room = room_of_new(name, offer.pool, offer.node_type, offer.zone)
        return Space(name, offer.room, offer.shape, room)

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
    otherwise a launch and a consolidation would move nodes between two pools for ever, and a weight that
    changes would replace what stands."""
    weights = {scene.sites[number].weight for number in removed}
    return [offer for offer in scene.offers if weights == {offer.pool.weight}]


def _one_of_each_place(offers: Sequence[Offered]) -> list[Offered]:
    return list({(offer.pool.name, offer.zone): offer for offer in offers}.values())
