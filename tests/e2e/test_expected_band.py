"""Expected pods on the chart of Now, in a real Chromium."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.entrypoints.api.site import Site
from ebbtide.model.events import CostNoted
from ebbtide.model.pool import HeadroomSeen
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, ForecastSettings
from ebbtide.narrate import entry_of
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import POOL, make_node, make_settings, make_snapshot
from tests.e2e.pages import NARROW, SECONDS, WIDE, Scheme, Synthetic, opened, serving

expect.set_options(timeout=SECONDS)

DAY = STEPS_A_DAY * STEP_SECONDS
SEVEN = 1_699_920_000 + 7 * 3600 + 60
"""2023-11-14 07:01 UTC: at eight there will be more."""


def office(days: int) -> Site:
    """A cluster that had 12 to 16 pods by day and 2 or 3 by night for so many days."""
    shown = Synthetic(VirtualClock(SEVEN), make_snapshot([make_node("a1")], at=SEVEN))
    shown.store = MemoryStore(shown.clock, "cluster", MemoryDatabase(100_000))
    for at in range(SEVEN - 60 - days * DAY, SEVEN - 60, STEP_SECONDS):
        more = at // STEP_SECONDS * 7919
        pods = 12 + more % 5 if 8 * 3600 <= at % DAY < 18 * 3600 else 2 + more % 2
        demand = {POOL: (pods, pods * 500, pods * 512)}
        fact = CostNoted({"EUR": "0.10"}, 0, 1, 0, demand=demand, demandSince=at)
        shown.store.append([entry_of(f"{at:012d}", at + STEP_SECONDS, fact, "demand")])
    seen = (HeadroomSeen(AHEAD, 10, 8),)
    shown.store.write(replace(shown.store.load(), headroom=seen, ticked_at=SEVEN), None)
    return replace(shown.site(), settings=make_settings(forecast=ForecastSettings(enabled=True)))


AHEAD = "2 nodes ahead of 08:00 UTC, expected 12 to 16 pods in pool workers"


def chart(page: Page) -> Locator:
    heading = page.get_by_role("heading", name="Last hours", exact=True)
    return page.locator("section.card").filter(has=heading)


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_the_chart_of_now_continues_into_the_next_hours_with_the_band_of_expected_pods(
    browser: Browser, width: int, scheme: Scheme
) -> None:
    with serving(office(9)) as url, opened(browser, url, width, scheme) as watched:
        page, found = watched.page, chart(watched.page)
        expect(found.locator("svg .band")).to_have_count(1)
        expect(found.locator("svg .line.pods")).to_have_count(1)
        expect(found).to_contain_text("pods, and expected from p50 to p95")
        expect(found.locator(".trend-values")).to_contain_text(
            re.compile(r"next 2 h: \d+ to \d+ pods expected")
        )
        expect(page.get_by_text(f"{AHEAD}: room for 8 of 10, 2 missing")).to_be_visible()
        found.locator(".trend").focus()
        page.keyboard.press("ArrowRight")
        expect(found.locator(".trend-values")).to_contain_text(re.compile(r"pods expected$"))
        box, band = (found.locator(each).bounding_box() for each in ("svg .now-line", "svg .band"))
        assert box is not None
        assert band is not None
        assert band["x"] + band["width"] > box["x"] + 20
        assert Axe().run(page).response["violations"] == []
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0
        assert watched.errors == []


def test_before_there_are_enough_notes_the_chart_says_so(browser: Browser) -> None:
    with serving(office(1)) as url, opened(browser, url) as watched:
        found = chart(watched.page)
        expect(found).to_contain_text(
            "nothing is expected yet: demand is noted for 1 day, it takes 3 days 12 h"
        )
        expect(found.locator("svg .band")).to_have_count(0)
        assert watched.errors == []


def test_without_a_forecast_the_chart_ends_now_and_is_not_asked_for_again(browser: Browser) -> None:
    site = replace(office(1), settings=make_settings())
    with serving(site) as url, opened(browser, url) as watched:
        page, found = watched.page, chart(watched.page)
        expect(found.locator("svg .line.cost")).to_have_count(1)
        with page.expect_response(lambda answer: "hours=24" in answer.url):
            page.get_by_role("button", name="24 h", exact=True).click()
        expect(page.get_by_role("button", name="24 h", exact=True)).to_have_attribute("aria-pressed", "true")
        expect(found.locator("svg .now-line")).to_have_count(0)
        assert sum("/api/v1/forecast" in each for each in watched.asked) == 1
        assert watched.errors == []
