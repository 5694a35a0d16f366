"""A price book as a YAML file: written by a person, or by `ebbtide prices update`; which file a
configuration uses, and whether it has grown old.

    currency: USD
    as_of: 2026-11-15
    prices:
      m7i.large: 0.1008
      c7g.xlarge: {on_demand: 0.1450, spot: 0.0580, as_of: 2026-11-01}

Anything that is no amount above zero is refused, each with its place: a wrong price is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ebbtide.core.nodes.offers import currencies
from ebbtide.core.prices import PriceBook, built_in_book
from ebbtide.errors import ConfigError
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import Market

if TYPE_CHECKING:
    from ebbtide.config.load import Config

FILE_NAME = "ebbtide-prices.yaml"
OLD_DAYS = 30
MARKETS = {"on_demand": Market.ON_DEMAND, "spot": Market.SPOT}


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


_NAMES = {market: name for name, market in MARKETS.items()}


def read_price_file(path: Path) -> PriceBook:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the price file {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # ValueError: no UTF-8, a day such as 2026-13-01, a number of thousands of digits.
        told = " ".join(str(error).split())
        raise ConfigError(f"the price file {path} is not valid YAML: {told}") from error
    problems: list[str] = []
    prices = dict(_entries(document, path.name, problems))
    if problems:
        raise ConfigError(
            f"the price file {path} is wrong, so none of its prices are used: {'; '.join(problems)}"
        )
    return PriceBook(prices)


def _entries(document: Any, source: str, problems: list[str]) -> Iterator[tuple[tuple[str, Market], Price]]:
    if not isinstance(document, dict) or not isinstance(document.get("prices"), dict):
        problems.append("prices: missing; write `prices:` with one line for each type")
        return
    currency = document.get("currency")
    if not isinstance(currency, str) or not re.fullmatch("[A-Z]{3}", currency):
        problems.append(f"currency: {currency!r} is not allowed; allowed: three capital letters, such as EUR")
        currency = "???"
    for key in document.keys() - {"currency", "as_of", "prices"}:
        problems.append(f"{key}: unknown key; allowed: currency, as_of, prices")
    day = _day(document.get("as_of"), "as_of", problems)
    for name, given in document["prices"].items():
        by_market = dict(given) if isinstance(given, dict) else {"on_demand": given}
        as_of = _day(by_market.pop("as_of", day), f"prices.{name}.as_of", problems)
        for market, amount in by_market.items():
            place = f"prices.{name}.{market}"
            per_hour = _amount(amount)
            if market not in MARKETS:
                problems.append(f"{place}: unknown key; allowed: on_demand, spot, as_of")
            elif per_hour is None:
                problems.append(f"{place}: {amount!r} is not allowed; allowed: a number above 0")
            else:
                yield (str(name), MARKETS[market]), Price(per_hour, currency, source, as_of)


def _day(given: Any, place: str, problems: list[str]) -> str:
    text = str(given or "")
    if text and not _is_day(text):
        problems.append(f"{place}: {text!r} is not allowed; allowed: a day as YYYY-MM-DD")
    return text


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _amount(given: Any) -> Decimal | None:
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        amount = Decimal(str(given))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount > 0 else None


def write_price_file(path: Path, book: PriceBook, day: str) -> int:
    """Replace the file in one step; the number of prices in it. One file has one currency."""
    currencies = {price.currency for price in book.prices.values()}
    if len(currencies) != 1:
        raise ConfigError(f"a price file has one currency, not {', '.join(sorted(currencies)) or 'none'}")
    prices: dict[str, dict[str, str]] = {}
    for (name, market), price in sorted(book.prices.items()):
        entry = prices.setdefault(name, {})
        entry[_NAMES[market]] = str(price.per_hour)
        if price.as_of != day:
            entry["as_of"] = min(entry.get("as_of", day), price.as_of)
    document = {"currency": currencies.pop(), "as_of": day, "prices": prices}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    temporary.replace(path)
    return len(book.prices)
