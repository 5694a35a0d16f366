"""`ebbtide assess`: what a cluster costs and wastes, from a dump or live, read-only.

kubectl get nodes,pods,pdb,pv,pvc -A -o json | ebbtide assess -
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from ebbtide.adapters.kube.dump import Dump, read_dump
from ebbtide.config.catalogue import CATALOGUE
from ebbtide.config.quantities import read_price
from ebbtide.entrypoints.assess_view import as_data, as_page, show
from ebbtide.entrypoints.assessment import PriceBook, assess
from ebbtide.errors import EbbtideError, Usage
from ebbtide.model.money import Price
from ebbtide.model.pool import NodeType
from ebbtide.model.resources import NOTHING

LIVE = "live"
STDIN = "-"
WRONG_INPUT = 2
PRICES_LOOK = "types: {cpx32: {price: 0.0168, currency: EUR}}"


def assess_command(source: str, prices: Path | None, as_json: bool, html: Path | None) -> int:
    """`source` is a file, `-` for standard input, or `live` for the cluster of the kubeconfig."""
    try:
        book = CATALOGUE if prices is None else read_prices(prices)
        dump = _read(source)
        result = assess(dump.view, book, int(time.time()), dump.notes)
        if html is not None:
            _write(html, as_page(result))
    except EbbtideError as error:
        print(f"ebbtide assess: {error}", file=sys.stderr)
        return WRONG_INPUT
    if as_json:
        print(json.dumps(as_data(result), indent=2, ensure_ascii=False))
    else:
        show(result, Console())
    return 0


def _read(source: str) -> Dump:
    if source == STDIN:
        return read_dump(sys.stdin.buffer.read())
    if source == LIVE:
        return _read_live()
    try:
        return read_dump(Path(source).read_bytes())
    except OSError as cause:
        raise Usage(f"{source}: {cause.strerror}: name a file, - or live") from cause


def _read_live() -> Dump:
    from ebbtide.adapters.kube.connection import connect
    from ebbtide.adapters.kube.reading import list_view

    connection = connect()
    try:
        return Dump(list_view(connection))
    finally:
        connection.close()


def read_prices(path: Path) -> PriceBook:
    """A list of the user's own, alone: a price that it does not name is unknown."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise Usage(f"{path}: {cause.strerror}: name a price book that can be read") from cause
    except (yaml.YAMLError, UnicodeDecodeError) as cause:
        raise Usage(f"{path} is no YAML: write it as {PRICES_LOOK}") from cause
    types = document.get("types") if isinstance(document, dict) else None
    if not isinstance(types, dict) or not types:
        raise Usage(f"{path} names no types: write it as {PRICES_LOOK}")
    return {str(name): _priced(path, str(name), entry) for name, entry in types.items()}


def _priced(path: Path, name: str, entry: Any) -> NodeType:
    if not isinstance(entry, dict):
        raise Usage(f"{path}: {name} is no entry: write it as {PRICES_LOOK}")
    currency, as_of = str(entry.get("currency", "EUR")), str(entry.get("as_of", ""))

    def price(key: str) -> Price | None:
        try:
            amount = read_price(entry.get(key))
        except ValueError as cause:
            raise Usage(f"{path}: {key} of {name} is {entry.get(key)!r}: {cause}") from cause
        return None if amount is None else Price(amount, currency, path.name, as_of)

    return NodeType(name, NOTHING, price=price("price"), spot_price=price("spot_price"))


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as cause:
        raise Usage(f"{path}: {cause.strerror}: name a place that can be written") from cause
