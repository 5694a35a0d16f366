"""`ebbtide savings`: what sleeping saved, a bar for each day, and the ledger again from the log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.cli.scaled import book_of, in_the_store, in_the_store_if_any
from ebbtide.entrypoints.cli.writing import GOOD, QUIET, STRONG, rows, write_json, write_lines
from ebbtide.errors import NotFound, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.scale_to_zero.scaling import Scaling
    from ebbtide.entrypoints.views.policy_schemas import DayShape, SavingsShape

REBUILD = "rebuild"
CSV_HELP = (
    "Print CSV, a line for each day: date, idle_hours, scaled_to_zero_hours, potential, realised, net, "
    "wakes, unpriced_seconds, currency."
)
DAY_HOURS = 24.0
CELLS = 24
"""A cell for each hour, unless a day has more of them: of several policies, or when clocks go back."""


def savings(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[rebuild] [NAME]",
            help="Name of a policy; or `rebuild`, to compute the ledger again from the log.",
        ),
    ] = None,
    first: Annotated[str, typer.Option("--from", help="First day. Default: the last 30 days.")] = "",
    last: Annotated[str, typer.Option("--to", help="Last day, included.")] = "",
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help=CSV_HELP)] = False,
    config: ConfigPath = None,
) -> None:
    """Show what sleeping saved, by day; `ebbtide savings rebuild` computes the ledger again from the log."""
    from ebbtide.entrypoints.views.days import wrong_day

    rebuilds, name = _understood(words or [])
    if as_json and as_csv:
        raise Usage("--json and --csv cannot both be; nothing was touched.")
    if wrong := wrong_day(first, last):
        raise Usage(f"--{wrong[0]}: {wrong[1]}; nothing was touched.")
    found = read_config(ctx, config)
    if rebuilds:
        _rebuild(found, name)
        return
    with in_the_store_if_any(found) as scaling:
        shape = None if scaling is None else _shape(scaling, name, first, last)
        named = {} if scaling is None else {each.id: each.name for each in book_of(scaling).all()}
    if shape is None:
        write_lines(["Nothing has run here yet, so nothing was saved."])
    elif as_json:
        write_json(shape.model_dump(mode="json"))
    elif as_csv:
        from ebbtide.entrypoints.views.policy_shapes import csv_text

        sys.stdout.write(csv_text(shape))
    else:
        write_lines([*day_lines(shape), *total_lines(shape, named)])


def _understood(words: list[str]) -> tuple[bool, str]:
    rebuilds = words[:1] == [REBUILD]
    rest = words[1:] if rebuilds else words
    if len(rest) > 1:
        raise Usage(f"give one policy at a time, not {', '.join(rest)}; nothing was touched.")
    return rebuilds, rest[0] if rest else ""


def _shape(scaling: Scaling, name: str, first: str, last: str) -> SavingsShape:
    from ebbtide.entrypoints.views.days import bounds
    from ebbtide.entrypoints.views.policy_shapes import savings_shape, summary_shape

    start, end, period, yesterday = bounds(first, last, int(scaling.ports.clock.now()))
    if not name:
        return summary_shape(scaling.summary(start, end), period, yesterday)
    return savings_shape(scaling.savings(_id_of(scaling, name), start, end), period, yesterday)


def _id_of(scaling: Scaling, name: str) -> str:
    """Of a policy that was deleted the ledger stays, under its id."""
    try:
        return book_of(scaling).find(name).id
    except NotFound:
        if scaling.ports.policies.list_days(name):
            return name
        raise


def _rebuild(config: Config, name: str) -> None:
    with in_the_store(config) as scaling:
        done = scaling.rebuild(_id_of(scaling, name) if name else "")
        named = {each.id: each.name for each in book_of(scaling).all()}
    lines = rows(
        (
            named.get(each.policy_id, each.policy_id),
            f"{each.days} days from {each.stretches} entries of the log; "
            + ("the ledger was wrong and is corrected" if each.changed else "as it was"),
        )
        for each in done
    )
    write_lines(lines or ["There is no policy, and no ledger."])


def day_lines(shape: SavingsShape) -> list[Text]:
    days = list(reversed(shape.daily_breakdown))
    scale = max([DAY_HOURS, *(day.idle_hours for day in days)])
    money = max((len(day.potential) for day in days), default=0)
    return [_line(day, scale, money, shape.currency) for day in days]


def _line(day: DayShape, scale: float, money: int, currency: str) -> Text:
    asleep = round(day.scaled_to_zero_hours / scale * CELLS)
    idle = min(round(day.idle_hours / scale * CELLS), CELLS) - asleep
    wakes = f"{day.wakes} wakes" if day.wakes != 1 else "1 wake"
    unpriced = "  no price known for some of it" if day.unpriced_seconds else ""
    return Text.assemble(
        f"{day.date}  ",
        ("█" * asleep, GOOD),
        ("░" * idle, QUIET),
        ("·" * (CELLS - asleep - idle), QUIET),
        f"  {day.scaled_to_zero_hours:6.1f} h at zero  {day.idle_hours:6.1f} h idle  ",
        f"{day.potential:>{money}} {currency}  ",
        (f"{wakes}{unpriced}", QUIET),
    )


def total_lines(shape: SavingsShape, named: dict[str, str]) -> list[Text]:
    if not shape.daily_breakdown:
        until = f" to {shape.last}" if shape.last else ""
        return [Text(f"Nothing slept and nothing was idle from {shape.first or 'the beginning'}{until}.")]
    totals, currency = shape.totals, shape.currency
    hours = f"{shape.total_scaled_to_zero_hours:.1f} h at zero, {shape.total_idle_hours:.1f} h idle"
    told: list[tuple[str, Text | str]] = [
        ("time", hours),
        ("saved", Text(f"{totals.potential} {currency}: the price of what was freed at zero", STRONG)),
        ("realised", f"{totals.realised} {currency} of it, not paid because nodes were gone"),
        ("net", f"{totals.net} {currency} after {totals.wake_cost} {currency} for wakes"),
        ("missed", f"{totals.missed} {currency} of idle time while still up"),
        ("prices", ", ".join(shape.sources) or "none known"),
    ]
    parts: list[tuple[str, Text | str]] = [
        (named.get(each.policy_id, each.policy_id), f"{each.totals.potential} {currency}")
        for each in getattr(shape, "policies", [])
    ]
    return [Text(), *rows(told), *([Text(), *rows(parts)] if parts else [])]
