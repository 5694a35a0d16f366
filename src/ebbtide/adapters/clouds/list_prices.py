"""Prices as the clouds themselves list them, read into a price book for `ebbtide prices update`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ebbtide.adapters.clouds.aws_errors import translated
from ebbtide.adapters.clouds.hetzner_errors import translated as translated_hetzner
from ebbtide.core.prices.book import PriceBook
from ebbtide.model.money import Price
from ebbtide.model.node import Market

if TYPE_CHECKING:
    from hcloud import Client


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
