"""What other settings would have cost, on the page Money in a real Chromium."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from ebbtide.entrypoints.published import publish
from ebbtide.model.events import BacktestPublished, TriedSettings
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_snapshot
from tests.e2e.pages import NARROW, SECONDS, WIDE, Scheme, Synthetic, only_said, opened, serving

expect.set_options(timeout=SECONDS)

TRIED = (
    TriedSettings("as recorded", "100.00", 36_000, 90, 40, False, True),
    TriedSettings("profile balanced", "80.00", 18_000, 60, 40, True, False),
    TriedSettings("profile eager", "71.20", 24_000, 70, 90, True, False),
    TriedSettings("idle_down_sec=3600", "120.00", 9_000, 30, 10, True, False),
    TriedSettings("pending_up_sec=600", "99.00", 80_000, 600, 40, False, False),
)
FACT = BacktestPublished("month.ebb", 10 * 86_400.0, "EUR", "calibration: not possible", TRIED)


def cluster() -> Synthetic:
    return Synthetic(VirtualClock(NOW), make_snapshot([make_node("a1")]))


def what_if(page: Page) -> Locator:
    heading = page.get_by_role("heading", name="What if", exact=True)
    return page.locator("section.card").filter(has=heading)


def test_before_one_is_published_the_page_says_how_to_get_a_backtest(browser: Browser) -> None:
    with serving(cluster().site()) as url, opened(browser, url) as watched:
        watched.show("money")
        expect(what_if(watched.page)).to_contain_text(
            "ebbtide backtest month.ebb --profile balanced --publish"
        )
        assert only_said("/scaling/savings/summary", watched.errors)


@pytest.mark.parametrize(("width", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_the_front_of_the_last_backtest_is_a_chart_with_today_marked_and_the_saving_a_month(
    browser: Browser, width: int, scheme: Scheme
) -> None:
    shown = cluster()
    publish(shown.store, "00000001", NOW, FACT)
    with serving(shown.site()) as url, opened(browser, url, width, scheme) as watched:
        watched.show("money")
        page, found = watched.page, what_if(watched.page)
        expect(found.locator("dl")).to_contain_text("87.60 EUR")
        expect(found.locator("dl")).to_contain_text("profile eager")
        expect(found.locator("svg .dot")).to_have_count(len(TRIED))
        expect(found.locator("svg .dot.front")).to_have_count(3)
        expect(found.locator("svg .dot.today")).to_have_count(1)
        expect(found.locator("svg text").filter(has_text=re.compile("today$"))).to_have_count(1)
        expect(found.locator("svg .front-line")).to_have_count(1)
        today = found.get_by_role("row").filter(has_text="as recorded (today)")
        expect(today).to_contain_text("304.17 EUR")
        eager = found.get_by_role("row").filter(has_text="profile eager")
        expect(eager).to_contain_text("87.60 EUR")
        assert Axe().run(page).response["violations"] == []
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide == 0
        assert only_said("/scaling/savings/summary", watched.errors)
