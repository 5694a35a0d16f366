"""The price file that a configuration names or that lies next to it, and whether it has grown old."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.config.price_file import read_price_file
from ebbtide.core.nodes.offers import currencies
from ebbtide.core.prices.book import PriceBook, built_in_book

if TYPE_CHECKING:
    from ebbtide.config.load import Config

FILE_NAME = "ebbtide-prices.yaml"
OLD_DAYS = 30


def default_price_file(source: str) -> Path:
    """Next to the configuration that was read; in the current folder where there is none."""
    return Path(source).parent / FILE_NAME


def price_file_of(named: str, source: str) -> Path | None:
    """The file that counts; none where none is named and none lies next to the configuration."""
    if named:
        return Path(named).expanduser()
    default = default_price_file(source)
    return default if default.exists() else None


def price_file_to_write(config: Config) -> Path:
    """Where `ebbtide prices update` keeps what it read: the file that is read from then on."""
    named = config.price_file_named
    return Path(named).expanduser() if named else default_price_file(config.source)


def read_book(file: Path | None) -> PriceBook:
    """The built-in list, with the user's own prices over it."""
    book = built_in_book()
    return book if file is None else book.under(read_price_file(file))


def price_warnings(config: Config, today: date) -> tuple[str, ...]:
    """What a person should know of the prices before they are relied on."""
    return tuple(filter(None, (_old(config, today), _mixed(config))))


def _mixed(config: Config) -> str:
    first, *others = currencies(config.settings.pools) or ("",)
    if not others:
        return ""
    return (
        f"the pools have prices in {first} and {', '.join(others)}, which are not compared: "
        f"what is not in {first} counts as unknown; give all prices in one currency"
    )


def _old(config: Config, today: date) -> str:
    file = config.price_file
    if file is None:
        return ""
    days = sorted(price.as_of for price in config.prices.prices.values() if price.source == file.name)
    if days and not days[0]:
        return f"the price file {file} does not say from which day its prices are: write as_of into it"
    age = (today - date.fromisoformat(days[0])).days if days else 0
    if age <= OLD_DAYS:
        return ""
    return (
        f"prices in {file} are {age} days old, and costs are worked out with them: "
        "run `ebbtide prices update`, or correct as_of"
    )
