"""Prices of Hetzner's API, through the real client."""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.adapters.clouds.looking import read_hetzner
from ebbtide.config.prices import read_book
from ebbtide.entrypoints import prices
from ebbtide.errors import Final
from tests.servers.clouds import HETZNER_POOL, HetznerBench

TODAY = "2026-11-15"


def test_prices_are_read_from_the_api_with_its_currency(bench: HetznerBench) -> None:
    price = read_hetzner(bench.cloud._client, ["fsn1"], TODAY).price("cpx32")
    assert price is not None
    assert (str(price.per_hour), price.currency, price.source) == ("0.0168", "EUR", "Hetzner API")


def test_prices_are_kept_in_the_file(bench: HetznerBench, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    assert "3 prices read from hetzner" in prices.update(
        "hetzner", bench.cloud._client, [HETZNER_POOL], path, TODAY
    )
    assert read_book(path).price("cpx42") is not None


def test_a_wrong_token_changes_nothing(bench: HetznerBench, tmp_path: Path) -> None:
    cloud = bench.connect("wrong")
    with pytest.raises(Final, match="HCLOUD_TOKEN"):
        prices.update("hetzner", cloud._client, [HETZNER_POOL], tmp_path / "prices.yaml", TODAY)
    cloud.close()
    assert list(tmp_path.iterdir()) == []
