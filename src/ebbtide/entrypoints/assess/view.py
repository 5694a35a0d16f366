"""An assessment for the eye, for programs, and as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from html import escape
from typing import Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from ebbtide.entrypoints.assess.assessment import HOURS_PER_MONTH, Assessment, NodeFigures
from ebbtide.entrypoints.assess.repacking import Repacked

COLUMNS = ("node", "type", "zone", "CPU", "memory", "pods", "price/h", "wasted/h", "verdict")
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#1b2733}"
    "table{border-collapse:collapse;width:100%}td,th{padding:.3rem .6rem;border-bottom:1px solid #d8dee4;"
    "text-align:left}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "tr.go td:last-child{color:#0a6b3b;font-weight:600}p.note{color:#8a4b00}"
)
NUMERIC = range(3, 8)


def show(result: Assessment, console: Console) -> None:
    for line in summary(result):
        console.print(plain(line))
    table = Table(caption="CPU and memory: the share of it that pods ask for")
    for number, name in enumerate(COLUMNS[:-1]):
        table.add_column(name, justify="right" if number in NUMERIC else "left", overflow="fold")
    for node in result.nodes:
        table.add_row(*(plain(cell) for cell in _cells(node)[:-1]))
    console.print(table)
    for node in result.nodes:
        console.print(plain(f"{node.name}: {_cells(node)[-1]}"), soft_wrap=True)
    for note in result.notes:
        console.print(plain(f"note: {note}"))
    console.print("Nothing was touched.")


def summary(result: Assessment) -> list[str]:
    removable = [node for node in result.nodes if node.removable]
    lines = [
        f"{len(result.nodes)} nodes, {result.pods} pods on them, {result.waiting_pods} waiting.",
        f"They cost {_money(result.cost())}.",
        f"Of that {_money(result.waste())} is for what no pod asks for.",
        f"{len(removable)} could be removed now, which saves {_money(result.saving())}.",
    ]
    if result.repacked is not None:
        found = result.repacked
        lines.append(
            f"Repacked, with {found.moves} pods moved, {found.removed} nodes removed and {found.launched} "
            f"launched, they would cost {_money({found.currency: found.cost_after})}: that saves "
            f"{_money({found.currency: found.savings})}. No set of these types costs less than "
            f"{_money({found.currency: found.bound})}."
        )
    if result.unpriced:
        lines.append(f"No price is known for {', '.join(result.unpriced)}: what is said leaves them out.")
    return lines


def as_data(result: Assessment) -> dict[str, Any]:
    return {
        "nodes": [_node_data(node) for node in result.nodes],
        "pods": result.pods,
        "waitingPods": result.waiting_pods,
        "costPerHour": _texts(result.cost()),
        "wastePerHour": _texts(result.waste()),
        "savingPerHour": _texts(result.saving()),
        "repacked": None if result.repacked is None else _repacked_data(result.repacked),
        "removable": [node.name for node in result.nodes if node.removable],
        "typesWithoutPrice": list(result.unpriced),
        "notes": list(result.notes),
    }


def _repacked_data(found: Repacked) -> dict[str, Any]:
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


def as_page(result: Assessment) -> str:
    head = "".join(
        f'<th class="{"n" if number in NUMERIC else ""}">{escape(name)}</th>'
        for number, name in enumerate(COLUMNS)
    )
    rows = "".join(_row(node) for node in result.nodes)
    said = "".join(f"<p>{escape(line)}</p>" for line in summary(result))
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in result.notes)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Ebbtide assessment</title>'
        f"<style>{STYLE}</style></head><body><h1>What this cluster costs and wastes</h1>{said}{notes}"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )


def _row(node: NodeFigures) -> str:
    cells = "".join(
        f'<td class="{"n" if number in NUMERIC else ""}">{escape(cell)}</td>'
        for number, cell in enumerate(_cells(node))
    )
    return f'<tr class="{"go" if node.removable else ""}">{cells}</tr>'


def _cells(node: NodeFigures) -> tuple[str, ...]:
    price = f"{node.price.per_hour} {node.price.currency}" if node.price else "unknown"
    wasted = "unknown" if node.wasted is None else f"{node.wasted:.4f}"
    verdict = "could be removed" if node.removable else f"kept: {node.reason}"
    spot = " (spot)" if node.market == "spot" else ""
    shares = f"{node.cpu_share:.0%}", f"{node.memory_share:.0%}"
    return (
        node.name,
        f"{node.type or '-'}{spot}",
        node.zone or "-",
        *shares,
        str(node.pods),
        price,
        wasted,
        verdict,
    )


def _node_data(node: NodeFigures) -> dict[str, Any]:
    return {
        "name": node.name,
        "type": node.type,
        "market": node.market,
        "zone": node.zone,
        "cpuShare": round(node.cpu_share, 4),
        "memoryShare": round(node.memory_share, 4),
        "pods": node.pods,
        "pricePerHour": str(node.price.per_hour) if node.price else None,
        "currency": node.price.currency if node.price else None,
        "wastedPerHour": None if node.wasted is None else str(node.wasted),
        "removable": node.removable,
        "reason": node.reason,
    }


def _money(amounts: Mapping[str, Decimal]) -> str:
    if not amounts:
        return "an unknown amount"
    return " and ".join(
        f"{amount:.4f} {currency} an hour ({amount * HOURS_PER_MONTH:.2f} a month)"
        for currency, amount in sorted(amounts.items())
    )


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: str(amount) for currency, amount in sorted(amounts.items())}
