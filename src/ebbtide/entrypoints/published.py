"""A backtest to show: one entry in the log of the cluster it is about, for the pages, or one HTML file with
a chart of cost and pending time. No script, no other file.

An entry is there whole or not at all, in every kind of store, and an older version reads its sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ebbtide.core.words import a_while
from ebbtide.entrypoints.views.foresight import HEAD, calibration, cells_of
from ebbtide.model.events import BacktestPublished
from ebbtide.model.log import LogKind
from ebbtide.narrate import entry_of, fact_in
from ebbtide.ports import Store
from ebbtide.simulator.backtest.sweep import Agreement, Row

SUBJECT = "backtest"


def publish(store: Store, entry_id: str, at: int, fact: BacktestPublished) -> None:
    store.append([entry_of(entry_id, at, fact, SUBJECT)])


def last_published(store: Store) -> tuple[int, BacktestPublished] | None:
    """When, and what. One that a newer version wrote in another shape is not shown."""
    for entry in store.read_log([LogKind.SWITCH], SUBJECT, limit=1):
        fact = fact_in(entry, BacktestPublished)
        return None if fact is None else (entry.at, fact)
    return None


WIDE, TALL, EDGE = 720, 360, 60
EXPLAINED = (
    "<b>waiting</b> is the time that all pods were pending, added up; <b>p95</b> and <b>p99</b> are the wait "
    "of single pods, of those that did not fit at once."
)
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
  color: #1d2430; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #d8dde5; }
td { white-space: nowrap; } .wide { overflow-x: auto; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
.best td { font-weight: 600; }
svg { width: 100%; height: auto; } circle { fill: #7a8699; } circle.best { fill: #0b6bcb; }
text { font-size: 12px; fill: #1d2430; } .axis { stroke: #9aa4b2; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #e4e8ee; } text { fill: #e4e8ee; }
  th, td { border-color: #333b47; } circle.best { fill: #5aa9f8; } }
"""


def page_of(name: str, rows: Sequence[Row], found: Sequence[Agreement]) -> str:
    head = "".join(f"<th scope=col>{escape(one)}</th>" for one in HEAD)
    body = "".join(
        f"<tr{' class=best' if row.best else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells_of(row))
        + "</tr>"
        for row in rows
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Backtest of {escape(name)}</title>"
        f"<style>{STYLE}</style><h1>Backtest of {escape(name)}</h1><p>{escape(calibration(found))}.</p>"
        f"{_chart(rows)}<p>The nearer to the lower left, the better. {EXPLAINED}</p>"
        f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        "<p>* no other row is as good in cost, waiting and evictions and better in one of them.</p></html>\n"
    )


def _chart(rows: Sequence[Row]) -> str:
    """Cost to the right, waiting upwards: the nearer to the lower left the better."""
    costs, waits = [float(row.cost) for row in rows], [row.pending_pod_seconds for row in rows]
    low, high = min(costs), max(costs)
    most = max(*waits, 1.0)
    parts = [
        f'<path class=axis fill=none d="M{EDGE},10V{TALL - EDGE}H{WIDE - 10}"/>',
        f'<text x="{EDGE}" y="{TALL - 20}">cost: {low:.2f} to {high:.2f} {escape(rows[0].currency)}</text>',
        f'<text x="{EDGE + 6}" y="20">waiting of all pods: up to {escape(a_while(round(most)))}</text>',
    ]
    for row, cost, wait in zip(rows, costs, waits, strict=True):
        x = EDGE + 30 + (cost - low) / ((high - low) or 1) * (WIDE - EDGE - 220)
        y = TALL - EDGE - 12 - wait / most * (TALL - EDGE - 60)
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"{" class=best" if row.best else ""}>'
            f"<title>{escape(row.name)}</title></circle>"
            f'<text x="{x + 10:.1f}" y="{y + 4:.1f}">{escape(row.name)}</text>'
        )
    label = "Cost and waiting of each candidate"
    return f'<svg viewBox="0 0 {WIDE} {TALL}" role=img aria-label="{label}">{"".join(parts)}</svg>'
