"""The map of nodes in a real Chromium: filled by what is requested or by what is really used."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from ebbtide.model.snapshot import NodeUse, Reading
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_pod, make_snapshot
from tests.e2e.pages import SECONDS, Synthetic, opened, serving

expect.set_options(timeout=SECONDS)


TOKEN_COLOUR = """(name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}"""


def cluster(uses: dict[str, NodeUse]) -> Synthetic:
    """Half of a1 is requested and nothing of b1."""
    nodes = [make_node("a1"), make_node("b1")]
    seen = make_snapshot(nodes, [make_pod("web", 2000, node_name="a1")], cpu=Reading(0.3, NOW))
    return Synthetic(VirtualClock(NOW), seen, uses=uses)


def tile(page: Page, node: str) -> Locator:
    return page.locator(f'.tile[data-key="node-uid-{node}"]')


def fill_of(page: Page, node: str) -> str:
    found: str = tile(page, node).locator("i").evaluate("each => each.style.getPropertyValue('--fill')")
    return found


def test_nodes_are_filled_by_requests_or_by_use_and_unknown_use_is_not_zero(browser: Browser) -> None:
    shown = cluster({"a1": NodeUse(0.12, 0.4, NOW)})
    with serving(shown.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(tile(page, "a1")).to_have_attribute("aria-label", re.compile("50% requested"))
        expect(page.get_by_role("button", name="Fill: requests")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Fill: use").click()
        expect(tile(page, "a1")).to_have_attribute("aria-label", re.compile("40% used"))
        expect(tile(page, "a1").locator("small")).to_have_text("40%")
        assert fill_of(page, "a1") == "0.40"
        expect(tile(page, "b1")).to_have_attribute("aria-label", re.compile("use unknown"))
        expect(tile(page, "b1").locator("small")).to_have_text("unknown")
        expect(tile(page, "b1")).to_have_class(re.compile("unknown"))
        tile(page, "b1").click()
        expect(page.get_by_text("CPU usedunknown")).to_be_visible()
        assert Axe().run(page).response["violations"] == []
        page.get_by_role("button", name="Fill: requests").click()
        expect(tile(page, "b1")).to_have_attribute("aria-label", re.compile("0% requested"))
        expect(tile(page, "b1")).not_to_have_class(re.compile("unknown"))
        assert watched.errors == []


@pytest.mark.parametrize(("seconds", "ago"), [(600, "10 min ago"), (100, "100 s ago")])
def test_use_stays_with_its_age_while_metrics_are_gone_and_is_greyed(
    browser: Browser, seconds: int, ago: str
) -> None:
    shown = cluster({"a1": NodeUse(0.12, 0.4, NOW), "b1": NodeUse(0.2, None, NOW)})
    with serving(shown.site()) as url, opened(browser, url) as watched:
        page = watched.page
        page.get_by_role("button", name="Fill: use").click()
        expect(tile(page, "b1")).to_have_attribute("aria-label", re.compile("20% used,"))
        shown.uses = {}
        shown.clock.sleep(seconds)
        shown.change(lambda seen: replace(seen, at=NOW + seconds, cpu=Reading(problem="no answer")))
        expect(page.locator("#trouble")).to_contain_text("The metrics cannot be read")
        expect(tile(page, "a1")).to_have_attribute("aria-label", re.compile(f"40% used {ago}"))
        assert fill_of(page, "a1") == "0.40"
        expect(page.locator(".zones")).to_have_css("filter", "grayscale(0.75)")
        tile(page, "a1").click()
        quiet = page.evaluate(TOKEN_COLOUR, "--quiet")
        for shown_as in ("CPU", "CPU used", "memory used"):
            named = page.locator("dl.stats > div").filter(has_text=re.compile(rf"^{shown_as}\d"))
            expect(named.locator("dd"), shown_as).to_have_css("color", quiet)
        page.get_by_role("link", name="Why is it still here?").click()
        really = page.get_by_text(f"12% of its CPU and 40% of its memory really used {ago}")
        expect(really).to_have_css("color", quiet)
        assert watched.errors == []
