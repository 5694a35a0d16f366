"""A report as one HTML file that needs nothing else: no script, no picture, no font; its charts are SVG
text. Pure.

Everything that came from outside (names of nodes and pods, sentences of the log) is escaped, and the page
forbids itself to load or run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from math import ceil

from ebbtide.core.scale_to_zero.savings import SavingsDay
from ebbtide.core.words import a_price, count_of
from ebbtide.entrypoints.report.collect import ReportData, ReportedActs
from ebbtide.model.consolidation import ConsolidationReport

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { --bg: #f6f8f9; --card: #fff; --ink: #14232b; --quiet: #51636d; --line: #d4dde2; --tone: #0b5d7a;
  --potential: #7b8a93; --realised: #2f8f6b; --net: #2f6fb3; }
@media screen and (prefers-color-scheme: dark) { :root { --bg: #0e171c; --card: #16222a; --ink: #e6eef2;
  --quiet: #a3b4bd; --line: #2b3b45; --tone: #7cc7e4; --potential: #8b9aa3;
  --realised: #45b68a; --net: #6aa5e6; } }
body { margin: 0 auto; max-width: 860px; padding: 16px; background: var(--bg); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; } h2 { font-size: 17px; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px;
  margin: 0 0 16px; }
dl { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 8px; }
dt, .quiet, svg text { color: var(--quiet); }
dt { font-size: 14px; } dd { margin: 0; font-size: 20px; font-variant-numeric: tabular-nums; }
svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { fill: var(--quiet); font: 12px system-ui, sans-serif; }
@media (max-width: 600px) { svg text { font-size: 22px; } }
.axis { stroke: var(--line); } .line { fill: none; stroke: var(--tone); stroke-width: 2; }
.area { fill: var(--tone); opacity: .18; }
.potential { fill: var(--potential); } .realised { fill: var(--realised); } .net { fill: var(--net); }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
.keyed { display: inline-block; margin-right: 12px; } section > :last-child { margin-bottom: 0; }
.key.potential { background: var(--potential); } .key.realised { background: var(--realised); }
.key.net { background: var(--net); }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
td:first-child { white-space: nowrap; } td:last-child { overflow-wrap: anywhere; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
@media print { body { background: #fff; max-width: none; padding: 0; print-color-adjust: exact; }
  section { border: 0; padding: 0; } svg, dl, tr { break-inside: avoid; } }
"""
WIDE, TALL, LEFT, FOOT = 760, 220, 70, 26
ROOM = TALL - FOOT - 30
KINDS = {
    "potential": "workloads freed",
    "realised": "nodes that were not paid for",
    "net": "after wakes and churn",
}
MOST_LINES = 5
MOST_TIMES = 6
TIME_STEPS = (
    *(60, 300, 900),
    *(hours * 3600 for hours in (1, 2, 4, 12)),
    *(days * 86_400 for days in (1, 2, 7, 14, 28, 91, 364)),
)
WIDEST_BAR = 24
MOST_NAMES = 7


def page(data: ReportData) -> str:
    period = data.period
    title = f"Ebbtide: {data.cluster}, {period.first} to {period.last}"
    cut = "<p>The log is longer than a report reads: its oldest part is left out.</p>" if data.cut else ""
    body = "".join((_cost(data), _saved(data), _possible(data), _work(data.done), _alarms(data)))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<h1>{escape(title)}</h1>{cut}{body}"
        f'<p class="quiet">Made from the log and the ledger up to {_when(period.until)} UTC.</p>'
        "</main></body></html>\n"
    )


def _cost(data: ReportData) -> str:
    currency = data.currency
    if not currency:
        return _section("Cost", "<p>No price is known for the period, or prices of several currencies.</p>")
    points = [(point.at, point.per_hour.get(currency, Decimal(0))) for point in data.points]
    amounts = [amount for _, amount in points]
    told = _listed(
        ("paid in the period", f"{_total(data.paid or Decimal(0))} {currency}"),
        ("at the end, an hour", f"{a_price(amounts[-1])} {currency}"),
        ("least", f"{a_price(min(amounts))} {currency}"),
        ("most", f"{a_price(max(amounts))} {currency}"),
    )
    unpriced = max(point.unpriced for point in data.points)
    note = f"<p>Up to {unpriced} workers had no known price and are not counted.</p>" if unpriced else ""
    return _section(
        "Cost an hour", told + line_chart(points, data.period.until, f"{currency} an hour") + note
    )


def _total(amount: Decimal) -> str:
    """As the pages write it: with its thousands apart."""
    return f"{amount:,.2f}" if amount >= 1 else a_price(amount)


