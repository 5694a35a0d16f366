"""An assessment in sentences and cells, for the terminal, for Markdown and for the page alike; and as one
HTML file that needs nothing else: no script, no picture, no font. Pure.

Everything that came from the cluster is escaped, and the page forbids itself to load or run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from html import escape

from ebbtide.core.words import a_price, a_price_range, count_of, names_of
from ebbtide.entrypoints.assess.assessment import HOURS_PER_MONTH, Amount, Assessment, NodeFigures
from ebbtide.entrypoints.assess.repacking import RepackedCluster
from ebbtide.model.consolidation import ConsolidationSettings

COLUMNS = ("node", "type", "zone", "CPU", "memory", "pods", "price/h", "wasted/h", "verdict")
NUMERIC = range(3, 8)
LONG_COLUMNS = ("verdict", "where its pods go", "all that keeps it", "why", "how it is known")
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
    free = 1 - ConsolidationSettings().max_fill
    least = f"With {free:.0%} of each node kept free, no set of nodes of these types costs less than {bound}."
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
    hour = f"{a_price_range(amount.low, amount.high)} {currency} an hour"
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


POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { --bg: #f6f8f9; --card: #fff; --ink: #14232b; --quiet: #51636d; --line: #d4dde2; --good: #1a7f4b;
  --asked: #2f6fb3; --used: #2f8f6b; --bar: #dfe7eb; --warn: #8a5a00; }
@media screen and (prefers-color-scheme: dark) { :root { --bg: #0e171c; --card: #16222a; --ink: #e6eef2;
  --quiet: #a3b4bd; --line: #2b3b45; --good: #63c996; --asked: #6aa5e6; --used: #45b68a; --bar: #2a3942;
  --warn: #e3b04b; } }
body { margin: 0 auto; max-width: 1080px; padding: 16px; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; } h2 { font-size: 17px; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px;
  margin: 0 0 16px; overflow-x: auto; }
dl { display: flex; flex-wrap: wrap; gap: 8px 32px; margin: 0; }
dt { color: var(--quiet); font-size: 14px; }
dd { margin: 0; font-size: 24px; font-variant-numeric: tabular-nums; }
.quiet { color: var(--quiet); } .note { color: var(--warn); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td[data-label="zone"] { white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.go td:last-child { color: var(--good); font-weight: 600; }
.row { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 3fr) minmax(0, 1fr); gap: 0 16px;
  align-items: center; font-size: 14px; padding: 2px 0; }
.row span { overflow-wrap: anywhere; } .row span:last-child { text-align: right; }
svg { width: 100%; height: 14px; display: block; border-radius: 3px; }
svg .bar { fill: var(--bar); } svg .asked { fill: var(--asked); } svg .used { fill: var(--used); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 6px 0 12px;
  vertical-align: -1px; }
.key:first-child { margin-left: 0; } section > :last-child { margin-bottom: 0; }
.key.asked { background: var(--asked); } .key.used { background: var(--used); }
.key.bar { background: var(--bar); }
@media screen and (max-width: 600px) {
  .row { grid-template-columns: minmax(0, 1fr) auto; padding: 4px 0; }
  .row svg { grid-row: 2; grid-column: 1 / 3; }
  thead { display: none; } table, tbody, tr { display: block; }
  tr { padding: 6px 0; border-bottom: 1px solid var(--line); }
  td, td.n { display: flex; justify-content: space-between; gap: 16px; padding: 1px 0; border: 0;
    text-align: right; white-space: normal; overflow-wrap: anywhere; }
  td::before { content: attr(data-label); color: var(--quiet); text-align: left; flex: none; }
  td.long { display: block; text-align: left; } td.long::before { display: block; } }
@media print { body { background: #fff; max-width: none; padding: 0; print-color-adjust: exact; }
  /* Paper does not scroll. */
  table { font-size: 12px; } td, th { padding-right: 8px; } td.n, th.n { white-space: normal; }
  td[data-label="zone"] { white-space: normal; }
  td:first-child { overflow-wrap: anywhere; }
  section { break-inside: avoid; border: 0; padding: 0; } tr { break-inside: avoid; } }
"""
MOST_BARS = 60


