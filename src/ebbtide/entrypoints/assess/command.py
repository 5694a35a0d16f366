"""`ebbtide assess`: what a cluster costs and wastes, from a dump or live, read-only; for the eye, for
programs, and as Markdown.

kubectl get nodes,pods,pdb,pv,pvc -A -o json | ebbtide assess -

If the dump also has what `kubectl get nodes.metrics.k8s.io -o json` prints, the report includes use.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from ebbtide.adapters.kube.dump import Dump, read_dump
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess import page
from ebbtide.entrypoints.assess.assessment import Amount, Assessment, NodeFigures, Used, assess, exact_only
from ebbtide.entrypoints.assess.page import COLUMNS, NUMERIC, as_page, cells, summary
from ebbtide.entrypoints.assess.repacking import RepackedCluster
from ebbtide.errors import EbbtideError, Usage

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def as_markdown(result: Assessment) -> str:
    parts = ["# What this cluster costs and wastes", _numbers(result)]
    parts += [f"- {in_markdown(line)}" for line in page.summary(result)]
    going = [node for node in result.nodes if node.removable]
    kept = [node for node in result.nodes if not node.removable]
    if going:
        rows = [(node.name, page.price(node), _moves(node.goes_to)) for node in going]
        head = ("node", "price an hour", "its pods would go to")
        parts += ["", "## Nodes that could go", "", table(head, rows)]
    if kept:
        rows = [(node.name, page.price(node), "; ".join(node.blockers)) for node in kept]
        parts += ["", "## Nodes that stay", "", table(("node", "price an hour", "what keeps it"), rows)]
    if result.pending:
        parts += ["", "## Pending pods", "", table(("pod", "why"), result.pending)]
    shares = [
        (
            *page.cells(node)[:3],
            page.share(node.cpu_share, node.cpu_used),
            page.share(node.memory_share, node.memory_used),
        )
        for node in result.nodes
    ]
    parts += ["", "## All nodes", "", table(("node", "type", "zone", "CPU", "memory"), shares)]
    if priced := page.price_bases(result):
        parts += ["", "## Where the prices come from", "", table(page.PRICE_COLUMNS, priced)]
    parts += [
        "",
        *(f"> {in_markdown(page.a_sentence(note))}" for note in result.notes),
        "",
        "Nothing was touched.",
        "",
    ]
    return "\n".join(parts)


def _numbers(result: Assessment) -> str:
    return "\n" + table(("a month", "amount"), page.headline(result)) + "\n"


def _moves(goes_to: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{pod} → {there}" for pod, there in goes_to) or "it has none to move"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([in_markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def in_markdown(text: str) -> str:
    """Names come from the cluster, and must not become markup."""
    return SPECIAL.sub(r"\\\1", text.replace("\n", " "))


def show(result: Assessment, console: Console) -> None:
    for line in summary(result):
        console.print(plain(line))
    table = Table(caption="CPU and memory: the share of it that pods ask for")
    for number, name in enumerate(COLUMNS[:-1]):
        table.add_column(name, justify="right" if number in NUMERIC else "left", overflow="fold")
    for node in result.nodes:
        table.add_row(*(plain(cell) for cell in cells(node)[:-1]))
    console.print(table)
    for line in node_lines(result):
        console.print(plain(line), soft_wrap=True)
    for note in result.notes:
        console.print(plain(f"note: {note}"))
    console.print("Nothing was touched.")


def node_lines(result: Assessment) -> list[str]:
    lines = []
    for node in result.nodes:
        lines.append(f"{node.name}: {cells(node)[-1]}")
        lines += [f"  also: {blocker}" for blocker in node.blockers if blocker != node.reason]
        lines += [f"  {pod} would go to {there}" for pod, there in node.goes_to]
        if node.price is not None and not node.price.exact:
            lines.append(f"  price: {node.price.basis}")
    return [*lines, *(f"{pod} is pending: {why}" for pod, why in result.pending)]


def as_data(result: Assessment) -> dict[str, Any]:
    return {
        "nodes": [_node_data(node) for node in result.nodes],
        "pods": result.pods,
        "waitingPods": result.waiting_pods,
        "costPerHour": _texts(exact_only(result, Assessment.cost)),
        "wastePerHour": _texts(exact_only(result, Assessment.waste)),
        "savingPerHour": _texts(exact_only(result, Assessment.saving)),
        "costRange": _ranges(result.cost()),
        "wasteRange": _ranges(result.waste()),
        "unusedRange": _ranges(result.unused()),
        "savingRange": _ranges(result.saving()),
        "repacked": None if result.repacked is None else _repacked_data(result.repacked),
        "removable": [node.name for node in result.nodes if node.removable],
        "pending": [{"pod": pod, "why": why} for pod, why in result.pending],
        "typesWithoutPrice": list(result.unpriced),
        "notes": list(result.notes),
    }


def _repacked_data(found: RepackedCluster) -> dict[str, Any]:
    return {
        "currency": found.currency,
        "costPerHour": str(found.cost),
        "costAfterPerHour": str(found.cost_after),
        "savingPerHour": str(found.savings),
        "bound": str(found.bound),
        "moves": found.moves,
        "removed": found.removed,
        "launched": found.launched,
    }


def _node_data(node: NodeFigures) -> dict[str, Any]:
    price = node.price
    return {
        "name": node.name,
        "type": node.type,
        "market": node.market,
        "zone": node.zone,
        "cpuShare": round(node.cpu_share, 4),
        "memoryShare": round(node.memory_share, 4),
        "cpuUsed": None if node.cpu_used is None else round(node.cpu_used, 4),
        "memoryUsed": None if node.memory_used is None else round(node.memory_used, 4),
        "pods": node.pods,
        "pricePerHour": str(price.low) if price and price.exact else None,
        "priceLow": str(price.low) if price else None,
        "priceHigh": str(price.high) if price else None,
        "priceBasis": price.basis if price else None,
        "currency": price.currency if price else None,
        "wastedPerHour": None if node.wasted is None else str(node.wasted),
        "removable": node.removable,
        "reason": node.reason,
        "blockers": list(node.blockers),
        "podsGoTo": dict(node.goes_to),
    }


def _ranges(amounts: Mapping[str, Amount]) -> dict[str, dict[str, str]]:
    return {
        currency: {"low": str(each.low), "high": str(each.high)} for currency, each in sorted(amounts.items())
    }


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: str(amount) for currency, amount in sorted(amounts.items())}


LIVE = "live"
STDIN = "-"
WRONG_INPUT = 2


def assess_command(
    source: str, book: PriceBook, as_json: bool, html: Path | None, markdown: Path | None = None
) -> int:
    """`source` is a file, `-` for standard input, or `live` for the cluster of the kubeconfig."""
    try:
        dump = _read(source)
        used = {name: Used(*amounts) for name, amounts in dump.used.items()}
        result = assess(dump.view, book, int(time.time()), dump.notes, used=used)
        if html is not None:
            _write(html, as_page(result))
        if markdown is not None:
            _write(markdown, as_markdown(result))
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
        raise Usage(
            f"{source}: {cause.strerror}; nothing was read. Give a file, - for standard input, or live."
        ) from cause


def _read_live() -> Dump:
    from ebbtide.adapters.kube.cluster import list_view
    from ebbtide.adapters.kube.connection import connect
    from ebbtide.adapters.kube.usage import read_used

    connection = connect()
    try:
        return Dump(list_view(connection), used=read_used(connection))
    finally:
        connection.close()


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as cause:
        raise Usage(f"{path}: {cause.strerror}: name a place that can be written") from cause
