"""`ebbtide report`: a period as one HTML file, or as a picture of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ebbtide.entrypoints.cli.options import ConfigPath, read_config
from ebbtide.entrypoints.cli.scaled import in_the_store_if_any
from ebbtide.entrypoints.cli.writing import write_lines
from ebbtide.errors import EbbtideError, Usage


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
    from ebbtide.entrypoints.views.days import wrong_day

    if html is None and png is None:
        raise Usage("say where to: --html FILE, --png FILE, or both; nothing was written.")
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
