"""The price file of a configuration: which one counts, what it wins over, and what is refused about it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from ebbtide.config import Config, load
from ebbtide.config.prices import price_file_to_write, price_warnings
from ebbtide.core.prices import CATALOGUE
from ebbtide.errors import ConfigError
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import Market

FILE = (
    "currency: EUR\nas_of: 2026-11-01\nprices: {cpx22: 0.0101, big: {on_demand: 0.3, spot: 0.1}, odd: 0.7}\n"
)
POOLS = """
pools:
  - name: workers
    types: [cpx22, cpx32, {name: big, cpu: 4, memory: 8Gi, price: 0.25}, {name: new, cpu: 4, memory: 8Gi}]
    zones: [a]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ebbtide.yaml").write_text(POOLS)
    return tmp_path


def config_in(folder: Path, **environ: str) -> Config:
    return load(folder / "ebbtide.yaml", environ)


def prices_of(config: Config) -> dict[str, Price | None]:
    return {node_type.name: node_type.price for node_type in config.settings.pools[0].types}


def test_without_a_price_file_types_have_their_list_price_or_their_own_or_none(folder: Path) -> None:
    config = config_in(folder)
    assert config.price_file is None
    assert prices_of(config) == {
        "cpx22": CATALOGUE["cpx22"].price,
        "cpx32": CATALOGUE["cpx32"].price,
        "big": Price(Decimal("0.25"), "EUR", "configuration"),
        "new": None,
    }


def test_the_file_next_to_the_configuration_wins_over_the_list_and_the_pool_over_the_file(
    folder: Path,
) -> None:
    (folder / "ebbtide-prices.yaml").write_text(FILE)
    config = config_in(folder)
    assert config.price_file == folder / "ebbtide-prices.yaml"
    assert prices_of(config) == {
        "cpx22": Price(Decimal("0.0101"), "EUR", "ebbtide-prices.yaml", "2026-11-01"),
        "cpx32": CATALOGUE["cpx32"].price,
        "big": Price(Decimal("0.25"), "EUR", "configuration"),
        "new": None,
    }
    big = config.settings.pools[0].type_named("big")
    assert big is not None
    assert big.spot_price == Price(Decimal("0.1"), "EUR", "ebbtide-prices.yaml", "2026-11-01")


def test_the_book_knows_types_of_no_pool_too_and_the_pools_own_prices(folder: Path) -> None:
    (folder / "ebbtide-prices.yaml").write_text(FILE)
    book = config_in(folder).prices
    found = {name: book.price(name) for name in ("odd", "big", "m7i.large", "m99.colossal")}
    assert {name: price and str(price.per_hour) for name, price in found.items()} == {
        "odd": "0.7",
        "big": "0.25",
        "m7i.large": "0.1008",
        "m99.colossal": None,
    }
    assert book.price("m7i.large", Market.SPOT) is None


def test_a_simulated_cluster_without_pools_has_prices_of_the_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ebbtide-prices.yaml").write_text(FILE)
    price = prices_of(load(None, {}))["cpx22"]
    assert price is not None
    assert price.per_hour == Decimal("0.0101")


def test_a_file_named_by_key_or_variable_counts_instead_of_the_default_one(folder: Path) -> None:
    (folder / "ebbtide-prices.yaml").write_text(FILE)
    own = folder / "own.yaml"
    own.write_text(FILE.replace("0.0101", "0.0202"))
    (folder / "ebbtide.yaml").write_text(f"prices: {{file: {own}}}\n{POOLS}")
    for config in (config_in(folder), config_in(folder, PRICES_FILE=str(own))):
        price = prices_of(config)["cpx22"]
        assert price == Price(Decimal("0.0202"), "EUR", "own.yaml", "2026-11-01")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file or directory"),
        (
            "currency: EUR\nprices: {cpx22: free, cpx32: 0}",
            "'free' is not allowed; allowed: a number above 0; prices",
        ),
        ("a: [", "is not valid YAML"),
        ("as_of: 2026-13-01\nprices: {}", "is not valid YAML: month must be in 1..12"),
        (f"prices: {'1' * 5000}", "is not valid YAML"),
    ],
)
def test_a_named_file_that_is_missing_or_wrong_is_refused_in_one_sentence(
    folder: Path, text: str | None, says: str
) -> None:
    own = folder / "own.yaml"
    if text is not None:
        own.write_text(text)
    with pytest.raises(ConfigError) as caught:
        config_in(folder, PRICES_FILE=str(own))
    (line,) = [line for line in str(caught.value).splitlines() if str(own) in line]
    assert line.startswith("  environment variable PRICES_FILE: the price file ")
    assert says in line
    assert "nothing was touched" in str(caught.value)


def test_a_wrong_file_next_to_the_configuration_is_refused_along_with_all_other_problems(
    folder: Path,
) -> None:
    (folder / "ebbtide-prices.yaml").write_text("prices: 3")
    with pytest.raises(ConfigError, match=r"(?s)2 problems.*CPU_UP.*prices: missing"):
        config_in(folder, CPU_UP="high")


def test_who_is_about_to_write_the_file_need_not_have_it(folder: Path) -> None:
    own = folder / "own.yaml"
    config = load(folder / "ebbtide.yaml", {"PRICES_FILE": str(own)}, with_prices=False)
    assert price_file_to_write(config) == own
    assert price_file_to_write(config_in(folder)) == folder / "ebbtide-prices.yaml"


@pytest.mark.parametrize(
    ("today", "says"),
    [("2026-12-01", ""), ("2026-12-02", "are 31 days old"), ("2026-10-01", "")],
)
def test_a_file_older_than_thirty_days_is_warned_about(folder: Path, today: str, says: str) -> None:
    (folder / "ebbtide-prices.yaml").write_text(FILE)
    warning = " ".join(price_warnings(config_in(folder), date.fromisoformat(today)))
    assert bool(warning) == bool(says)
    assert says in warning
    assert price_warnings(load(None, {}), date.fromisoformat(today)) == ()


def test_a_file_that_does_not_say_its_day_is_warned_about(folder: Path) -> None:
    (folder / "ebbtide-prices.yaml").write_text("currency: EUR\nprices: {cpx22: 1}")
    (warning,) = price_warnings(config_in(folder), date(2026, 11, 1))
    assert "does not say from which day" in warning


def test_an_empty_price_file_is_no_reason_to_warn(folder: Path) -> None:
    (folder / "ebbtide-prices.yaml").write_text("currency: EUR\nprices: {}")
    assert price_warnings(config_in(folder), date(2026, 11, 1)) == ()


def test_prices_in_two_currencies_are_warned_about(folder: Path) -> None:
    (folder / "ebbtide.yaml").write_text("pools: [{name: a, types: [m7i.large, cpx22], zones: [z]}]")
    (warning,) = price_warnings(config_in(folder), date(2026, 11, 15))
    assert warning.startswith("the pools have prices in USD and EUR, which are not compared")
