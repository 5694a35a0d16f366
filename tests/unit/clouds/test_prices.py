"""The price book and its file: every price says who gave it, and unknown is never zero."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from ebbtide.config.prices import read_book, read_price_file, write_price_file
from ebbtide.core.prices import CATALOGUE, PriceBook, built_in_book
from ebbtide.entrypoints import prices
from ebbtide.errors import ConfigError, Usage
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import Market
from tests.builders import make_pool, make_type

TODAY = "2026-11-15"


def usd(amount: str, as_of: str = TODAY) -> Price:
    return Price(Decimal(amount), "USD", "test", as_of)


def test_the_built_in_list_has_hetzner_in_euro_and_ec2_in_dollars() -> None:
    types = CATALOGUE
    assert len([t for t in types if t.startswith("cpx")]) == 6
    assert len(types) == 54
    for name, node_type in types.items():
        assert node_type.price is not None
        assert node_type.price.currency == ("EUR" if name.startswith("cpx") else "USD")
        assert node_type.price.source
        assert node_type.price.as_of
        assert node_type.allocatable.cpu_milli > 0
        assert node_type.price.per_hour > 0


def test_the_list_price_of_a_known_type_is_that_of_the_table() -> None:
    found = built_in_book().price("m7i.large")
    assert found is not None
    assert (found.per_hour, found.as_of) == (Decimal("0.1008"), "2026-07-20")


def test_what_no_book_has_is_unknown_and_not_zero() -> None:
    assert built_in_book().price("m99.colossal") is None
    assert built_in_book().price("m7i.large", Market.SPOT) is None


def test_a_type_that_says_its_price_keeps_it() -> None:
    book = PriceBook({("small", Market.ON_DEMAND): usd("9"), ("small", Market.SPOT): usd("0.01")})
    priced = book.priced(make_type("small", price="0.05"))
    assert priced.price is not None
    assert priced.price.per_hour == Decimal("0.05")
    assert priced.spot_price == usd("0.01")


def test_the_users_file_wins_over_the_built_in_list(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("currency: USD\nas_of: 2026-11-01\nprices:\n  m7i.large: 0.09\n  x.y: {spot: '0.02'}\n")
    book = read_book(path)
    assert book.price("m7i.large") == Price(Decimal("0.09"), "USD", "prices.yaml", "2026-11-01")
    spot = book.price("x.y", Market.SPOT)
    assert spot is not None
    assert spot.per_hour == Decimal("0.02")
    assert book.price("x.y") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("currency: USD\nprices: {a: 0}", "prices.a.on_demand: 0 is not allowed"),
        ("currency: USD\nprices: {a: -1}", "above 0"),
        ("currency: USD\nprices: {a: .nan}", "above 0"),
        ("currency: USD\nprices: {a: free}", "'free' is not allowed"),
        ("currency: USD\nprices: {a: true}", "True is not allowed"),
        ("currency: USD\nprices: {a: {reserved: 1}}", "unknown key"),
        ("currency: usd\nprices: {a: 1}", "three capital letters"),
        ("currency: USD\nas_of: yesterday\nprices: {a: 1}", "YYYY-MM-DD"),
        ("currency: USD\nprice: {a: 1}\nprices: {}", "price: unknown key"),
        ("currency: USD", "prices: missing"),
        ("- a", "prices: missing"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_price_file_is_refused_whole_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_price_file(path)
    assert says in str(caught.value)


def test_a_price_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_price_file(tmp_path / "none.yaml")


def test_a_book_is_written_and_read_back_and_an_old_price_keeps_its_day(tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    book = PriceBook({("a", Market.SPOT): usd("0.1"), ("b", Market.ON_DEMAND): usd("0.20", "2026-01-01")})
    assert write_price_file(path, book, TODAY) == 2
    back = read_price_file(path)
    assert back.prices == {
        key: Price(price.per_hour, "USD", "prices.yaml", price.as_of) for key, price in book.prices.items()
    }
    assert list(tmp_path.iterdir()) == [path]


def test_two_currencies_do_not_fit_into_one_file(tmp_path: Path) -> None:
    euro = Price(Decimal(1), "EUR", "test")
    with pytest.raises(ConfigError, match="EUR, USD"):
        write_price_file(
            tmp_path / "x", PriceBook({("a", Market.SPOT): usd("1"), ("b", Market.SPOT): euro}), TODAY
        )


def test_showing_names_each_price_with_its_source_and_counts_the_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pool = make_pool("batch", types=(make_type("m7i.large", price=None),), market=Market.SPOT)
    assert prices.show([pool], built_in_book()) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].split()[:3] == ["type", "market", "per"]
    assert ["m7i.large", "on-demand", "0.1008", "USD", "[1]", "batch"] in [line.split() for line in told]
    assert "[1] Ebbtide built-in list (us-east-1), 2026-07-20" in told
    assert any("spot" in line and "unknown" in line for line in told)


def test_showing_as_json_and_without_pools_gives_the_whole_book(capsys: pytest.CaptureFixture[str]) -> None:
    assert prices.show([], built_in_book(), as_json=True) == 0
    assert len(json.loads(capsys.readouterr().out)) == 54


def test_a_cloud_without_prices_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="aws, hetzner"):
        prices.update("moon", None, [], tmp_path / "prices.yaml", TODAY)
