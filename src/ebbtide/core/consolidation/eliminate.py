"""Deletion alone: one node after the other is emptied onto those that are left, as long as that works.

Every beginning of the run is a draft of its own, since what was moved before it does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.consolidation.drafts import Draft, FreeRoom, Layout
from ebbtide.core.consolidation.scene import ExistingNode, Scene

MOST_LOOKS = 100_000
"""Rooms looked at before the rest is given up: on a large cluster the first steps are the good ones."""

TOO_EXPENSIVE = 1.02


@dataclass(frozen=True, slots=True)
class Steps:
    """A run of removals, of which every beginning is a draft."""

    removed: tuple[int, ...] = ()
    moves: tuple[tuple[int, str], ...] = ()
    marks: tuple[tuple[int, int, Decimal], ...] = ()
    """After each removal: how many sites, how many moves, and the cost."""

    def draft(self, mark: int) -> Draft:
        sites, moves, cost = self.marks[mark]
        return Draft(self.removed[:sites], self.moves[:moves], (), cost)


def eliminate(layout: Layout, order: Sequence[int]) -> Steps:
    """Try each site in this order; the layout is put back at the end."""
    run = _Run(layout)
    marks: list[tuple[int, int, Decimal]] = []
    for number in order:
        if layout.spaces[number].taken_in or not layout.allows(number):
            continue
        if layout.looks > MOST_LOOKS:
            break
        if run.emptied(number):
            layout.drop(number)
            marks.append((len(layout.removed), len(layout.moves), layout.cost))
    moves = tuple((number, space.name) for number, space in layout.moves)
    steps = Steps(tuple(layout.removed), moves, tuple(marks))
    layout.reset()
    return steps


@dataclass(frozen=True, slots=True)
class _Stock:
    """How many pods of a kind fit each place, while none is being emptied."""

    by_place: tuple[int, ...]
    total: int
    looks: int
    """How many rooms are looked at until all of these pods are placed, each into the first that it fits."""


class _Run:
    """Empties one site after the other. Rooms only fill up until a site is given up, so a place that was too
    full for a kind is not looked at again; it counts as looked at all the same."""

    def __init__(self, layout: Layout) -> None:
        scene = layout.scene
        self._layout = layout
        self._sites = [number for number in keep_order(scene) if scene.sites[number].target]
        self._places = [layout.spaces[number] for number in self._sites]
        self._place_of = {number: place for place, number in enumerate(self._sites)}
        self._first: dict[int, int] = {}
        """No place before this one takes the kind now."""
        self._stocks: dict[int, _Stock] = {}

    def emptied(self, number: int) -> bool:
        layout = self._layout
        parcels = layout.scene.largest_first[number]
        if self._has_too_many(number):
            return False
        before, first, space = len(layout.moves), dict(self._first), layout.spaces[number]
        space.closed = True
        if self._placed(parcels) and not layout.loses_headroom():
            self._stocks.clear()
            return True
        while len(layout.moves) > before:
            layout.take_back()
        space.closed = False
        self._first = first
        return False

    def _placed(self, parcels: Sequence[int]) -> bool:
        layout = self._layout
        for each in parcels:
            parcel = layout.scene.parcels[each]
            layout.lift(parcel)
            alone = parcel.alone
            place = layout.first_fit(each, self._places) if alone else self._first_fit(parcel.kind)
            if place is None:
                layout.lift(parcel, 1)
                return False
            layout.put(each, place)
        return True

    def _first_fit(self, number: int) -> FreeRoom | None:
        """As `Layout.first_fit`, for what has no rules of its own."""
        layout, places = self._layout, self._places
        kind = layout.scene.kinds[number]
        cpu, memory, admitted = kind.cpu_milli, kind.memory_mib, kind.admitted
        for place in range(self._first.get(number, 0), len(places)):
            space = places[place]
            if space.closed or space.lacks(cpu, memory) or not admitted >> space.shape & 1:
                continue
            self._first[number] = place
            layout.looks += place + 1
            return space
        self._first[number] = len(places)
        layout.looks += len(places)
        return None

    def _has_too_many(self, number: int) -> bool:
        """Whether the pods that come first are of one kind, and more than all places together take."""
        layout = self._layout
        kind, many = layout.scene.begins_with[number]
        if kind < 0:
            return False
        stock, own, own_looks = self._stock(kind), 0, 0
        if number in self._place_of:
            place = self._place_of[number]
            own = stock.by_place[place]
            own_looks = own * (place + 1)
        if stock.total - own >= many:
            return False
        layout.looks += stock.looks - own_looks + len(self._places)
        return True

    def _stock(self, number: int) -> _Stock:
        known = self._stocks.get(number)
        if known is None:
            kind = self._layout.scene.kinds[number]
            found = tuple(0 if space.closed else space.holds(kind) for space in self._places)
            looks = sum(count * (place + 1) for place, count in enumerate(found) if count)
            known = self._stocks[number] = _Stock(found, sum(found), looks)
        return known


def keep_order(scene: Scene) -> list[int]:
    """Which nodes had best be kept, and so filled: those with pods, the cheap, the new."""

    def order(number: int) -> tuple[bool, object, int, str]:
        site = scene.sites[number]
        return not _occupied(site), site.price, -site.node.created_at, site.node.name

    return sorted(range(len(scene.sites)), key=order)


def _occupied(site: ExistingNode) -> bool:
    return bool(site.parcels) or not site.removable


def removal_order(scene: Scene) -> list[int]:
    """The policy's own: most expensive, then oldest, then longest idle, then in the zone that is preferred
    least (row 45); empty ones before those with pods."""

    def order(number: int) -> tuple[bool, object, int, int, int, str]:
        site = scene.sites[number]
        idle_since = site.idle_since or site.node.created_at
        last = -site.zone_rank, site.node.name
        return bool(site.parcels), -site.price, site.node.created_at, idle_since, *last

    return sorted(_removable(scene), key=order)


def waste_order(scene: Scene) -> list[int]:
    """What is paid for nothing, for each pod that has to move: the most first."""

    def order(number: int) -> tuple[float, object, int, int, str]:
        site = scene.sites[number]
        waste = float(site.price) - scene.held_worths[number]
        rate = waste / len(site.parcels) if site.parcels else float("inf")
        return -rate, -site.price, site.node.created_at, -site.zone_rank, site.node.name

    return sorted(_removable(scene), key=order)


def emptiest_order(scene: Scene) -> list[int]:
    """By the share of its price that is paid for nothing, however many pods have to move; before all others
    those that would be too expensive even if they were full."""

    def order(number: int) -> tuple[bool, float, object, int, int, str]:
        site = scene.sites[number]
        share = scene.held_worths[number] / float(site.price)
        last = -site.zone_rank, site.node.name
        return not too_expensive(scene, number), share, -site.price, site.node.created_at, *last

    return sorted(_removable(scene), key=order)


def too_expensive(scene: Scene, number: int) -> bool:
    """Whether other nodes offer what this one does for clearly less."""
    site = scene.sites[number]
    return float(site.price) > scene.worth(site.offer) * TOO_EXPENSIVE


def price_order(scene: Scene) -> list[int]:
    """The most expensive first, with or without pods: an empty cheap node may take the pods of an expensive
    one."""

    def order(number: int) -> tuple[object, int, int, int, str]:
        site = scene.sites[number]
        last = -site.zone_rank, site.node.name
        return -site.price, len(site.parcels), site.node.created_at, *last

    return sorted(_removable(scene), key=order)


def _removable(scene: Scene) -> Iterator[int]:
    return (number for number, site in enumerate(scene.sites) if site.removable)
