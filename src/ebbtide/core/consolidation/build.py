"""A `Scene` from judged nodes: rooms under the fill limit, kinds of pods, shapes of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from ebbtide.core.consolidation.scene import Kind, Offered, Parcel, Scene, Site, Size, sum_of
from ebbtide.core.nodes.neighbours import Neighbours
from ebbtide.core.nodes.offers import offer_name
from ebbtide.core.nodes.room import Room, refused_by_node, residents_of, room_of_new
from ebbtide.model.money import Price
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import Scheduling
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView


@dataclass
class Judged:
    """A worker, while it is looked at."""

    node: Node
    price: Price | None
    left_out: str = ""
    """Why it is in no plan at all."""
    kept: str = ""
    """Why it is not removed, though pods may be moved to it."""
    target: bool = True
    idle_since: int = 0
    zone_rank: int = 0
    """How far down the list of preferred zones its own is: of equals, the last one goes first."""
    weight: int = 0
    """Of its pool."""
    movable: list[Pod] = field(default_factory=list)
    staying: list[Pod] = field(default_factory=list)
    tied: list[Pod] = field(default_factory=list)


def build(
    view: ClusterView, judged: Sequence[Judged], offers: Sequence[Offered], fill: Decimal
) -> tuple[Scene, Neighbours]:
    """Only of nodes that no reason leaves out."""
    usable = [each for each in judged if not each.left_out]
    rooms = [_labels_of(each.node) for each in usable]
    known = {room.name for room in rooms}
    others = [_labels_of(node) for node in view.nodes if node.name not in known]
    neighbours = Neighbours((room, view.pods_on.get(room.name, ())) for room in (*rooms, *others))
    shapes = _Shapes([pod.scheduling for each in usable for pod in each.movable])
    shape_of = [shapes.number(room) for room in rooms]
    offers = [_shaped(offer, shapes) for offer in offers]
    kinds = _Kinds(shapes)
    parcels: list[Parcel] = []
    sites: list[Site] = []
    for number, each in enumerate(usable):
        first = len(parcels)
        for pod in each.movable:
            profile = neighbours.profile(pod)
            alone = bool(pod.requests.extended) or not profile.free
            parcels.append(Parcel(pod, number, kinds.number(pod), profile, alone))
        held = tuple(range(first, len(parcels)))
        sites.append(_site(each, shape_of[number], held, fill))
        if rooms[number].extended:
            _take_extended(rooms[number], (*each.movable, *each.staying, *each.tied))
    staying = [pod for each in usable for pod in each.staying]
    return Scene(tuple(sites), tuple(parcels), kinds.all(), tuple(offers), staying, rooms), neighbours


def _take_extended(room: Room, pods: Iterable[Pod]) -> None:
    for pod in pods:
        for name, amount in pod.requests.extended:
            room.extended[name] = room.extended.get(name, 0) - max(amount, 0)


def offers_of(view: ClusterView, record: Record, settings: Settings, currency: str) -> list[Offered]:
    """All that the pools could launch now at a known price in this currency, with its room."""
    resting = {rest.offer for rest in record.offer_rests}
    fill = settings.consolidation.max_fill
    found: list[Offered] = []
    for pool in settings.pools:
        residents = sum_of(residents_of(view, pool))
        for node_type in pool.types:
            price = node_type.price_in(pool.market)
            if price is None or price.currency != currency or price.per_hour <= 0:
                continue
            room = _less(share_of(node_type.allocatable, node_type.max_pods, fill), residents)
            for zone in pool.zones:
                if min(room) > 0 and offer_name(zone, pool.market, node_type.name) not in resting:
                    found.append(Offered(pool, node_type, zone, price.per_hour, room, 0))
    return found


def share_of(offer: Resources, max_pods: int, fill: Decimal) -> Size:
    return int(offer.cpu_milli * fill), int(offer.memory_mib * fill), max_pods


def _site(each: Judged, shape: int, held: tuple[int, ...], fill: Decimal) -> Site:
    node = each.node
    share = share_of(node.allocatable, node.max_pods, fill)
    load = sum_of((*each.movable, *each.staying))
    free = _less(share, sum_of(each.tied))
    price = each.price.per_hour if each.price else Decimal(0)
    return Site(
        node=node,
        price=price,
        room=_less(free, load),
        shape=shape,
        parcels=held,
        removable=not each.kept,
        target=each.target,
        idle_since=each.idle_since,
        zone_rank=each.zone_rank,
        weight=each.weight,
        slack=(node.allocatable.cpu_milli - share[0], node.allocatable.memory_mib - share[1], 0),
        offer=(max(free[0], load[0], 1), max(free[1], load[1], 1), max(free[2], load[2], 1)),
    )


def _less(one: Size, other: Size) -> Size:
    return one[0] - other[0], one[1] - other[1], one[2] - other[2]


def _labels_of(node: Node) -> Room:
    return Room(node.name, node.zone, node.labels, node.taints, node.pool).offer(
        node.allocatable, node.max_pods
    )


def _shaped(offer: Offered, shapes: _Shapes) -> Offered:
    room = room_of_new(offer.name, offer.pool, offer.node_type, offer.zone)
    return Offered(offer.pool, offer.node_type, offer.zone, offer.price, offer.room, shapes.number(room))


class _Shapes:
    """Numbers for nodes that the same pods accept: of one zone, with the same taints and the same values
    of the labels that any pod asks for."""

    def __init__(self, asked: Iterable[Scheduling]) -> None:
        different = {id(scheduling): scheduling for scheduling in asked}.values()
        keys = {key for s in different for key, _ in s.node_selector}
        keys |= {r.key for s in different for term in s.node_affinity for r in term}
        self._keys = sorted(keys)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._examples: list[Room] = []

    def number(self, room: Room) -> int:
        values = tuple(room.labels.get(key) for key in self._keys)
        key = (room.zone, room.taints, values)
        if key not in self._numbers:
            self._numbers[key] = len(self._examples)
            self._examples.append(room)
        return self._numbers[key]

    def admitting(self, scheduling: Scheduling) -> int:
        return sum(
            1 << number for number, room in enumerate(self._examples) if not refused_by_node(scheduling, room)
        )


class _Kinds:
    """Numbers for pods of one size that the same shapes admit."""

    def __init__(self, shapes: _Shapes) -> None:
        self._shapes = shapes
        self._admitted: dict[int, int] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def number(self, pod: Pod) -> int:
        admitted = self._admitted.get(id(pod.scheduling))
        if admitted is None:
            admitted = self._admitted[id(pod.scheduling)] = self._shapes.admitting(pod.scheduling)
        key = (pod.requests.cpu_milli, pod.requests.memory_mib, admitted)
        return self._known.setdefault(key, len(self._known))

    def all(self) -> tuple[Kind, ...]:
        return tuple(Kind(*key) for key in self._known)
