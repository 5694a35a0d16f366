"""What could be launched: a type of a pool in a zone, with its price and what is on it from the start; and
the cluster as it will be, with the nodes that are on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.nodes.capacity import coming_slots, doomed, is_late, workers_by_zone
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.room import Room, residents_of, room_of_new
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Pod
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Record, RefusedOffer
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market, Snapshot


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
    fallback: bool = False
    """On demand, in a spot pool, while its spot offer has no capacity."""

    @property
    def market(self) -> Market:
        return Market.ON_DEMAND if self.fallback else self.pool.market

    @property
    def name(self) -> str:
        return offer_name(self.zone, self.market, self.node_type.name)

    @property
    def rank(self) -> tuple[bool, int, bool, bool]:
        """The lowest is used up first: offers with capacity, pools of more weight, the pool's own market,
        known prices."""
        return self.rests, -self.pool.weight, self.fallback, self.price is None

    @property
    def price(self) -> Decimal | None:
        known = self.node_type.price_in(self.market)
        return None if known is None or self.currency not in ("", known.currency) else known.per_hour

    def slot(self, key: str) -> Slot:
        return Slot(key, self.pool.name, self.zone, self.node_type.name, self.market)

    def room(self, name: str) -> Room:
        return room_of_new(name, self.pool, self.node_type, self.zone, self.residents)


def replacement_offer(
    snapshot: Snapshot, record: Record, settings: Settings, pool: Pool, type_name: str
) -> Offer:
    """Like for like, in the zone of the pool with the fewest workers that has capacity. Where none has spot
    capacity, on demand: the cloud takes spot nodes back just when it has none to give."""
    zones, resting = workers_by_zone(snapshot, record), resting_offers(record, settings, snapshot.at)
    node_type, residents = pool.type_named(type_name) or pool.types[0], residents_of(snapshot.cluster, pool)
    offers = [
        Offer(
            pool,
            node_type,
            zone,
            residents,
            rests=offer_name(zone, market, node_type.name) in resting,
            fallback=fallback,
        )
        for zone in pool.zones
        for market, fallback in _markets(pool, zone, node_type.name, resting)
    ]
    return min(offers, key=lambda each: (each.rests, each.fallback, zones[each.zone], each.zone))


Serves = Callable[[Slot, Pool, str, NodeType], bool]
"""Whether a node of this pool, zone and type does for the slot: see `core.nodes.substitutes`."""


def next_offer(
    slot: Slot, settings: Settings, serves: Serves | None = None
) -> tuple[str, Market, str] | None:
    """Zone, market and type to try after "no capacity", of those that serve: the other zones, then on-demand
    where the pool allows it, then the pool's other types by price."""
    pool = settings.pool_named(slot.pool)
    if pool is None:
        return None
    markets = [pool.market]
    if falls_back(pool):
        markets.append(Market.ON_DEMAND)
    if slot.refused and slot.refused[0].split("/")[1] == Market.ON_DEMAND:
        markets.reverse()  # spot had no capacity when it began: it is asked for last
    own_first = sorted(
        pool.types, key=lambda t: (t.name != slot.instance_type, *_price_order(t, pool.market))
    )
    for node_type in own_first:
        for market in markets:
            for zone in pool.zones:
                offer = offer_name(zone, market, node_type.name)
                if offer not in slot.refused and (serves is None or serves(slot, pool, zone, node_type)):
                    return zone, market, node_type.name
    return None


def falls_back(pool: Pool) -> bool:
    return pool.market is Market.SPOT and pool.on_demand_fallback


def names_of_offers(pool: Pool) -> Iterator[str]:
    """All that the pool may ask for, on demand where it falls back."""
    markets = (pool.market, Market.ON_DEMAND) if falls_back(pool) else (pool.market,)
    for zone in pool.zones:
        for node_type in pool.types:
            yield from (offer_name(zone, market, node_type.name) for market in markets)


def offer_name(zone: str, market: Market, type_name: str) -> str:
    return f"{zone}/{market}/{type_name}"


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


def all_offers(snapshot: Snapshot, record: Record, settings: Settings) -> list[Offer]:
    """All that the pools could launch; on demand where a spot offer has no capacity and its pool falls
    back. When the rest of the spot offer is over, it is asked for first again."""
    resting = resting_offers(record, settings, snapshot.at)
    currency = next(iter(currencies(settings.pools)), "")
    return [
        Offer(
            pool,
            node_type,
            zone,
            residents,
            offer_name(zone, market, node_type.name) in resting,
            currency,
            fallback,
        )
        for pool in settings.pools
        for residents in [residents_of(snapshot.cluster, pool)]
        for zone in pool.zones
        for node_type in pool.types
        for market, fallback in _markets(pool, zone, node_type.name, resting)
    ]


def _markets(
    pool: Pool, zone: str, type_name: str, resting: Collection[str]
) -> tuple[tuple[Market, bool], ...]:
    own = (pool.market, False)
    if resting and falls_back(pool) and offer_name(zone, pool.market, type_name) in resting:
        return own, (Market.ON_DEMAND, True)
    return (own,)


def resting_offers(record: Record, settings: Settings, now: int) -> frozenset[str]:
    """What had no capacity lately, also for a launch that is still in progress: one that is extended all
    day would ask for the same again with every extension."""
    found = {rest.offer for rest in record.offer_rests} | refused_offers(record, settings, now)
    for slot in record.launching.slots if record.launching is not None else ():
        if now - slot.since < settings.offer_rest_seconds:
            found.update(slot.refused)
    return frozenset(found)


def refused_offers(record: Record, settings: Settings, now: int) -> frozenset[str]:
    """What the cloud refuses for what it is, also for a launch that is still open. It is not asked for again
    before its time is over, or its pool is launched with another configuration."""
    found = {
        one.offer
        for one in record.refused_offers
        if now < one.until and not _made_otherwise(one, settings.pool_named(one.pool))
    }
    for slot in record.launching.slots if record.launching is not None else ():
        found.update(slot.unfit)
    return frozenset(found)


def _made_otherwise(one: RefusedOffer, pool: Pool | None) -> bool:
    return pool is not None and pool.launch_hash != one.launch_hash


def expected_placement(
    snapshot: Snapshot, record: Record, settings: Settings, coming: Sequence[Pod]
) -> Placement:
    """Rooms of the nodes that stay, and of those that are on their way."""
    lost = doomed(record)
    leaving = [name for name, instance in snapshot.instance_of.items() if instance.id in lost]
    placement = placement_of(snapshot.cluster, leaving, coming)
    for slot in coming_slots(record):
        if is_late(slot, settings, snapshot.at):
            continue
        pool = settings.pool_named(slot.pool)
        node_type = pool.type_named(slot.instance_type) if pool else None
        # A node that joined since the last tick may be full already: its slot is no second room.
        node = snapshot.node_of.get(slot.instance_id)
        name = node.name if node is not None else slot.node_name
        if pool and node_type and name not in placement.rooms:
            residents = residents_of(snapshot.cluster, pool)
            placement.open(Offer(pool, node_type, slot.zone, residents).room(slot.key))
    return placement
