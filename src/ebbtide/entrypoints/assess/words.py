"""An assessment in sentences and cells, for the terminal, for Markdown and for the page alike."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ebbtide.core.words import count_of
from ebbtide.entrypoints.assess.assessment import HOURS_PER_MONTH, Amount, Assessment, NodeFigures
from ebbtide.entrypoints.assess.repacking import Repacked

COLUMNS = ("node", "type", "zone", "CPU", "memory", "pods", "price/h", "wasted/h", "verdict")
NUMERIC = range(3, 8)


def summary(result: Assessment) -> list[str]:
    removable = [node for node in result.nodes if node.removable]
    lines = [
        f"{count_of(len(result.nodes), 'node')}, {count_of(result.pods, 'pod')} on them, "
        f"{result.waiting_pods} pending.",
        f"They cost {money(result.cost())}.",
        f"Of that {money(result.waste())} is for what no pod asks for.",
    ]
    if any(node.unused_share is not None for node in result.nodes):
        lines.append(f"By what is really used, {money(result.unused())} is for what nothing uses.")
    lines.append(f"{len(removable)} could be removed now, which saves {money(result.saving())}.")
    if result.repacked is not None:
        lines.append(_repacked(result.repacked))
    return [*lines, *_unknown(result)]


def _repacked(found: Repacked) -> str:
    amounts = (found.cost_after, found.savings, found.bound)
    after, saved, bound = (money(exactly(found.currency, each)) for each in amounts)
    return (
        f"Repacked, with {count_of(found.moves, 'pod')} moved, {count_of(found.removed, 'node')} removed and "
        f"{found.launched} launched, they would cost {after}: that saves {saved}. "
        f"No set of these types costs less than {bound}."
    )


def _unknown(result: Assessment) -> list[str]:
    ranged = [node for node in result.nodes if node.price is not None and not node.price.exact]
    types = sorted({node.type or "no type" for node in result.nodes if node.price is None})
    lines = []
    if ranged:
        nodes = count_of(len(ranged), "node")
        lines.append(f"The price of {nodes} is known as a range only, so amounts are given from and to.")
    if types:
        lines.append(f"No price is known for {', '.join(types)}: what is said leaves them out.")
    return lines


def exactly(currency: str, amount: Decimal) -> dict[str, Amount]:
    return {currency: Amount(amount, amount)}


def money(amounts: Mapping[str, Amount]) -> str:
    if not amounts:
        return "an unknown amount"
    return " and ".join(_amount(each, currency) for currency, each in sorted(amounts.items()))


def _amount(amount: Amount, currency: str) -> str:
    if amount.exact:
        return f"{amount.low:.4f} {currency} an hour ({amount.low * HOURS_PER_MONTH:.2f} a month)"
    low, high = amount.low * HOURS_PER_MONTH, amount.high * HOURS_PER_MONTH
    return f"{amount.low:.4f} to {amount.high:.4f} {currency} an hour ({low:.2f} to {high:.2f} a month)"


def a_month(amounts: Mapping[str, Amount]) -> str:
    """Short, for a headline."""
    found = []
    for currency, amount in sorted(amounts.items()):
        low, high = amount.low * HOURS_PER_MONTH, amount.high * HOURS_PER_MONTH
        found.append(f"{low:,.0f} {currency}" if amount.exact else f"{low:,.0f} to {high:,.0f} {currency}")
    return " and ".join(found) or "unknown"


def cells(node: NodeFigures) -> tuple[str, ...]:
    verdict = "could be removed" if node.removable else f"kept: {node.reason}"
    spot = " (spot)" if node.market == "spot" else ""
    return (
        node.name,
        f"{node.type or '-'}{spot}",
        node.zone or "-",
        share(node.cpu_share, node.cpu_used),
        share(node.memory_share, node.memory_used),
        str(node.pods),
        price(node),
        wasted(node),
        verdict,
    )


def share(asked: float, used: float | None) -> str:
    return f"{asked:.0%}" if used is None else f"{asked:.0%} ({used:.0%} used)"


def price(node: NodeFigures) -> str:
    found = node.price
    if found is None:
        return "unknown"
    if found.exact:
        return f"{found.low} {found.currency}"
    return f"{found.low:.3f} to {found.high:.3f} {found.currency}"


def wasted(node: NodeFigures) -> str:
    found = node.price
    if found is None:
        return "unknown"
    low, high = found.low * node.idle_share, found.high * node.idle_share
    return f"{low:.4f}" if found.exact else f"{low:.3f} to {high:.3f}"
