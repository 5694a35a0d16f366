"""What to launch: how many nodes, of which type, in which zone.

Waiting pods are placed on planned nodes by the fit rules; each planned node is the one that costs
least for what it takes in. Zones with the fewest workers come first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil

from ebbtide.core.capacity import doomed, expected_slots, held_against, missing_by_pool, workers_by_zone
from ebbtide.core.fit import Placement, Room, placement_of, residents_of, room_of_new
from ebbtide.model.node import Market
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Pod
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Record
from ebbtide.model.resources import NOTHING
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

MIB_PER_CPU = 4096
"""Memory that weighs as much as one CPU when nodes are compared for what they take in."""


@dataclass(frozen=True, slots=True)
class Offer:
    pool: Pool
    node_type: NodeType
    zone: str
    residents: tuple[Pod, ...] = ()
    """DaemonSet and mirror pods that will be on the node before any other."""
    rests: bool = False
    """It had no capacity lately: chosen only where nothing else will do."""
    currency: str = ""
    """In which prices are compared: one in another counts as unknown. Empty: any will do."""

    @property
    def price(self) -> Decimal | None:
        known = self.node_type.price_in(self.pool.market)
        return None if known is None or self.currency not in ("", known.currency) else known.per_hour

    def slot(self, key: str) -> Slot:
        return Slot(key, self.pool.name, self.zone, self.node_type.name, self.pool.market)

    def room(self, name: str) -> Room:
        return room_of_new(name, self.pool, self.node_type, self.zone, self.residents)


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    offers: tuple[Offer, ...]
    hopeless: tuple[str, ...] = ()
    """Waiting pods that no node of any pool could take, each with the reason."""
    stopped: str = ""
    """Why nothing further was chosen although something was still asked for."""


def plan_launch(snapshot: Snapshot, record: Record, settings: Settings, at_least: int) -> LaunchPlan:
    """Offers for the pods that wait, and further ones up to `at_least`, in pools below their minimum first;
    within batch and maxima."""
    limit = min(settings.max_batch_up, settings.max_workers - held_against(snapshot, record))
    zones = workers_by_zone(snapshot, record)
    sizes = Counter({pool.name: held_against(snapshot, record, pool.name) for pool in settings.pools})
    lack = missing_by_pool(snapshot, record, settings.pools)
    placement = _expected_placement(snapshot, record, settings)
    offers = _offers(snapshot, record, settings)
    waiting = [pod for pod in _largest_first(snapshot.cluster.waiting_pods) if not _will_fit(pod, placement)]
    hopeless = {pod.uid: reason for pod in waiting if (reason := why_hopeless(pod, offers))}
    waiting = [pod for pod in waiting if pod.uid not in hopeless]
    chosen: list[Offer] = []
    stopped = ""
    while len(chosen) < limit and (waiting or len(chosen) < at_least):
        candidates = _open(offers, zones, sizes)
        below = [offer for offer in candidates if lack[offer.pool.name] > 0]
        best = (
            _best_for(waiting, candidates, placement, settings)
            if waiting
            else _cheapest_cpu(below or candidates)
        )
        if best is None:
            stopped = stopped or _why_stopped(waiting, candidates)
            if not waiting:
                break
            # What no offer takes in keeps nothing else from being launched.
            waiting = []
            continue
        offer, taken = best
        chosen.append(offer)
        zones[offer.zone] += 1
        sizes[offer.pool.name] += 1
        lack[offer.pool.name] -= 1
        waiting = [pod for pod in waiting if pod.uid not in taken]
    return LaunchPlan(tuple(chosen), tuple(hopeless.values()), stopped)


def _why_stopped(waiting: Sequence[Pod], candidates: Sequence[Offer]) -> str:
    if not candidates:
        return "every pool is at its maximum"
    return f"{waiting[0].full_name} fits no node that may be launched now"


def nodes_for_cpu(workers: int, cpu: float, settings: Settings) -> int:
    """How many more workers bring the average CPU back to `CPU_UP`."""
    return max(1, ceil(workers * cpu / settings.cpu_up) - workers)


def replacement_offer(snapshot: Snapshot, record: Record, pool: Pool, type_name: str) -> Offer:
    """Like for like, in the zone of the pool with the fewest workers."""
    zones, resting = workers_by_zone(snapshot, record), {rest.offer for rest in record.offer_rests}
    node_type = pool.type_named(type_name) or pool.types[0]

    def order(zone: str) -> tuple[bool, int, str]:
        return offer_name(zone, pool.market, node_type.name) in resting, zones[zone], zone

    return Offer(pool, node_type, min(pool.zones, key=order))


def next_offer(slot: Slot, settings: Settings) -> tuple[str, Market, str] | None:
    """Zone, market and type to try after "no capacity": the other zones, then on-demand where the pool
    allows it, then the pool's other types by price."""
    pool = settings.pool_named(slot.pool)
    if pool is None:
        return None
    markets = [pool.market]
    if pool.market is Market.SPOT and pool.on_demand_fallback:
        markets.append(Market.ON_DEMAND)
    own_first = sorted(
        pool.types, key=lambda t: (t.name != slot.instance_type, *_price_order(t, pool.market))
    )
    for node_type in own_first:
        for market in markets:
            for zone in pool.zones:
                if offer_name(zone, market, node_type.name) not in slot.refused:
                    return zone, market, node_type.name
    return None