def _saved(data: ReportData) -> str:
    money = [(day, saved) for day in data.days for saved in day.money]
    currencies = sorted({saved.currency for _, saved in money})
    if not currencies:
        return _section("Saved by sleep", "<p>Nothing slept in the period.</p>")
    return "".join(_saved_in(currency, data.days) for currency in currencies)


def _saved_in(currency: str, days: Sequence[SavingsDay]) -> str:
    found = [
        (day.date, saved)
        for day in sorted(days, key=lambda day: day.date)
        for saved in day.money
        if saved.currency == currency
    ]
    kinds = tuple(KINDS)
    bars = [(day, [Bar(kind, getattr(saved, kind), kind) for kind in kinds]) for day, saved in found]
    totals = {kind: sum((getattr(saved, kind) for _, saved in found), Decimal(0)) for kind in kinds}
    keys = " ".join(
        f'<span class="keyed"><span class="key {kind}"></span>{kind}: {means}</span>'
        for kind, means in KINDS.items()
    )
    rows = [(day, *(a_price(getattr(saved, kind)) for kind in kinds)) for day, saved in found]
    return _section(
        f"Saved by sleep, in {currency}",
        _listed(*((kind, f"{_total(totals[kind])} {currency}") for kind in kinds))
        + bar_chart(bars, f"{currency} a day")
        + f'<p class="quiet">{keys}</p>'
        + _table(("day", *kinds), rows),
    )


def _possible(data: ReportData) -> str:
    title = "What consolidation could still save"
    if data.look is None:
        return _section(title, "<p>No decision of the period looked into it.</p>")
    report, begun_at = data.look.found, data.look.begun_at
    if begun_at:
        title = "What the last consolidation saves"
        return _section(
            title, _plan(report, "saved, an hour") + f"<p>It was begun at {_when(begun_at)} UTC.</p>"
        )
    plan = report.plan or report.candidate
    refused = f"<p>Not done: {escape(report.failed.says)}.</p>" if report.failed else ""
    if plan is None:
        return _section(title, refused or "<p>Nothing to gain.</p>")
    return _section(title, _plan(report) + refused)


def _plan(report: ConsolidationReport, saved: str = "possible, an hour") -> str:
    plan = report.plan or report.candidate
    if plan is None:
        return ""
    return _listed(
        (saved, f"{a_price(plan.savings_per_hour)} {plan.currency}"),
        ("cost after", f"{a_price(plan.cost_after)} {plan.currency}"),
        ("no set of nodes costs less than", f"{a_price(plan.bound)} {plan.currency}"),
        ("pods to move", str(len(plan.moves))),
    )


def _work(done: ReportedActs) -> str:
    told = _listed(
        ("nodes added", f"{done.nodes_added:,}"),
        ("nodes removed", f"{done.nodes_removed:,}"),
        ("pods evicted", f"{'at least ' if done.without_steps else ''}{done.evictions:,}"),
        ("spot notices", str(done.spot_notices)),
    )
    rows = [(kind, f"{completed:,}", f"{failed:,}") for kind, completed, failed in done.operations]
    table = (
        _table(("operation", "completed", "not completed"), rows) if rows else "<p>No operation ended.</p>"
    )
    older = count_of(done.unknown, "entry", "entries")
    note = f"<p>Not counted: {older} that an older version logged without data.</p>" if done.unknown else ""
    return _section("What was done", told + table + _without_steps(done) + note)


def _without_steps(done: ReportedActs) -> str:
    if not done.without_steps:
        return ""
    operations = f"{done.without_steps:,} operation{'' if done.without_steps == 1 else 's'}"
    return (
        f"<p>Of {operations} that removed nodes, the log has the end and not the single steps: "
        "the pods evicted by them are not counted.</p>"
    )


def _alarms(data: ReportData) -> str:
    if not data.alarms:
        return _section("Alarms and outages", "<p>None.</p>")
    rest = data.alarms_in_all - len(data.alarms)
    more = f"<p>and {rest} older ones</p>" if rest else ""
    rows = [(_when(entry.at), entry.says) for entry in data.alarms]
    return _section(
        f"Alarms and outages: {count_of(data.alarms_in_all, 'entry', 'entries')}",
        _table(("when", "what"), rows, numbers=False) + more,
    )


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>"


def _listed(*pairs: tuple[str, str]) -> str:
    parts = (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f"<dl>{''.join(parts)}</dl>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: bool = True) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        marks = [' class="number"' if numbers and place else "" for place in range(len(row))]
        return "".join(f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, row, strict=True))

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{cells('th', head)}</tr></thead><tbody>{body}</tbody></table>"


