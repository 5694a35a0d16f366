"""Two charts as SVG text: a line of steps over time, and bars by day. Pure, and without any script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from html import escape

WIDE, TALL, LEFT, FOOT = 760, 220, 70, 26
ROOM = TALL - FOOT - 12
LINES = 4
WIDEST_BAR = 24
MOST_NAMES = 10


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
    most = max(value for _, value in points) or Decimal(1)

    def x(at: int) -> float:
        return LEFT + (at - first) / seconds * (WIDE - LEFT - 4)

    path = f"M{x(first):.1f},{_y(points[0][1], most):.1f}"
    path += "".join(f"H{x(at):.1f}V{_y(value, most):.1f}" for at, value in points[1:])
    path += f"H{x(until):.1f}"
    area = f'<path class="area" d="{path}V{TALL - FOOT}H{LEFT}Z"/><path class="line" d="{path}"/>'
    ends = _text(LEFT, TALL - 6, _when(first), "start") + _text(WIDE - 4, TALL - 6, _when(until), "end")
    return _svg(_grid(most) + area + ends, label)


def bar_chart(days: Sequence[tuple[str, Sequence[Bar]]], label: str) -> str:
    values = [bar.value for _, bars in days for bar in bars]
    if not values:
        return ""
    most = max(*values, Decimal("0.0001"))
    room = (WIDE - LEFT) / len(days)
    every = max(1, -(-len(days) // MOST_NAMES))
    parts = [_grid(most)]
    for number, (day, bars) in enumerate(days):
        wide = min(WIDEST_BAR, room * 0.8 / max(1, len(bars)))
        start = LEFT + number * room + (room - wide * len(bars)) / 2
        for place, bar in enumerate(bars):
            top = _y(max(bar.value, Decimal(0)), most)
            title = f"<title>{escape(day)}: {escape(bar.name)} {bar.value}</title>"
            parts.append(
                f'<rect class="{escape(bar.kind)}" x="{start + place * wide:.1f}" y="{top:.1f}" '
                f'width="{max(1.0, wide - 1):.1f}" height="{TALL - FOOT - top:.1f}">{title}</rect>'
            )
        if number % every == 0:
            parts.append(_text(LEFT + number * room + room / 2, TALL - 6, day[5:], "middle"))
    return _svg("".join(parts), label)


def _y(value: Decimal, most: Decimal) -> float:
    return TALL - FOOT - float(value / most) * ROOM


def _grid(most: Decimal) -> str:
    found = []
    for number in range(LINES + 1):
        value = most * number / LINES
        y = _y(value, most)
        found.append(f'<line class="axis" x1="{LEFT}" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>')
        found.append(_text(LEFT - 6, y + 4, f"{value:.4f}" if most < 1 else f"{value:.2f}", "end"))
    return "".join(found)


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(inside: str, label: str) -> str:
    return f'<svg viewBox="0 0 {WIDE} {TALL}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def _when(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
