"""An assessment in sentences and cells, for the terminal, for Markdown and for the page alike."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from ebbtide.core.words import a_price, count_of, names_of
from ebbtide.entrypoints.assess.assessment import HOURS_PER_MONTH, Amount, Assessment, NodeFigures
from ebbtide.entrypoints.assess.repacking import RepackedCluster

COLUMNS = ("node", "type", "zone", "CPU", "memory", "pods", "price/h", "wasted/h", "verdict")
NUMERIC = range(3, 8)
PRICE_COLUMNS = ("type", "nodes", "an hour", "how it is known")


def summary(result: Assessment) -> list[str]:
    cpu, memory = result.requested
    lines = [
        f"{count_of(len(result.nodes), 'node')}, {count_of(result.pods, 'pod')} on them, "
        f"{result.waiting_pods} pending. Pods request {cpu:.0%} of the CPU and {memory:.0%} of the memory.",
    ]
    if result.cost():
        lines.append(f"The nodes cost {money(result.cost())}.")
        lines.append(f"Of that {money(result.waste())} is for what no pod requests.")
    if result.unused():
        measured = sum(node.unused_share is not None for node in result.nodes)
        on = f"On the {count_of(measured, 'node')} that metrics-server measured"
        lines.append(f"{on}, {money(result.unused())} is for what nothing uses.")
    lines.append(_removable(result))
    if result.repacked is not None:
        lines.append(_repacked(result.repacked, result))
    return [*lines, *_unknown(result)]


def _removable(result: Assessment) -> str:
    count = sum(node.removable for node in result.nodes)
    if not count:
        return "No node could be removed now."
    saves = f", which saves {money(result.saving())}" if result.saving() else ""
    return f"{count_of(count, 'node')} could be removed now{saves}."


def _repacked(found: RepackedCluster, result: Assessment) -> str:
    """Where removing nodes saves as much, only the bound is news."""
    about = "about " if any(node.price is not None and not node.price.exact for node in result.nodes) else ""
    amounts = (found.cost_after, found.savings, found.bound)
    after, saved, bound = (f"{about}{money(exactly(found.currency, each))}" for each in amounts)
    least = f"No set of nodes of these types costs less than {bound}."
    if not repacking_pays(result):
        return least
    return (
        f"Repacked, with {count_of(found.moves, 'pod')} moved, {count_of(found.removed, 'node')} removed and "
        f"{found.launched} launched, the workers would cost {after}: that saves {saved}. {least}"
    )


def repacking_pays(result: Assessment) -> bool:
    """Whether packing all pods again saves more than removing nodes one by one."""
    found = result.repacked
    if found is None:
        return False
    removing = result.saving().get(found.currency)
    return removing is None or found.savings > (removing.low + removing.high) / 2


def _unknown(result: Assessment) -> list[str]:
    ranged = [node for node in result.nodes if node.price is not None and not node.price.exact]
    unpriced = [node for node in result.nodes if node.price is None]
    lines = []
    if ranged:
        nodes = count_of(len(ranged), "node")
        lines.append(f"The price of {nodes} is known as a range only, so amounts are given from and to.")
    if unpriced:
        types = sorted({node.type for node in unpriced if node.type})
        named = f" ({names_of(types)})" if types else ""
        them = "it" if len(unpriced) == 1 else "them"
        left_out = f"; no amount includes {them}" if result.cost() else ""
        lines.append(
            f"No price is known for {count_of(len(unpriced), 'node')}{named}{left_out}. "
            f"A price file can name {them}: ebbtide assess --prices FILE."
        )
    return lines


def exactly(currency: str, amount: Decimal) -> dict[str, Amount]:
    return {currency: Amount(amount, amount)}


def money(amounts: Mapping[str, Amount]) -> str:
    if not amounts:
        return "an unknown amount"
    return " and ".join(_amount(each, currency) for currency, each in sorted(amounts.items()))


def _amount(amount: Amount, currency: str) -> str:
    if amount.exact:
        month = amount.low * HOURS_PER_MONTH
        return f"{a_price(amount.low)} {currency} an hour ({month:,.2f} a month)"
    low, high = amount.low * HOURS_PER_MONTH, amount.high * HOURS_PER_MONTH
    hour = f"{a_price(amount.low)} to {a_price(amount.high)} {currency} an hour"
    return f"{hour} ({low:,.0f} to {high:,.0f} a month)"


def headline(result: Assessment) -> list[tuple[str, str]]:
    """What a month costs and what of it could be saved, each with its name."""
    known, saving = result.cost(), result.saving()
    could_go = any(node.removable for node in result.nodes)
    found = [
        ("cost a month", a_month(known)),
        ("for what no pod requests", a_month(result.waste())),
        ("saved by removing nodes now", a_month(saving) if could_go else "nothing"),
    ]
    if result.repacked is not None and repacking_pays(result):
        saved = a_month(exactly(result.repacked.currency, result.repacked.savings))
        found.append(("saved by repacking", saved))
    if not known:
        found[1] = (
            "of the CPU and memory, requested",
            " and ".join(f"{each:.0%}" for each in result.requested),
        )
    return found


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


def price_bases(result: Assessment) -> list[tuple[str, str, str, str]]:
    """Each price once, with the number of its nodes and where it comes from."""
    found: dict[tuple[str, str, str], int] = {}
    for node in result.nodes:
        if node.price is not None:
            key = (cells(node)[1], price(node), a_sentence(node.price.basis))
            found[key] = found.get(key, 0) + 1
    return [(kind, str(count), amount, basis) for (kind, amount, basis), count in sorted(found.items())]


def a_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def share(asked: float, used: float | None) -> str:
    return f"{asked:.0%}" if used is None else f"{asked:.0%} ({used:.0%} used)"


def price(node: NodeFigures) -> str:
    found = node.price
    if found is None:
        return "unknown"
    if found.exact:
        return f"{a_price(found.low)} {found.currency}"
    return f"{found.low:.3f} to {found.high:.3f} {found.currency}"


def wasted(node: NodeFigures) -> str:
    found = node.price
    if found is None:
        return "unknown"
    low, high = found.low * node.idle_share, found.high * node.idle_share
    return f"{low:.4f}" if found.exact else f"{low:.3f} to {high:.3f}"
