"""What each worker costs and holds, and whether it and its pods may be moved. Then a `Scene` of these nodes:
rooms under the fill limit, kinds of pods, shapes of nodes.

Anything that is not understood, has no price or must not move stays where it is, with a reason, and keeps
its node; everything else is unaffected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from ebbtide.core.consolidation import game_servers
from ebbtide.core.consolidation.outline import Outline, Place, Size
from ebbtide.core.consolidation.scene import (
    NOTHING_HELD,
    ExistingNode,
    Held,
    Offered,
    Parcel,
    PodShape,
    Scene,
    alike_by,
    held_of,
    sum_of,
)
from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.drain import Disruptions, Treatment, judge
from ebbtide.core.nodes.fit import Neighbours, RuleProfile, ruling
from ebbtide.core.nodes.offers import offer_name, refused_offers
from ebbtide.core.nodes.room import Room, refused_by_node, residents_of, room_of_new
from ebbtide.core.nodes.targets import marked, without_a_pool
from ebbtide.core.words import a_time, a_while
from ebbtide.model.check import NodeCause, Refusal, Why, refused
from ebbtide.model.consolidation import NodeAnalysis
from ebbtide.model.pod import Pod, Resources, Scheduling
from ebbtide.model.pool import Price
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import EMPTY, ClusterView, Node, Snapshot


@dataclass(frozen=True)
class Look:
    judged: Sequence[Judged]
    """Every worker."""
    usable: Sequence[Judged]
    """Those that no reason leaves out of every plan."""
    outline: Outline
    currency: str
    _view: ClusterView
    _offers: Sequence[Offered]
    _now: int

    @cached_property
    def nodes(self) -> tuple[NodeAnalysis, ...]:
        """Every worker, as kept: a plan says which go."""
        return tuple(_analysis(each, self._now) for each in self.judged)

    @cached_property
    def refusals(self) -> tuple[Refusal, ...]:
        reasons = ((each.node.name, each.left_out or each.kept) for each in self.judged)
        return tuple(refused(name, why) for name, why in reasons if why)

    @property
    def scene(self) -> Scene:
        return self._built[0]

    @property
    def neighbours(self) -> Neighbours:
        return self._built[1]

    @cached_property
    def _built(self) -> tuple[Scene, Neighbours]:
        """Only where pods are placed: it goes through every pod of the cluster."""
        return build(self._view, self.usable, self._offers, self.outline)


def look(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, players: Mapping[str, int]
) -> Look:
    judging = _Judging(snapshot, record, settings, now, players)
    weights = {pool.name: pool.weight for pool in settings.pools}
    judged = [
        Judged(
            node,
            price_of(node, settings),
            zone_rank=settings.zone_rank(node.zone),
            weight=weights.get(node.pool, 0),
        )
        for node in snapshot.cluster.workers
    ]
    currency = main_currency(each.price for each in judged)
    for each in judged:
        each.left_out = judging.why_left_out(each, currency)
    offers = offers_of(snapshot.cluster, record, settings, currency, now)
    usable = [each for each in judged if not each.left_out]
    shares = Shares(settings.consolidation.max_fill)
    sizes = [offer.room for offer in offers]
    sizes += [shares.of(each.node.allocatable, each.node.max_pods) for each in usable]
    most = (max((s[0] for s in sizes), default=0), max((s[1] for s in sizes), default=0), 0)
    judging.sort_pods(judged, most)
    judging.keep_what_is_new(judged)
    outline = outline_of(usable, offers, shares)
    return Look(judged, usable, outline, currency, snapshot.cluster, offers, now)


def price_of(node: Node, settings: Settings) -> Price | None:
    pool = settings.pool_named(node.pool)
    known = pool.type_named(node.instance_type) if pool else None
    return known.price_in(node.market) if known else None


def main_currency(prices: Iterable[Price | None]) -> str:
    """That of most nodes: amounts in another are never added to them."""
    counts = Counter(price.currency for price in prices if price is not None)
    return min(counts, key=lambda currency: (-counts[currency], currency), default="")


class _Judging:
    def __init__(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, players: Mapping[str, int]
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now = now
        self._players = players
        self._doomed = doomed(record)
        self._rests = {rest.instance_id: rest for rest in record.skipped}
        self._leaving = {node.node_uid for node in record.leaving}
        self._emptied = {node.node_uid: node.since for node in record.emptied}
        self._disruptions = Disruptions(snapshot.cluster.budgets, spends=False)
        self._free: set[tuple[object, ...]] = set()

    def why_left_out(self, each: Judged, currency: str) -> Why | None:
        node, instance = each.node, self._snapshot.instance_of.get(each.node.name)
        each.target = node.uid not in self._leaving
        if not node.ready:
            return Why(NodeCause.NOT_READY, "it is not ready")
        if instance is None:
            return Why(NodeCause.NO_INSTANCE, "the cloud lists no instance of ours for it")
        if instance.id in self._doomed or not instance.alive:
            return Why(NodeCause.GOING, "it is already being removed")
        if node.unschedulable:
            return Why(NodeCause.CORDONED, "it is cordoned")
        if node.owner is not None and each.target:
            return marked(node.owner.operation_id)
        if instance.id in self._rests:
            rest = self._rests[instance.id]
            says = f"it is skipped until {a_time(rest.until)}: {rest.reason}"
            each.kept = Why(NodeCause.BACKED_OFF, says)
        if self._settings.pool_named(node.pool) is None:
            return without_a_pool(node)
        if each.price is None or each.price.per_hour <= 0:
            says = f"no price is known for {node.instance_type or 'its type'} on {node.market}"
            return Why(NodeCause.NO_PRICE, says, node.instance_type)
        if each.price.currency != currency:
            says = f"its price is in {each.price.currency}, those of most nodes are in {currency}"
            return Why(NodeCause.NO_PRICE, says, each.price.currency)
        return None

    def sort_pods(self, judged: Sequence[Judged], most: Size) -> None:
        """Most pods of a cluster are like many others, and may be moved: what holds for one of these is asked
        once, and only nodes with others are gone through pod by pod."""
        loads = self._snapshot.cluster.loads
        for each in judged:
            each.held = loads.get(each.node.name, EMPTY).of(held_of)
        different: dict[tuple[object, ...], Pod] = {}
        for each in judged:
            if self._is_plain(each.held, most):
                different |= each.held.different
        stay = {alike for alike, pod in different.items() if self._why_stays(pod, most) is not None}
        for each in judged:
            if self._is_plain(each.held, most) and each.held.alikes.isdisjoint(stay):
                each.movable = each.held.loose
            else:
                self._sort_pods_of(each, most)

    def _is_plain(self, held: Held, most: Size) -> bool:
        """Whether it is enough to ask for one of all loose pods that are alike."""
        too_large = held.largest[0] > most[0] or held.largest[1] > most[1]
        return not (self._players or held.special or too_large)

    def _sort_pods_of(self, each: Judged, most: Size) -> None:
        first: Why | None = None
        more = 0
        held = each.held
        movable: list[Pod] = []
        staying: list[Pod] = []
        for pod in held.loose:
            why = self._why_stays(pod, most)
            if why is None:
                movable.append(pod)
                continue
            staying.append(pod)
            first, more = first or why, more + 1
        each.movable, each.staying = movable, staying
        if first and not each.kept:
            others = f" (and {more - 1} more)" if more > 1 else ""
            each.kept = replace(first, says=first.says + others)

    def _why_stays(self, pod: Pod, most: Size) -> Why | None:
        asked = pod.requests
        if asked.cpu_milli < 0 or asked.memory_mib < 0 or any(amount < 0 for _, amount in asked.extended):
            return Why(NodeCause.POD_BLOCKS, f"{pod.full_name} has a negative request", pod.full_name)
        if not asked.cpu_milli and not asked.memory_mib:
            says = f"{pod.full_name} requests no CPU and no memory, so it may not fit elsewhere"
            return Why(NodeCause.POD_BLOCKS, says, pod.full_name)
        alike = alike_by(pod)
        if alike not in self._free or self._players:
            judgement = judge(pod, self._disruptions, self._settings, self._players)
            if judgement.treatment is not Treatment.EVICT:
                waits = judgement.treatment is Treatment.WAIT
                cause = NodeCause.POD_WAITS if waits else NodeCause.POD_BLOCKS
                return Why(cause, judgement.says, pod.full_name)
            if not game_servers.labels_of(pod):
                self._free.add(alike)
        if asked.cpu_milli > most[0] or asked.memory_mib > most[1]:
            size, fill = f"{asked.cpu_milli}m CPU and {asked.memory_mib} MiB", self._settings.consolidation
            says = f"{pod.full_name} asks for {size}, more than {fill.max_fill:.0%} of any node offers"
            return Why(NodeCause.NO_PLACE, says, pod.full_name)
        return None

    def keep_what_is_new(self, judged: Sequence[Judged]) -> None:
        """Nodes that were launched, or emptied, just now."""
        rules = self._settings.consolidation
        young = {each.node.name for each in self._young(judged)}
        for each in judged:
            each.idle_since = 0 if each.pods else self._emptied.get(each.node.uid, 0)
            if each.kept:
                continue
            if each.node.name in young:
                least = a_while(rules.min_uptime_seconds)
                says = f"it is {a_while(each.age(self._now))} old, at least {least} required"
                each.kept = Why(NodeCause.TOO_YOUNG, says)
            elif not each.pods and (idle := each.idle(self._now)) < rules.min_idle_seconds:
                least = a_while(rules.min_idle_seconds)
                says = f"it has been empty for {a_while(idle)}, at least {least} required"
                each.kept = Why(NodeCause.NOT_IDLE, says)

    def _young(self, judged: Sequence[Judged]) -> Iterator[Judged]:
        """Only the youngest are asked for their age, up to the first that is old enough."""
        least = self._settings.consolidation.min_uptime_seconds
        for each in sorted(judged, key=lambda one: one.node.created_at, reverse=True):
            if each.age(self._now) >= least:
                return
            yield each


def _analysis(each: Judged, now: int) -> NodeAnalysis:
    node, why = each.node, each.left_out or each.kept
    price = each.price.per_hour if each.price else None
    age, idle = each.age(now), each.idle(now)
    found = NodeAnalysis(node.name, node.instance_type, age, idle, each.pods, price, True, "")
    return found if why is None else replace(found, why=why.says, cause=why.cause)


@dataclass
class Judged:
    """A worker, while it is looked at."""

    node: Node
    price: Price | None
    left_out: Why | None = None
    """Why it is in no plan at all."""
    kept: Why | None = None
    """Why it is not removed, though pods may be moved to it."""
    target: bool = True
    idle_since: int = 0
    zone_rank: int = 0
    """How far down the list of preferred zones its own is: of equals, the last one goes first."""
    weight: int = 0
    """Of its pool."""
    held: Held = NOTHING_HELD
    movable: Sequence[Pod] = ()
    staying: Sequence[Pod] = ()

    @property
    def pods(self) -> int:
        return len(self.movable) + len(self.staying)

    def age(self, now: int) -> int:
        return max(0, now - self.node.created_at)

    def idle(self, now: int) -> int:
        return max(0, now - self.idle_since) if self.idle_since else 0


def outline_of(usable: Sequence[Judged], offers: Sequence[Offered], shares: Shares) -> Outline:
    sizes: dict[Size, int] = {}
    for each in usable:
        for size, often in each.held.sizes.items():
            sizes[size] = sizes.get(size, 0) + often
    places = tuple(_place(each, shares) for each in usable)
    return Outline(places, tuple((offer.room, offer.price) for offer in offers), sizes)


def build(
    view: ClusterView, usable: Sequence[Judged], offers: Sequence[Offered], outline: Outline
) -> tuple[Scene, Neighbours]:
    rooms = [_labels_of(each.node) for each in usable]
    known = {room.name for room in rooms}
    others = [_labels_of(node) for node in view.nodes if node.name not in known]
    loads = [(room, view.loads.get(room.name, EMPTY)) for room in (*rooms, *others)]
    rulers = [pod for _, load in loads for pod in load.of(ruling)]
    neighbours = Neighbours([(room, load.pods) for room, load in loads], rulers=rulers)
    shapes = _Shapes(_asked_by(usable))
    shape_of = [shapes.number(room) for room in rooms]
    offers = [_shaped(offer, shapes) for offer in offers]
    kinds = _Kinds(shapes)
    parcels: list[Parcel] = []
    sites: list[ExistingNode] = []
    # By identity: pods of one template share their values.
    known_parts: dict[tuple[int, int, int, str], tuple[int, RuleProfile, bool]] = {}
    for number, each in enumerate(usable):
        first = len(parcels)
        for pod in each.movable:
            told_by = (id(pod.requests), id(pod.scheduling), id(pod.labels), pod.namespace)
            parts = known_parts.get(told_by)
            if parts is None:
                profile = neighbours.profile(pod)
                alone = bool(pod.requests.extended) or not profile.free
                parts = known_parts[told_by] = kinds.number(pod), profile, alone
            parcels.append(Parcel(pod, number, *parts))
        held = tuple(range(first, len(parcels)))
        sites.append(_site(each, outline.places[number], shape_of[number], held))
        if rooms[number].extended:
            _take_extended(rooms[number], (*each.held.loose, *each.held.tied))
    return Scene(tuple(sites), tuple(parcels), kinds.all(), tuple(offers), outline, rooms), neighbours


def _asked_by(usable: Iterable[Judged]) -> Iterator[Scheduling]:
    """What pods ask for that may be moved."""
    for each in usable:
        yield from (pod.scheduling for pod in each.movable) if each.staying else each.held.asks


def _take_extended(room: Room, pods: Iterable[Pod]) -> None:
    for pod in pods:
        for name, amount in pod.requests.extended:
            room.extended[name] = room.extended.get(name, 0) - max(amount, 0)


def offers_of(
    view: ClusterView, record: Record, settings: Settings, currency: str, now: int
) -> list[Offered]:
    """All that the pools could launch now at a known price in this currency, with its room."""
    resting = {rest.offer for rest in record.offer_rests} | refused_offers(record, settings, now)
    shares = Shares(settings.consolidation.max_fill)
    found: list[Offered] = []
    for pool in settings.pools:
        residents = sum_of(residents_of(view, pool))
        for node_type in pool.types:
            price = node_type.price_in(pool.market)
            if price is None or price.currency != currency or price.per_hour <= 0:
                continue
            room = _less(shares.of(node_type.allocatable, node_type.max_pods), residents)
            for zone in pool.zones:
                if min(room) > 0 and offer_name(zone, pool.market, node_type.name) not in resting:
                    found.append(Offered(pool, node_type, zone, price.per_hour, room, 0))
    return found


class Shares:
    """How much of a node may be used; most nodes of a cluster offer the same."""

    def __init__(self, fill: Decimal) -> None:
        self._fill = fill
        self._known: dict[tuple[int, int, int], Size] = {}

    def of(self, offer: Resources, max_pods: int) -> Size:
        key = offer.cpu_milli, offer.memory_mib, max_pods
        known = self._known.get(key)
        if known is None:
            known = int(offer.cpu_milli * self._fill), int(offer.memory_mib * self._fill), max_pods
            self._known[key] = known
        return known


def _place(each: Judged, shares: Shares) -> Place:
    share = shares.of(each.node.allocatable, each.node.max_pods)
    price = each.price.per_hour if each.price else Decimal(0)
    return Place(price, share, _less(share, each.held.tied_size), each.held.loose_size, not each.kept)


def _site(each: Judged, place: Place, shape: int, held: tuple[int, ...]) -> ExistingNode:
    node, share = each.node, place.share
    return ExistingNode(
        node=node,
        price=place.price,
        room=_less(place.free, place.load),
        shape=shape,
        parcels=held,
        removable=place.removable,
        target=each.target,
        idle_since=each.idle_since,
        zone_rank=each.zone_rank,
        weight=each.weight,
        slack=(node.allocatable.cpu_milli - share[0], node.allocatable.memory_mib - share[1], 0),
        offer=place.offer,
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

    def all(self) -> tuple[PodShape, ...]:
        return tuple(PodShape(*key) for key in self._known)
