"""What a cluster costs and what was saved: `ebbtide assess`, `prices`, `report` and `savings`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.cli.policies import book_of, in_the_store, in_the_store_if_any
from ebbtide.entrypoints.views.terminal import GOOD, QUIET, STRONG, rows, write_json, write_lines
from ebbtide.errors import EbbtideError, NotFound, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.scale_to_zero.scaling import Scaling
    from ebbtide.entrypoints.views.policy_schemas import DayShape, SavingsShape
    from ebbtide.model.pool import Pool

app = typer.Typer(
    no_args_is_help=True, help="Show what node types cost, or get current prices from the cloud."
)
PriceFile = Annotated[
    Path | None,
    typer.Option(
        help="Price file. Default: `prices.file`, else ebbtide-prices.yaml next to the configuration."
    ),
]


def assess(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file with the output of kubectl, - for standard input, or live."
        ),
    ],
    prices: PriceFile = None,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page.")] = None,
    md: Annotated[Path | None, typer.Option(help="Also write the report as Markdown.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report what a cluster costs and wastes, from a dump or live. Changes nothing."""
    from ebbtide.entrypoints.assess.command import assess_command

    book = read_config(ctx, None, price_file=prices).prices
    raise typer.Exit(assess_command(source, book, as_json, html, md))


@app.command()
def show(
    ctx: typer.Context,
    file: PriceFile = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """List the prices of the pools' types, or of all known types where no pool is configured."""
    from ebbtide.entrypoints.prices import show as show_prices

    found = read_config(ctx, config, price_file=file)
    show_prices(_pools(found), found.prices, as_json)


@app.command()
def update(
    ctx: typer.Context,
    file: PriceFile = None,
    config: ConfigPath = None,
) -> None:
    """Get prices from the configured cloud and write them to the price file."""
    from datetime import UTC, datetime

    from ebbtide.bootstrap.kubernetes import cloud_client
    from ebbtide.config.prices import price_file_to_write
    from ebbtide.entrypoints.prices import update as update_prices

    found = read_config(ctx, config, with_prices=False)
    file = file or price_file_to_write(found)
    client = cloud_client(found)
    day = datetime.now(UTC).date().isoformat()
    says = update_prices(found.adapters.cloud.kind or "", client, found.settings.pools, file, day)
    write_lines([f"{says[0].upper()}{says[1:]}."])


def _pools(config: Config) -> tuple[Pool, ...]:
    """Those that were given; the one that stands in for a simulated cluster is nobody's."""
    given = any(key.key == "pools" and key.origin != "default" for key in config.effective)
    return config.settings.pools if given else ()


class NothingToReport(EbbtideError):
    """There is no record and no log; a file with empty tables would look like an idle month."""


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE = 900
BASE, LINE = 1450, 29
"""The height of a picture: without the lines of its tables, and for each of them."""
PICTURE_SECONDS = 60


def report(
    ctx: typer.Context,
    html: Annotated[Path | None, typer.Option(help="Write the report as one HTML file.")] = None,
    png: Annotated[Path | None, typer.Option(help="Write a picture of it; needs a Chromium.")] = None,
    first: Annotated[str, typer.Option("--from", help="First day. Default: 30 days before the last.")] = "",
    last: Annotated[str, typer.Option("--to", help="Last day, included. Default: today.")] = "",
    config: ConfigPath = None,
) -> None:
    """Report what a period cost and saved, what was done, and what failed."""
    from ebbtide.entrypoints.report.collect import collect, period_of
    from ebbtide.entrypoints.report.page import page
    from ebbtide.entrypoints.views.inputs import wrong_day

    if html is None and png is None:
        raise Usage("give --html FILE, --png FILE, or both; nothing was written.")
    if wrong := wrong_day(first, last):
        raise Usage(f"--{wrong[0]}: {wrong[1]}; nothing was written.")
    browser = _browser() if png is not None else ""
    found = read_config(ctx, config)
    with in_the_store_if_any(found) as scaling:
        if scaling is None:
            raise NothingToReport(
                f"nothing has run here yet ({found.store_url} is not there), so there is nothing to report; "
                "nothing was written. Run `ebbtide once` first, or name the configuration with --config."
            )
        period = period_of(first, last, int(scaling.ports.clock.now()))
        if period.since > period.until:
            raise Usage(f"--from: {period.first} is still to come; nothing was written.")
        days = scaling.summary(period.first, period.last).total.days
        data = collect(scaling.ports.store, found.settings.cluster, days, period)
    text = page(data)
    for path in (html, png):
        if path is not None and not path.parent.is_dir():
            raise Usage(f"there is no folder {path.parent}; nothing was written.")
    if html is not None:
        html.write_text(text)
        write_lines([f"The report of {period.first} to {period.last} is in {html}."])
    if png is not None:
        _draw(browser, text, png, BASE + LINE * data.lines)
        write_lines([f"A picture of it is in {png}."])


def _browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise Usage(
            "a picture needs a Chromium, and none was found on this machine; nothing was written. "
            "Install the package chromium, or ask for --html."
        )
    return found


def _draw(browser: str, text: str, png: Path, tall: int) -> None:
    """In a profile of its own that goes with it; the browser may ask nobody."""
    with tempfile.TemporaryDirectory(prefix="ebbtide-report-") as folder:
        source, drawn = Path(folder) / "report.html", Path(folder) / "report.png"
        source.write_text(text)
        command = [
            browser,
            "--headless",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),  # it does not start as root with one
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--force-prefers-reduced-motion",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WIDE},{tall}",
            f"--screenshot={drawn}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PICTURE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Usage(f"{browser} drew no picture ({error}); {png} was not written.") from error
        if not drawn.exists():
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise Usage(f"{browser} drew no picture ({' '.join(said)}); {png} was not written.")
        shutil.copyfile(drawn, png)


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
    from ebbtide.entrypoints.views.inputs import wrong_day

    rebuilds, name = _understood(words or [])
    if as_json and as_csv:
        raise Usage("use either --json or --csv; nothing was touched.")
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
        write_lines(["Nothing has run here yet, so nothing has been saved."])
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
    from ebbtide.entrypoints.views.inputs import bounds
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