def _when(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


@dataclass(frozen=True, slots=True)
class Bar:
    name: str
    value: Decimal
    kind: str


def line_chart(points: Sequence[tuple[int, Decimal]], until: int, label: str) -> str:
    """A price holds until it changes: steps, not slopes."""
    if not points:
        return ""
    first = points[0][0]
    seconds = max(1, until - first)
    marks = _marks(max(value for _, value in points))
    most = marks[-1]

    def x(at: int) -> float:
        return LEFT + (at - first) / seconds * (WIDE - LEFT - 4)

    path = f"M{x(first):.1f},{_y(points[0][1], most):.1f}"
    path += "".join(f"H{x(at):.1f}V{_y(value, most):.1f}" for at, value in points[1:])
    path += f"H{x(until):.1f}"
    area = f'<path class="area" d="{path}V{TALL - FOOT}H{LEFT}Z"/><path class="line" d="{path}"/>'
    times = "".join(
        f'<line class="axis" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{TALL - FOOT}" y2="{TALL - FOOT + 4}"/>'
        + _text(min(max(x(at), LEFT + 20), WIDE - 24), TALL - 6, _mark_of(at, until - first), "middle")
        for at in _times(first, until)
    )
    return _svg(_grid(marks) + area + times, label)


def bar_chart(days: Sequence[tuple[str, Sequence[Bar]]], label: str) -> str:
    values = [bar.value for _, bars in days for bar in bars]
    if not values:
        return ""
    marks = _marks(max(*values, Decimal("0.0001")))
    most = marks[-1]
    room = (WIDE - LEFT) / len(days)
    every = max(1, -(-len(days) // MOST_NAMES))
    parts = [_grid(marks)]
    for number, (day, bars) in enumerate(days):
        wide = min(WIDEST_BAR, room * 0.8 / max(1, len(bars)))
        start = LEFT + number * room + (room - wide * len(bars)) / 2
        for place, bar in enumerate(bars):
            top = _y(max(bar.value, Decimal(0)), most)
            title = f"<title>{escape(day)}: {escape(bar.name)} {a_price(bar.value)}</title>"
            parts.append(
                f'<rect class="{escape(bar.kind)}" x="{start + place * wide:.1f}" y="{top:.1f}" '
                f'width="{max(1.0, wide - 1):.1f}" height="{TALL - FOOT - top:.1f}">{title}</rect>'
            )
        if number % every == 0:
            parts.append(_text(min(LEFT + number * room + room / 2, WIDE - 24), TALL - 6, day[5:], "middle"))
    return _svg("".join(parts), label)


def _y(value: Decimal, most: Decimal) -> float:
    return TALL - FOOT - float(value / most) * ROOM


def _marks(most: Decimal) -> Sequence[Decimal]:
    """0 and the multiples of a round number, up to the first that nothing is above: 0, 5, 10, 15 for 12.3."""
    most = most or Decimal(1)
    power = Decimal(1).scaleb(most.adjusted() - 1)
    steps = (power * factor for factor in (1, 2, 5, 10, 20, 50))
    step = next(step for step in steps if most <= step * MOST_LINES)
    return [step * number for number in range(ceil(most / step) + 1)]


def _times(first: int, until: int) -> Iterable[int]:
    """Whole hours or days in UTC, as many as there is room for."""
    fitting = (step for step in TIME_STEPS if (until - first) // step <= MOST_TIMES)
    step = next(fitting, TIME_STEPS[-1])
    return range(-(-first // step) * step, until + 1, step)


def _mark_of(at: int, seconds: int) -> str:
    """The day, or the hour where the whole of the period is short."""
    whole_day = at % 86_400 == 0
    return datetime.fromtimestamp(at, UTC).strftime("%m-%d" if whole_day or seconds > 7 * 86_400 else "%H:%M")


def _grid(marks: Sequence[Decimal]) -> str:
    found = []
    digits = max(0, -int(marks[1].normalize().as_tuple().exponent))
    for value in marks:
        y = _y(value, marks[-1])
        found.append(f'<line class="axis" x1="{LEFT}" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(_text(LEFT - 6, y + 4, f"{value:.{digits}f}", "end"))
    return "".join(found)


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(inside: str, label: str) -> str:
    unit = _text(0, 12, label, "start")
    return f'<svg viewBox="0 0 {WIDE} {TALL}" role="img" aria-label="{escape(label)}">{unit}{inside}</svg>'
