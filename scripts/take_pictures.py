"""Pictures of the pages, from a real run: the demo with a fixed seed, an hour later, in a real Chromium.

    make pictures        writes docs/pictures/*.png

Time stands still while a picture is taken and continues by steps in between, so the same code shows the
same cluster on every machine. The walk-through (docs/walkthrough.md) speaks of what is to be seen on them.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import new_token
from ebbtide.entrypoints.cli.demo_page import HOST, SETTLING_SECONDS, SPEED, demo_live, demo_site
from ebbtide.entrypoints.report.collect import collect, period_of
from ebbtide.entrypoints.report.page import page as report_page
from ebbtide.simulator.run.live import RUSH_BUSY_SECONDS, RUSH_SECONDS, Live

SEED = 1
NOW = 1_794_800_000
"""A moment in November: the month of the demo is laid before it."""
FIRST_MINUTE = (
    (1, "The pods are pending"),
    (4, "Nodes are launched"),
    (10, "The nodes join"),
    (12, "Survived"),
)
"""Steps of the simulation before each picture of the series, and what it shows."""
WIDE, NARROW = 980, 390
SERIES_WIDE, SERIES_TALL = 1280, 1340
"""So high that the nodes are seen below the chart."""
FULL_PICTURE = 2
TALL = 900
WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Album:
    browser: Browser
    url: str
    folder: Path

    def open(self, name: str, width: int, scheme: str = "light", tall: int = TALL) -> Page:
        dark = scheme == "dark"
        context = self.browser.new_context(
            viewport={"width": width, "height": tall},
            color_scheme="dark" if dark else "light",
            timezone_id="UTC",
            locale="en-GB",
            reduced_motion="reduce",
        )
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(self.url)
        expect(page.locator("#live")).to_have_text("live", timeout=WAIT_MS)
        page.goto(f"{self.url.partition('#')[0]}#/{name}")
        if name == "now":
            page.locator(".trend svg").wait_for()
        return page

    def keep(self, page: Page, name: str, part: str = "") -> None:
        """Of what is seen without scrolling, or of the one part that has this heading."""
        page.mouse.move(0, 0)
        page.evaluate("scrollTo(0, 0)")
        path = str(self.folder / f"{name}.png")
        if part:
            titled = page.locator("section.card").filter(has=page.get_by_role("heading", name=part))
            titled.screenshot(path=path, animations="disabled")
        else:
            page.screenshot(path=path, animations="disabled")
        page.context.close()


def take(folder: Path) -> None:
    live = demo_live(SEED, NOW)
    run_until(live, live.stage.clock.now() + SETTLING_SECONDS)
    token = new_token()
    with served(make_app(demo_site(live, token, SPEED)), HOST, 0) as port, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), headless=True, chromium_sandbox=False
        )
        album = Album(browser, f"http://{HOST}:{port}/#/now?token={token}", folder)
        quiet_morning(album)
        first_minute(album, live)
        draw_report(album, live)
        browser.close()


def run_until(live: Live, moment: float) -> None:
    while live.stage.clock.now() < moment:
        live.step(RUSH_SECONDS, RUSH_BUSY_SECONDS)


def quiet_morning(album: Album) -> None:
    page = album.open("now", WIDE)
    page.locator(".tile").first.click()
    page.get_by_text("Not removed").wait_for()
    album.keep(page, "node", part="Nodes")

    page = album.open("why", WIDE)
    page.locator("details:not(.idle) > summary").first.click()
    page.get_by_role("button", name="Compute it again").first.click()
    page.get_by_text("Same result.").wait_for()
    album.keep(page, "why")

    page = album.open("money", WIDE)
    page.get_by_role("heading", name="Prices").wait_for()
    album.keep(page, "money")

    page = album.open("sleep", WIDE)
    page.locator(".track-bar").first.wait_for()
    album.keep(page, "sleep")


def first_minute(album: Album, live: Live) -> None:
    """A burst, as somebody sees it who presses the first button: pictures for the README."""
    live.strike("burst")
    done = 0
    for number, (steps, _) in enumerate(FIRST_MINUTE, start=1):
        while done < steps or (number == len(FIRST_MINUTE) and live.situation and not live.situation.over):
            live.step()
            done += 1
        page = album.open("now", SERIES_WIDE, tall=SERIES_TALL)
        page.locator(".situation").wait_for()
        album.keep(page, f"minute-{number}")
        if number == FULL_PICTURE:
            burst(album)


def burst(album: Album) -> None:
    page = album.open("now", WIDE, tall=SERIES_TALL)
    page.get_by_role("heading", name="Adding nodes").wait_for()
    album.keep(page, "now")

    page = album.open("now", NARROW, "dark")
    page.get_by_role("heading", name="Adding nodes").wait_for()
    album.keep(page, "phone")


def draw_report(album: Album, live: Live) -> None:
    """What `ebbtide report` makes of the same two days."""
    period = period_of("", "", int(live.stage.clock.now()))
    days = live.scaling.summary(period.first, period.last).total.days
    page = album.browser.new_page(viewport={"width": WIDE, "height": TALL}, color_scheme="light")
    page.set_content(report_page(collect(live.ports.store, "demo", days, period)))
    page.screenshot(path=str(album.folder / "report.png"), full_page=True)
    page.close()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/pictures")
    if shutil.which("chromium") is None:
        sys.exit("There is no chromium on this machine; no picture was taken. Install Debian's chromium.")
    folder.mkdir(parents=True, exist_ok=True)
    take(folder)


if __name__ == "__main__":
    main()
