"""Each fault of the demo on the page, while time stands still between the steps that a test makes: what is to
be seen is there for as long as it takes to look."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.cli.demo_page import demo_live, demo_site
from ebbtide.model.record import Record
from ebbtide.simulator.run.live import RUSH_BUSY_SECONDS, RUSH_SECONDS, SLOW_SPEED, Live
from tests.e2e.faults import FAULTS, OUTAGES, WITHIN_SECONDS
from tests.e2e.pages import HOST, SECONDS, SHIFTS, TOKEN, Watched, opened

MOST_STEPS = 400
SETTLING_STEPS = 40
SPEED = 60.0
PAGES = {"now": "Nodes", "why": "Decisions, newest first", "money": "Prices", "sleep": "reports"}
BEGUN: dict[str, Callable[[Record], bool]] = {
    "Burst": lambda record: record.launching is not None,
    "Spot loss": lambda record: bool(record.spots),
    "Stuck drain": lambda record: bool(record.spots),
    "Crash": lambda record: bool(record.spots),
}
"""The faults that something is done about, and whether the record has it."""

expect.set_options(timeout=SECONDS)


@pytest.fixture(scope="module")
def demo() -> Iterator[tuple[str, Live]]:
    """It continues by the steps of the tests alone."""
    live = demo_live(1, time.time())
    for _ in range(SETTLING_STEPS):
        live.step(RUSH_SECONDS, RUSH_BUSY_SECONDS)
    with served(make_app(demo_site(live, TOKEN, SPEED)), HOST, 0) as port:
        yield f"http://{HOST}:{port}/#/now?token={TOKEN}", live


@pytest.fixture
def watched(browser: Browser, demo: tuple[str, Live]) -> Iterator[Watched]:
    with opened(browser, demo[0]) as found:
        expect(found.page.locator("#live")).to_have_text("live")
        yield found
        assert found.errors == []


def step_until(live: Live, reached: Callable[[], bool]) -> None:
    for _ in range(MOST_STEPS):
        if reached():
            return
        live.step()
    raise AssertionError(f"never: {live.situation and live.situation.lines}")


def is_over(live: Live) -> bool:
    return live.situation is not None and live.situation.over


def is_at_rest(record: Record) -> bool:
    """Nothing is decided again while something is in progress."""
    return not record.scaling_in_progress and not record.spots


def strike(page: Page, fault: str) -> None:
    page.get_by_role("button", name=fault, exact=True).click()
    heading = page.get_by_role("heading", name=f"Surviving: {fault}")
    expect(heading).to_be_visible()
    expect(page.locator(".situation .here").first).to_be_visible()
    expect(events(page).first).to_contain_text("A person broke something")
    expect(events(page).first).to_contain_text(FAULTS[fault].said)


def events(page: Page) -> Locator:
    return page.get_by_role("list", name="Events, newest first").locator("li")


@pytest.mark.parametrize("fault", BEGUN)
def test_what_is_done_about_a_fault_is_a_timeline_and_its_end_an_event(
    watched: Watched, demo: tuple[str, Live], fault: str
) -> None:
    page, live = watched.page, demo[1]
    title, begun = FAULTS[fault].timeline, BEGUN[fault]
    # What ends in the same tick would leave the answer without a step until the next one.
    step_until(live, lambda: is_at_rest(live.ports.store.load()))
    strike(page, fault)
    struck = live.stage.clock.now()
    step_until(live, lambda: begun(live.ports.store.load()))
    assert (live.stage.clock.now() - struck) / SLOW_SPEED <= WITHIN_SECONDS, "so much later a person sees it"
    shown = page.locator(".operation").filter(has_text=title).first
    expect(shown).to_be_visible()
    expect(shown.locator(".track .here").first).to_be_visible()
    expect(page.locator(".situation .here").first).to_be_visible()
    expect(page.locator(".situation .here").first).to_contain_text("Next: ")
    assert serious(page) == []
    step_until(live, lambda: is_over(live))
    expect(page.locator(".situation .pill.good")).to_contain_text("survived after")
    expect(page.locator(".situation h2")).to_have_text(f"Survived: {fault}")
    expect(page.locator(".situation li.past")).to_have_count(
        len(live.situation.lines) if live.situation else 0
    )
    step_until(live, lambda: not begun(live.ports.store.load()))
    expect(page.locator(".operation").filter(has_text=title)).to_have_count(0)
    expect(events(page).first).not_to_contain_text("A person broke something")


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:120]}" for each in found]


NUMBERS = """() => [...document.querySelectorAll("main dl.stats > div, main tbody tr")].flatMap((row) => {
  const named = row.querySelector("dt, td:not(.number)")?.textContent ?? "";
  const place = row.closest("section")?.querySelector("h2")?.textContent ?? "";
  const cells = [...row.querySelectorAll("dd, td.number")];
  return cells.map((cell, at) => [`${place} / ${named} / ${at}`, cell.textContent]);
})"""


COLOURED = """() => [...document.querySelectorAll("main [data-from=cluster], main .grid > .card")]
  .filter((part) => getComputedStyle(part.closest("[data-from=cluster]") ?? part).filter === "none")
  .map((part) => part.querySelector("h2")?.textContent ?? part.className)"""
"""What is read from the cluster, or is a card of the Sleep page, and looks as if it were known now."""


def numbers(watched: Watched, coloured: list[str] | None = None) -> dict[str, str]:
    """Every number of every page, by where it stands."""
    found: dict[str, str] = {}
    for name, title in PAGES.items():
        watched.show(name)
        expect(watched.page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        found |= {f"{name} / {place}": text for place, text in watched.page.evaluate(NUMBERS)}
        if coloured is not None:
            coloured += watched.page.evaluate(COLOURED)
    watched.show("now")
    return found


def is_zero(text: str) -> bool:
    first = re.search(r"\d+(?:\.\d+)?", text)
    return first is not None and float(first[0]) == 0


@pytest.mark.parametrize("fault", OUTAGES)
def test_an_outage_has_its_banner_and_turns_no_number_into_zero(
    watched: Watched, demo: tuple[str, Live], fault: str
) -> None:
    """An empty answer would look like a cluster without nodes that costs nothing."""
    page, live = watched.page, demo[1]
    step_until(live, lambda: is_at_rest(live.ports.store.load()))
    before = numbers(watched)
    expect(page.get_by_role("heading", name="Nodes", exact=True)).to_be_visible()
    strike(page, fault)
    struck = live.stage.clock.now()
    live.step()
    assert (live.stage.clock.now() - struck) / SLOW_SPEED <= WITHIN_SECONDS, "so much later a person sees it"
    trouble = page.locator("#trouble")
    expect(trouble).to_contain_text(OUTAGES[fault])
    expect(page.locator("#live")).to_have_text("stale")
    assert serious(page) == []
    coloured: list[str] = []
    during = numbers(watched, coloured)
    assert len(during) > len(before) // 2
    assert fault != "API server gone" or coloured == []
    if fault == "API server gone":
        watched.show("money")
        expect(page.get_by_text(re.compile("^Not known now: "))).to_be_visible()
        watched.show("sleep")
        expect(page.get_by_text("once the cluster can be read again").first).to_be_visible()
        watched.show("why")
        row = page.locator("main details").first
        row.locator("summary").first.click()
        # What is folded is filled in when it is opened, not at once.
        if "idle" in (row.get_attribute("class") or ""):
            row.locator("details > summary").first.click()
        newest = page.locator("details.nothing").first
        expect(newest.get_by_text("Seen: nothing. ")).to_be_visible()
        expect(newest).not_to_contain_text(re.compile(r"\b0 (of 0 )?(nodes|workers|pods)"))
        watched.show("now")
    assert [
        name for name, text in during.items() if is_zero(text) and not is_zero(before.get(name, "0"))
    ] == []
    step_until(live, lambda: is_over(live))
    expect(trouble).to_be_hidden()
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator(".situation .pill.good")).to_contain_text("survived after")
    source = "metrics" if fault == "Metrics gone" else "cluster"
    over = f"Outage over: the {source} can be read again after 5 min"
    expect(events(page).filter(has_text=over)).to_have_class("good")
    expect(events(page).filter(has_text="Outage begins: ").first).to_have_class("bad")
    expect(page.get_by_text(re.compile("^Alarm at .*: outage"))).to_have_count(0)


MOST_SHIFT = 0.02
PAINT_MS = 1000
"""On loopback, until something is painted. Others may use the machine: the best of a few loads counts."""
LOADS = 8


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_paints_soon_and_does_not_jump_and_axe_finds_nothing(
    browser: Browser, demo: tuple[str, Live], scheme: str
) -> None:
    with opened(browser, demo[0], scheme="dark" if scheme == "dark" else "light") as watched:
        page = watched.page
        for name, title in PAGES.items():
            watched.show(name)
            paints: list[float] = []
            while not paints or (min(paints) >= PAINT_MS and len(paints) < LOADS):
                page.reload()
                expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
                shift, moved, painted = page.evaluate(SHIFTS)
                paints.append(painted)
                assert shift < MOST_SHIFT, (name, moved)
            print(f"{name}, {scheme}: first paint after {min(paints):.0f} ms, layout shift {shift:.4f}")
            assert min(paints) < PAINT_MS, (name, paints)
            assert serious(page) == []
        assert all(asked.startswith(watched.base) for asked in watched.asked)
        assert watched.errors == []