def offer_name(zone: str, market: Market, type_name: str) -> str:
    return f"{zone}/{market}/{type_name}"


def why_hopeless(pod: Pod, offers: Iterable[Offer]) -> str:
    """Why no node that could be launched would take the pod; empty when one would."""
    reason = "no pool is configured"
    for offer in offers:
        room = offer.room("new")
        reason = Placement([room]).why_not(pod, room)
        if not reason:
            return ""
    return f"{pod.full_name} fits no type of any pool: {reason}"


def currencies(pools: Iterable[Pool]) -> tuple[str, ...]:
    """Those of the pools' prices, that of the first type first. Only prices in that one are compared."""
    prices = (node_type.price_in(pool.market) for pool in pools for node_type in pool.types)
    return tuple(dict.fromkeys(price.currency for price in prices if price is not None))


def _price_order(node_type: NodeType, market: Market) -> tuple[bool, str, Decimal, str]:
    """Amounts are compared within a currency, never across two."""
    price = node_type.price_in(market)
    if price is None:
        return (True, "", Decimal(0), node_type.name)
    return (False, price.currency, price.per_hour, node_type.name)


def _expected_placement(snapshot: Snapshot, record: Record, settings: Settings) -> Placement:
    """Rooms of the nodes that stay, and of those that are on their way."""
    lost = doomed(record)
    leaving = [name for name, instance in snapshot.instance_of.items() if instance.id in lost]
    placement = placement_of(snapshot.cluster, leaving)
    for slot in expected_slots(record):
        pool = settings.pool_named(slot.pool)
        node_type = pool.type_named(slot.instance_type) if pool else None
        if pool and node_type and slot.node_name not in placement.rooms:
            residents = residents_of(snapshot.cluster, pool)
            placement.rooms[slot.key] = Offer(pool, node_type, slot.zone, residents).room(slot.key)
    return placement


def _will_fit(pod: Pod, placement: Placement) -> bool:
    """Whether the scheduler needs no new node for it. Without requests nothing can be said."""
    if pod.controller == "DaemonSet":
        return True
    if pod.requests == NOTHING:
        return False
    room = placement.first_fit(pod)
    if room is None:
        return False
    placement.place(pod, room)
    return True


def _largest_first(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (-_weight(pod), pod.created_at, pod.uid))


def _weight(pod: Pod) -> float:
    return pod.requests.cpu_milli / 1000 + pod.requests.memory_mib / MIB_PER_CPU


def _offers(snapshot: Snapshot, record: Record, settings: Settings) -> list[Offer]:
    """All that the pools could launch."""
    resting = {rest.offer for rest in record.offer_rests}
    currency = next(iter(currencies(settings.pools)), "")
    return [
        Offer(
            pool,
            node_type,
            zone,
            residents,
            offer_name(zone, pool.market, node_type.name) in resting,
            currency,
        )
        for pool in settings.pools
        for residents in [residents_of(snapshot.cluster, pool)]
        for zone in pool.zones
        for node_type in pool.types
    ]


def _open(offers: Iterable[Offer], zones: Counter[str], sizes: Counter[str]) -> list[Offer]:
    """Offers of pools below their maximum, the emptiest zones first, whichever pool they are in."""
    below = [
        offer
        for offer in offers
        if offer.pool.max_workers is None or sizes[offer.pool.name] < offer.pool.max_workers
    ]
    return sorted(below, key=lambda offer: (zones[offer.zone], offer.zone))


def _best_for(
    waiting: Sequence[Pod], offers: Sequence[Offer], placement: Placement, settings: Settings
) -> tuple[Offer, frozenset[str]] | None:
    """The offer with the least price for what it takes in; unknown prices only where none is known."""
    best: tuple[tuple[bool, bool, float, int], Offer, frozenset[str]] | None = None
    for order, offer in enumerate(offers):
        room = offer.room(f"planned-{len(placement.rooms)}")
        taken = _fill(room, waiting, placement, settings)
        if taken:
            value = sum(_weight(pod) for pod in taken) + len(taken) / settings.pods_per_node
            price = offer.price
            score = (offer.rests, price is None, float(price or 0) / value, order)
            if best is None or score < best[0]:
                best = (score, offer, frozenset(pod.uid for pod in taken))
    if best is None:
        return None
    _, offer, uids = best
    room = offer.room(f"planned-{len(placement.rooms)}")
    for pod in waiting:
        if pod.uid in uids:
            placement.place(pod, room)
    return offer, uids


def _fill(room: Room, waiting: Sequence[Pod], placement: Placement, settings: Settings) -> list[Pod]:
    trial = Placement([*placement.rooms.values(), room])
    taken: list[Pod] = []
    unknown = 0
    for pod in waiting:
        guessed = pod.requests == NOTHING
        if (guessed and unknown >= settings.pods_per_node) or trial.why_not(pod, room):
            continue
        trial.place(pod, room)
        taken.append(pod)
        unknown += guessed
    return taken


def _cheapest_cpu(offers: Sequence[Offer]) -> tuple[Offer, frozenset[str]] | None:
    """For CPU pressure without waiting pods: the least price for a CPU."""
    if not offers:
        return None
    ranked = sorted(
        enumerate(offers),
        key=lambda pair: (
            pair[1].rests,
            pair[1].price is None,
            float(pair[1].price or 0) / max(1, pair[1].node_type.allocatable.cpu_milli),
            pair[0],
        ),
    )
    return ranked[0][1], frozenset()
