"""`ebbtide prices show` and `ebbtide prices update`: what nodes cost, who says so, and since when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebbtide.adapters.clouds.looking import read_ec2_spot, read_hetzner
from ebbtide.config.prices import read_price_file, write_price_file
from ebbtide.core.prices import PriceBook
from ebbtide.errors import Usage
from ebbtide.model.pool import Pool, Price
from ebbtide.model.snapshot import Market

HEADINGS = ("type", "market", "per hour", "currency", "source", "as of", "pools")
CLOUDS = ("aws", "hetzner")
_Line = tuple[str, str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class PriceRow:
    type_name: str
    market: Market
    price: Price | None
    pools: tuple[str, ...]

    def line(self) -> _Line:
        price, pools = self.price, ", ".join(self.pools)
        if price is None:
            return (self.type_name, str(self.market), "unknown", "", "", "", pools)
        amount = str(price.per_hour)
        return (self.type_name, str(self.market), amount, price.currency, price.source, price.as_of, pools)


def rows_of(pools: Sequence[Pool], book: PriceBook) -> list[PriceRow]:
    """One row for each type and market that the pools may launch; the whole book where there is no pool."""
    if not pools:
        return [PriceRow(name, market, price, ()) for (name, market), price in sorted(book.prices.items())]
    named: dict[tuple[str, Market], list[str]] = {}
    known: dict[tuple[str, Market], Price | None] = {}
    for pool in pools:
        fallback = pool.market is Market.SPOT and pool.on_demand_fallback
        for node_type in map(book.priced, pool.types):
            for market in {pool.market, Market.ON_DEMAND} if fallback else {pool.market}:
                named.setdefault((node_type.name, market), []).append(pool.name)
                known[node_type.name, market] = node_type.price_in(market)
    return [
        PriceRow(name, market, known[name, market], tuple(named[name, market]))
        for name, market in sorted(named)
    ]


def as_data(rows: Sequence[PriceRow]) -> list[dict[str, str]]:
    return [dict(zip(HEADINGS, row.line(), strict=True)) for row in rows]


def in_short(rows: Sequence[PriceRow]) -> str:
    """For `ebbtide status`: how many are known and from whom, and which are not."""
    known = [row.price for row in rows if row.price is not None]
    sources = sorted({f"{price.source}, {price.as_of or 'no day'}" for price in known})
    told = f"{len(known)} of {len(rows)} known" + (f" ({'; '.join(sources)})" if sources else "")
    unknown = sorted({row.type_name for row in rows if row.price is None})
    return f"{told}; unknown: {', '.join(unknown)}" if unknown else told


def show(pools: Sequence[Pool], book: PriceBook, as_json: bool = False) -> int:
    """Print the prices; the number of those that are not known."""
    rows = rows_of(pools, book)
    if as_json:
        print(json.dumps(as_data(rows), indent=2))
    else:
        print("\n".join(table(rows)))
    return sum(row.price is None for row in rows)


def table(rows: Sequence[PriceRow]) -> Iterator[str]:
    """The sources of the prices stand below the table: they are few, and their names are long."""
    named: dict[str, int] = {}
    lines: list[tuple[str, ...]] = [("type", "market", "per hour", "currency", "source", "pools")]
    for row in rows:
        name, market, amount, currency, source, day, pools = row.line()
        who = f"{source}, {day or 'no day'}"
        note = f"[{named.setdefault(who, len(named) + 1)}]" if row.price else ""
        lines.append((name, market, amount, currency, note, pools))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(cells).rstrip()
    yield from (f"[{number}] {source}" for source, number in named.items())


def update(cloud: str, client: Any, pools: Sequence[Pool], price_file: Path, day: str) -> str:
    """Ask the cloud for the prices of the pools' types and keep them in the file; says what was done.

    Prices that are in the file and were not asked for stay. An unreachable cloud changes nothing.
    """
    types = {node_type.name for pool in pools for node_type in pool.types}
    zones = {zone for pool in pools for zone in pool.zones}
    match cloud:
        case "aws":
            fresh = read_ec2_spot(client, types, zones, day)
        case "hetzner":
            fresh = read_hetzner(client, zones, day)
        case _:
            raise Usage(f"{cloud!r} publishes no prices; allowed: {', '.join(CLOUDS)}")
    if not fresh.prices:
        raise Usage("the cloud named no price for these types and zones: nothing was changed")
    kept = read_price_file(price_file) if price_file.exists() else PriceBook()
    count = write_price_file(price_file, kept.under(fresh), day)
    missing = sorted(types - {name for name, _ in fresh.prices})
    told = f"; no price was named for {', '.join(missing)}" if missing else ""
    return f"{len(fresh.prices)} prices read from {cloud}, {count} in {price_file.name}{told}"
