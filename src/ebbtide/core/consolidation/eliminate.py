"""Deletion alone: one node after the other is emptied onto those that are left, as long as that works.

Every beginning of the run is a draft of its own, since what was moved before it does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.consolidation.drafts import Draft, Layout, Space, largest_first
from ebbtide.core.consolidation.scene import Scene, Site

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
    scene = layout.scene
    places = [layout.spaces[number] for number in keep_order(scene) if scene.sites[number].target]
    marks: list[tuple[int, int, Decimal]] = []
    for number in order:
        if layout.spaces[number].taken_in or not layout.allows(number):
            continue
        if layout.looks > MOST_LOOKS:
            break
        if _emptied(layout, number, places):
            layout.drop(number)
            marks.append((len(layout.removed), len(layout.moves), layout.cost))
    moves = tuple((number, space.name) for number, space in layout.moves)
    steps = Steps(tuple(layout.removed), moves, tuple(marks))
    layout.reset()
    return steps


def _emptied(layout: Layout, number: int, places: Sequence[Space]) -> bool:
    before, space = len(layout.moves), layout.spaces[number]
    space.closed = True
    for each in largest_first(layout.scene, layout.scene.sites[number].parcels):
        parcel = layout.scene.parcels[each]
        layout.lift(parcel)
        place = layout.first_fit(each, places)
        if place is None:
            layout.lift(parcel, 1)
            _take_back(layout, before, space)
            return False
        layout.put(each, place)
    if layout.loses_headroom():
        _take_back(layout, before, space)
        return False
    return True


def _take_back(layout: Layout, before: int, space: Space) -> None:
    while len(layout.moves) > before:
        layout.take_back()
    space.closed = False


def keep_order(scene: Scene) -> list[int]:
    """Which nodes had best be kept, and so filled: those with pods, the cheap, the new."""

    def order(number: int) -> tuple[bool, object, int, str]:
        site = scene.sites[number]
        return not _occupied(site), site.price, -site.node.created_at, site.node.name

    return sorted(range(len(scene.sites)), key=order)


def _occupied(site: Site) -> bool:
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
        held = sum(scene.worths[scene.parcels[each].kind] for each in site.parcels)
        waste = float(site.price) - held
        rate = waste / len(site.parcels) if site.parcels else float("inf")
        return -rate, -site.price, site.node.created_at, -site.zone_rank, site.node.name

    return sorted(_removable(scene), key=order)


def emptiest_order(scene: Scene) -> list[int]:
    """By the share of its price that is paid for nothing, however many pods have to move; before all others
    those that would be too expensive even if they were full."""

    def order(number: int) -> tuple[bool, float, object, int, int, str]:
        site = scene.sites[number]
        held = sum(scene.worths[scene.parcels[each].kind] for each in site.parcels)
        share = held / float(site.price)
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