def as_page(result: Assessment) -> str:
    going = [node for node in result.nodes if node.removable]
    kept = [node for node in result.nodes if not node.removable]
    said = "".join(f"<p>{escape(line)}</p>" for line in summary(result))
    parts = [
        _section("In short", _numbers(result) + said),
        _section("What of each node is requested", _bars(result.nodes)),
    ]
    if going:
        parts.append(
            _section(
                "Nodes that could go",
                _table(("node", "price an hour", "where its pods go"), map(_goes, going)),
            )
        )
    if kept:
        parts.append(
            _section(
                "Nodes that stay", _table(("node", "price an hour", "all that keeps it"), map(_stays, kept))
            )
        )
    if result.pending:
        rows = [map(escape, row) for row in result.pending]
        parts.append(_section("Pending pods", _table(("pod", "why"), rows)))
    parts.append(_section("All nodes", _nodes(result)))
    if priced := price_bases(result):
        rows = [map(escape, row) for row in priced]
        parts.append(_section("Where the prices come from", _table(PRICE_COLUMNS, rows)))
    parts += [f'<p class="note">{escape(a_sentence(note))}</p>' for note in result.notes]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"><title>Ebbtide assessment</title>'
        f"<style>{STYLE}</style></head><body><h1>What this cluster costs and wastes</h1>{''.join(parts)}"
        '<p class="quiet">Made by ebbtide assess. Nothing was touched.</p></body></html>\n'
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _numbers(result: Assessment) -> str:
    pairs = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in headline(result))
    return f"<dl>{pairs}</dl>"


def _bars(nodes: Sequence[NodeFigures]) -> str:
    """The scarcer of CPU and memory of each node: requested, and used where that was measured."""
    shown = sorted(nodes, key=lambda node: node.cpu_share + node.memory_share)[:MOST_BARS]
    measured = any(node.unused_share is not None for node in shown)
    used = '<span class="key used"></span>used ' if measured else ""
    keys = f'<span class="key asked"></span>requested {used}<span class="key bar"></span>idle'
    more = f"<p>The {MOST_BARS} emptiest of {len(nodes)} nodes.</p>" if len(nodes) > MOST_BARS else ""
    return (
        f"{''.join(map(_bar, shown))}"
        f'<p class="quiet">{keys}. Of CPU and memory, the scarcer; the emptiest node first.</p>{more}'
    )


def _bar(node: NodeFigures) -> str:
    """Bars take the width there is; words stay as large as they are."""
    asked = float(1 - node.idle_share)
    used = None if node.unused_share is None else float(1 - node.unused_share)
    bars = (
        _rect("bar", 0, 14, 1.0),
        _rect("asked", 0, 14, asked),
        "" if used is None else _rect("used", 8, 6, used),
    )
    paid = f"{price(node)}/h" if node.price is not None else "price unknown"
    return (
        f'<div class="row"><span>{escape(node.name)}</span>'
        f'<svg viewBox="0 0 100 14" preserveAspectRatio="none" aria-hidden="true">{"".join(bars)}</svg>'
        f"<span>{asked:.0%}, {escape(paid)}</span></div>"
    )


def _rect(kind: str, y: int, height: int, share: float) -> str:
    return f'<rect class="{kind}" x="0" y="{y}" width="{share * 100:.1f}" height="{height}"/>'


def _goes(node: NodeFigures) -> Iterable[str]:
    moves = "<br>".join(f"{escape(pod)} → {escape(there)}" for pod, there in node.goes_to)
    return escape(node.name), escape(price(node)), moves or "it has none to move"


def _stays(node: NodeFigures) -> Iterable[str]:
    return escape(node.name), escape(price(node)), "<br>".join(escape(each) for each in node.blockers)


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Cells are escaped already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, head, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cell(name: str, inside: str, kind: str = "") -> str:
    """On a phone the name of the column stands in front of it, and the row becomes a block of lines. A name
    stands above what is long or a list."""
    kind = ' class="long"' if name in LONG_COLUMNS else kind
    return f'<td{kind} data-label="{escape(name)}"><span>{inside}</span></td>'


def _nodes(result: Assessment) -> str:
    def kind(number: int) -> str:
        return ' class="n"' if number in NUMERIC else ""

    head = "".join(f"<th{kind(number)}>{escape(name)}</th>" for number, name in enumerate(COLUMNS))
    rows = "".join(
        f'<tr class="{"go" if node.removable else ""}">'
        + "".join(
            _cell(COLUMNS[number], escape(cell), kind(number)) for number, cell in enumerate(cells(node))
        )
        + "</tr>"
        for node in result.nodes
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
