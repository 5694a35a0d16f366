"""An assessment for the eye and for programs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

from ebbtide.entrypoints.assess.assessment import Amount, Assessment, NodeFigures, exact_only
from ebbtide.entrypoints.assess.repacking import RepackedCluster
from ebbtide.entrypoints.assess.words import COLUMNS, NUMERIC, cells, summary


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
