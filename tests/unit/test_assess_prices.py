"""What `assess` says a node costs, by its cloud and type. The prices are those of the clouds' own lists."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ebbtide.config.prices import read_book
from ebbtide.core.prices import EC2
from ebbtide.entrypoints.assess.ec2_families import ec2_price
from ebbtide.entrypoints.assess.pricing import NodePrice, price_node
from tests.builders import make_node

BOOK = read_book(None)


def priced(instance_type: str, provider_id: str, **more: Any) -> NodePrice | None:
    return price_node(make_node("n", instance_type=instance_type, provider_id=provider_id, **more), BOOK)


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("m5.large", "0.096"),
        ("m5.24xlarge", "4.608"),
        ("c6i.4xlarge", "0.68"),
        ("r6g.medium", "0.0504"),
        ("t3.nano", "0.0052"),
        ("i4i.2xlarge", "0.6864"),
        ("g5.xlarge", "1.006"),
        ("g4dn.12xlarge", "3.912"),
        ("p5.48xlarge", "55.04"),
    ],
)
def test_a_type_of_any_family_of_ec2_has_its_list_price(name: str, price: str) -> None:
    assert ec2_price(name) == Decimal(price)
    found = priced(name, "aws:///us-east-1a/i-1", zone="us-east-1a")
    assert found is not None
    assert (found.exact, found.low, found.currency) == (True, Decimal(price), "USD")
    assert found.basis == "Ebbtide built-in list (us-east-1), 2026-07-20"


def test_the_families_agree_with_the_types_that_are_built_in() -> None:
    for name, known in EC2.items():
        found = ec2_price(name)
        assert known.price is not None
        assert found is not None
        assert abs(found - known.price.per_hour) <= known.price.per_hour / 1000, name


@pytest.mark.parametrize("name", ["", "m5", "m5.metal", "zz9.large", "m5.hugexlarge", "m5.0.5xlarge"])
def test_what_is_not_listed_has_no_list_price(name: str) -> None:
    assert ec2_price(name) is None


def test_another_region_and_spot_make_it_a_range() -> None:
    """Frankfurt is 20 % above us-east-1, give or take 10 %; spot is 30 to 60 % of that."""
    found = priced("m6i.large", "aws:///eu-central-1a/i-1", zone="eu-central-1a")
    assert found is not None
    assert (found.low, found.high) == (Decimal("0.103680"), Decimal("0.126720"))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("cx33", "0.007521", "0.012315"), ("cax21", "0.008890", "0.015055"), ("ccx13", "0.017110", "0.059575")],
)
def test_a_type_of_hetzner_that_is_not_built_in_is_a_range_with_its_reason(
    name: str, low: str, high: str
) -> None:
    """5.49 to 8.99, 6.49 to 10.99 and 12.49 to 43.49 EUR a month, of 730 hours."""
    found = priced(name, "hcloud://1")
    assert found is not None
    assert (found.low, found.high, found.currency) == (Decimal(low), Decimal(high), "EUR")
    assert found.basis.startswith("Hetzner changed its prices in 2026: from ")
    assert priced(name, "") == found, "by its type, where the node does not name its cloud"


def test_a_type_that_is_built_in_keeps_the_price_of_the_list() -> None:
    found = priced("cpx32", "hcloud://1")
    assert found is not None
    assert (found.exact, found.low) == (True, Decimal("0.0168"))
