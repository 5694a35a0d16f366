"""The price book: what a node of a type costs an hour, from whom that is known, and since when.

Books are laid over each other: the built-in list, then the price file (which `ebbtide prices update` fills
from the cloud), then what a pool says of its types. A price that no book has is unknown, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ebbtide.adapters.clouds.aws_errors import translated
from ebbtide.adapters.clouds.catalogue import CATALOGUE
from ebbtide.adapters.clouds.hetzner_errors import translated as translated_hetzner
from ebbtide.model.money import Price
from ebbtide.model.node import Market
from ebbtide.model.pool import NodeType, Pool

if TYPE_CHECKING:
    from hcloud import Client

Prices = Mapping[tuple[str, Market], Price]


@dataclass(frozen=True, slots=True)
class PriceBook:
    prices: Prices = field(default_factory=dict)

    def price(self, type_name: str, market: Market = Market.ON_DEMAND) -> Price | None:
        return self.prices.get((type_name, market))

    def under(self, above: PriceBook) -> PriceBook:
        """This book with another laid over it, whose prices win."""
        return PriceBook({**self.prices, **above.prices})

    def priced(self, node_type: NodeType) -> NodeType:
        """The type with the book's prices where it has none of its own."""
        return replace(
            node_type,
            price=node_type.price or self.price(node_type.name),
            spot_price=node_type.spot_price or self.price(node_type.name, Market.SPOT),
        )

    def priced_pool(self, pool: Pool) -> Pool:
        return replace(pool, types=tuple(self.priced(node_type) for node_type in pool.types))


def built_in_book() -> PriceBook:
    types = CATALOGUE.values()
    return PriceBook({(t.name, Market.ON_DEMAND): t.price for t in types if t.price is not None})


def book_of_pools(pools: Iterable[Pool]) -> PriceBook:
    """What the pools themselves say of their types."""
    return PriceBook(
        {
            (node_type.name, market): price
            for pool in pools
            for node_type in pool.types
            for market in Market
            if (price := node_type.price_in(market)) is not None
        }
    )


def read_ec2_spot(client: Any, type_names: Iterable[str], zones: Iterable[str], day: str) -> PriceBook:
    """The spot prices of now. Where zones differ the highest counts, so no saving is promised too much.

    `day` is today, ISO 8601. A type that EC2 has no price for is left out.
    """
    wanted = set(zones)
    found: dict[tuple[str, str], tuple[Any, Decimal]] = {}
    with translated("reading the spot prices"):
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=sorted(set(type_names)),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=f"{day}T00:00:00Z",
        )
        for page in pages:
            for row in page["SpotPriceHistory"]:
                key = (row["InstanceType"], row["AvailabilityZone"])
                latest = (row["Timestamp"], Decimal(row["SpotPrice"]))
                if (not wanted or key[1] in wanted) and latest[1] > 0:
                    found[key] = max(found.get(key, latest), latest)
    highest: dict[str, Decimal] = {}
    for (name, _), (_, per_hour) in found.items():
        highest[name] = max(highest.get(name, per_hour), per_hour)
    return PriceBook(
        {(n, Market.SPOT): Price(p, "USD", "EC2 spot price history", day) for n, p in highest.items()}
    )


def read_hetzner(client: Client, locations: Iterable[str], day: str) -> PriceBook:
    """Net prices of the API; where locations differ the highest counts. Without any named, all count."""
    wanted = set(locations)
    with translated_hetzner("reading the prices"):
        pricing = client.request("GET", "/pricing")["pricing"]
        rows = [
            (entry["name"], Decimal(offer["price_hourly"]["net"]))
            for entry in pricing["server_types"]
            for offer in entry["prices"]
            if not wanted or offer["location"] in wanted
        ]
        currency = str(pricing["currency"])
    highest: dict[str, Decimal] = {}
    for name, per_hour in rows:
        if per_hour > 0:
            highest[name] = max(highest.get(name, per_hour), per_hour)
    return PriceBook(
        {(n, Market.ON_DEMAND): Price(p, currency, "Hetzner API", day) for n, p in highest.items()}
    )
