"""What the workers cost an hour, and what was paid over a time in which that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.model.money import Price
from ebbtide.model.node import Node
from ebbtide.model.pool import NodeType
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class CostPoint:
    """From this moment on, until the next point, the workers cost so much an hour."""

    at: int
    per_hour: Mapping[str, Decimal]
    """By currency: money of two currencies is never added up."""
    unpriced: int = 0
    """Workers whose price is not known."""
    workers: int | None = None
    """How many there were; None where an earlier version did not note it."""
    pending: int | None = None
    on_demand: Mapping[str, Decimal] | None = None
    """What the same workers would cost an hour with every one of them on demand, by currency."""
    pools: Mapping[str, Mapping[str, Decimal]] | None = None
    """Cost an hour by pool and currency."""


def price_of(node: Node, settings: Settings) -> Price | None:
    node_type = _type_of(node, settings)
    return None if node_type is None else node_type.price_in(node.market)


def _type_of(node: Node, settings: Settings) -> NodeType | None:
    pool = settings.pool_named(node.pool)
    return None if pool is None else pool.type_named(node.instance_type)


def cost_point(snapshot: Snapshot, settings: Settings) -> CostPoint:
    total: dict[str, Decimal] = {}
    on_demand: dict[str, Decimal] = {}
    pools: dict[str, dict[str, Decimal]] = {}
    unpriced = 0
    for node in snapshot.cluster.workers:
        node_type = _type_of(node, settings)
        price = None if node_type is None else node_type.price_in(node.market)
        if node_type is None or price is None:
            unpriced += 1
        else:
            _add(total, price)
            _add(pools.setdefault(node.pool, {}), price)
            _add(on_demand, _listed(node_type, price))
    cluster = snapshot.cluster
    counts = len(cluster.workers), len(cluster.waiting_pods)
    return CostPoint(snapshot.at, total, unpriced, *counts, on_demand, pools)


def _add(total: dict[str, Decimal], price: Price) -> None:
    total[price.currency] = total.get(price.currency, Decimal(0)) + price.per_hour


def _listed(node_type: NodeType, paid: Price) -> Price:
    """The price on demand, where it is known and in the same money; else what is paid, so no spot saving is
    claimed that is not known."""
    listed = node_type.price
    return listed if listed is not None and listed.currency == paid.currency else paid


def paid(points: Sequence[CostPoint], currency: str, since: int, until: int) -> Decimal:
    """What was paid from `since` to `until`, by points in the order of time. What was before the first point
    is not known and not counted."""
    total = Decimal(0)
    for number, point in enumerate(points):
        end = points[number + 1].at if number + 1 < len(points) else until
        seconds = min(end, until) - max(point.at, since)
        if seconds > 0:
            total += point.per_hour.get(currency, Decimal(0)) * seconds
    return total / SECONDS_PER_HOUR
