"""Spot prices of EC2, read from its price history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.clouds.looking import read_ec2_spot
from ebbtide.config.prices import read_book
from ebbtide.entrypoints import prices
from ebbtide.errors import Throttled, Usage
from ebbtide.model.snapshot import Market
from tests.builders import make_pool, make_type
from tests.servers.clouds import EC2_ZONES, Ec2Bench

TODAY = datetime.now(UTC).date().isoformat()


class History:
    """Answers as EC2 does: several prices for a zone, in any order."""

    def __init__(self, *rows: tuple[str, str, int, str]) -> None:
        self.rows = rows

    def get_paginator(self, name: str) -> History:
        return self

    def paginate(self, **asked: Any) -> list[dict[str, Any]]:
        return [
            {
                "SpotPriceHistory": [
                    {"InstanceType": kind, "AvailabilityZone": zone, "Timestamp": at, "SpotPrice": price}
                ]
            }
            for kind, zone, at, price in self.rows
        ]


def test_the_newest_price_of_a_zone_and_the_highest_of_the_zones_count() -> None:
    history = History(
        ("m7i.large", "eu-central-1a", 2, "0.0300"),
        ("m7i.large", "eu-central-1a", 1, "0.0900"),
        ("m7i.large", "eu-central-1b", 1, "0.0350"),
        ("m7i.large", "eu-central-1c", 1, "0.0990"),
    )
    price = read_ec2_spot(history, ["m7i.large"], EC2_ZONES, TODAY).price("m7i.large", Market.SPOT)
    assert price is not None
    assert str(price.per_hour) == "0.0350"
    assert (price.currency, price.as_of) == ("USD", TODAY)


def test_a_price_of_zero_is_no_price() -> None:
    history = History(("m7i.large", "eu-central-1a", 1, "0"))
    assert read_ec2_spot(history, ["m7i.large"], EC2_ZONES, TODAY).prices == {}


def test_prices_are_read_from_ec2_and_kept_in_the_file(bench: Ec2Bench, tmp_path: Path) -> None:
    pool = make_pool(types=(make_type("m7i.large"), make_type("m99.colossal")), zones=EC2_ZONES)
    path = tmp_path / "prices.yaml"
    path.write_text("currency: USD\nas_of: 2026-01-01\nprices: {m7i.large: 0.11}\n")
    says = prices.update("aws", bench.cloud._client, [pool], path, TODAY)
    assert "1 prices read from aws, 2 in prices.yaml; no price was named for m99.colossal" in says
    book = read_book(path)
    own, spot = book.price("m7i.large"), book.price("m7i.large", Market.SPOT)
    assert own is not None
    assert spot is not None
    assert str(own.per_hour) == "0.11"


def test_a_cloud_that_cannot_say_leaves_the_file_as_it_is(bench: Ec2Bench, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    bench.proxy.refuse("DescribeSpotPriceHistory", "RequestLimitExceeded", status=503)
    with pytest.raises(Throttled):
        prices.update("aws", bench.cloud._client, [make_pool()], path, TODAY)
    unknown = make_pool(types=(make_type("m99.colossal"),))
    with pytest.raises(Usage, match="nothing was changed"):
        prices.update("aws", bench.cloud._client, [unknown], path, TODAY)
    assert not path.exists()
