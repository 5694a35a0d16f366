"""The pages of the demo in a real Chromium, as people use them: by mouse, by keyboard, on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from ebbtide.entrypoints.cli.demo_page import demo_served
from ebbtide.simulator.run.live import Live
from tests.e2e.faults import FAULTS, OUTAGES, watch
from tests.e2e.pages import NARROW, SECONDS, WIDE, Scheme, Watched, opened

PAGES = {"now": "Nodes", "why": "Decisions, newest first", "money": "Prices", "sleep": "reports"}
"""Each page, and a heading that stands there once its data has come."""
AWAKE = re.compile("active|idle")
"""An app that nobody uses is idle a moment after its wake."""
SPEED = 30.0
MOST_STEPS = 400

expect.set_options(timeout=SECONDS)


@pytest.fixture(scope="module")
def demo(browser: Browser) -> Iterator[tuple[str, Live]]:
    with demo_served(seed=1, speed=SPEED, port=0) as served:
        yield served


@pytest.fixture
def watched(browser: Browser, demo: tuple[str, Live]) -> Iterator[Watched]:
    """A page in which nothing may go wrong."""
    with opened(browser, demo[0]) as found:
        expect(found.page.locator("#live")).to_have_text("live")
        yield found
        assert found.errors == []


def heading(page: Page, name: str) -> Locator:
    return page.get_by_role("heading", name=name, exact=True)


def card(page: Page, name: str) -> Locator:
    return page.locator("section.card").filter(has=heading(page, name))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_page_shows_its_data_and_has_no_serious_fault_for_those_who_see_or_move_less(
    browser: Browser, demo: tuple[str, Live], width: int, scheme: Scheme
) -> None:
    with opened(browser, demo[0], width, scheme) as watched:
        page = watched.page
        for name, title in PAGES.items():
            watched.show(name)
            expect(heading(page, title)).to_be_visible()
            if name == "why":
                done(page).locator("summary").first.click()
                expect(page.get_by_role("button", name="Compute it again").first).to_be_visible()
            assert serious(page) == []
            assert cut_off(page) == []
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert wide == 0, f"{name} is wider than the window"
        assert watched.errors == []


def done(page: Page) -> Locator:
    """The newest decision that did something; how far back it is depends on how long the demo has run."""
    found = page.locator("details:not(.idle):not(.nothing):not(.notices)")
    older = page.get_by_role("button", name="Older decisions")
    expect(found.or_(older).first).to_be_visible()
    while not found.count():
        older.click()
        expect(found.or_(older).first).to_be_visible()
    return found.first


CUT_OFF = """() => [...document.querySelectorAll(".scroll")]
  .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
  .map((each) => each.getAttribute("aria-label"))"""


def cut_off(page: Page) -> list[str]:
    """Tables of which a part is out of sight."""
    found: list[str] = page.evaluate(CUT_OFF)
    return found


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:120]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


LABELS = """async () => {
  const { since, now } = await (await fetch("/api/v1/scaling/strips?days=7")).json();
  const moments = [...document.querySelector(".strip-days").children].map(
    (each) => since + (Number.parseFloat(each.style.left) / 100) * (now - since));
  const off = (at) => Math.abs(at - Math.round(at / 86400) * 86400) / 60;
  return moments.map(off);
}"""
"""How many minutes the label of each day is away from its midnight in UTC."""


def test_the_days_below_a_strip_begin_at_midnight(browser: Browser, demo: tuple[str, Live]) -> None:
    """They were written at the time of day of now: the night of Friday lay below "Sat"."""
    context = browser.new_context(timezone_id="UTC")
    page = context.new_page()
    page.goto(demo[0].replace("/now", "/sleep"))
    expect(page.locator(".track-bar").first).to_be_visible()
    minutes = page.evaluate(LABELS)
    assert len(minutes) == 7
    assert max(minutes) < 60
    context.close()


def test_a_sleeping_workload_is_woken_by_its_button(watched: Watched) -> None:
    page = watched.page
    watched.show("sleep")
    asleep = page.locator("section.card").filter(has_text="asleep for").first
    name = asleep.locator("h2").inner_text()
    asleep.get_by_role("button", name=f"Wake {name}").click()
    one = card(page, name)
    expect(one.locator(".pill")).to_have_text(AWAKE)
    one.locator("summary").click()
    expect(one.locator("tbody tr").first).to_contain_text("hand")
    one.get_by_label("Keep up for").fill("2")
    one.get_by_role("button", name=f"Keep {name} up").click()
    expect(one).to_contain_text("Kept up until")


def test_a_request_to_a_sleeping_app_is_held_and_answered(watched: Watched) -> None:
    page = watched.page
    watched.show("sleep")
    asleep = page.locator("section.card").filter(has_text="asleep for").first
    name = asleep.locator("h2").inner_text()
    asleep.get_by_role("button", name=f"Open the sleeping app {name}").click()
    one = card(page, name)
    expect(one).to_contain_text("and then answered. In the cluster's time the wake took")
    expect(one.locator(".pill")).to_have_text(AWAKE)
    one.locator("summary").click()
    expect(one.locator("tbody tr").first).to_contain_text("a request")


PRESSED = """async () => {
  const { redraw, h } = await import("/static/dom.js");
  const box = document.querySelector("main").appendChild(document.createElement("div"));
  const hours = () => h("input", { type: "number", value: "3", "data-key": "hours" });
  redraw(box, [hours()]);
  box.firstChild.value = "5";
  dispatchEvent(new PointerEvent("pointerdown"));
  redraw(box, [hours(), h("p", {}, "new")]);
  const held = box.children.length;
  dispatchEvent(new PointerEvent("pointerup"));
  await new Promise((resolve) => setTimeout(resolve, 100));
  return [held, box.children.length, box.firstChild.value];
}"""


def test_nothing_is_drawn_again_under_a_press_and_what_was_typed_stays(watched: Watched) -> None:
    """A button that is replaced between press and release gets no click."""
    assert watched.page.evaluate(PRESSED) == [1, 2, "5"]


def test_the_pause_button_is_a_brake_that_can_be_let_go(watched: Watched, demo: tuple[str, Live]) -> None:
    page = watched.page
    page.get_by_role("button", name="Pause all removals").click()
    expect(page.get_by_text("pause: removals are paused: from the page")).to_be_visible()
    assert demo[1].ports.store.load().paused
    page.get_by_role("button", name="Allow removals again").click()
    expect(page.get_by_text("pause: off")).to_be_visible()
    assert not demo[1].ports.store.load().paused


def test_the_first_link_skips_to_the_content_and_stays_on_the_page(watched: Watched) -> None:
    page = watched.page
    watched.show("money")
    expect(heading(page, "Prices")).to_be_visible()
    page.reload()
    expect(heading(page, "Prices")).to_be_visible()
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#page")).to_be_focused()
    expect(page.locator("h1")).to_have_text("Money")


def test_a_decision_unfolds_and_is_computed_again(watched: Watched) -> None:
    page = watched.page
    watched.show("why")
    first = done(page)
    first.locator("summary").first.click()
    expect(first.get_by_role("heading", name=re.compile(": yes$")).first).to_be_visible()
    first.get_by_role("button", name="Compute it again").click()
    expect(first.get_by_text("Same result.")).to_be_visible()


def test_the_last_hours_are_read_by_pointer_and_by_arrow_keys(watched: Watched) -> None:
    page = watched.page
    chart = page.get_by_role("group", name="Chart of nodes, pending pods and cost an hour")
    values = page.locator(".trend-values")
    expect(values).to_have_text(re.compile(r"^Now: \d+ nodes, \d+ pending, [\d.]+ USD an hour"))
    expect(chart.locator("path.line")).to_have_count(3)
    chart.hover(position={"x": 400, "y": 60})
    expect(values).not_to_have_text(re.compile("^Now"))
    page.mouse.move(0, 0)
    expect(values).to_have_text(re.compile("^Now"))
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(values).not_to_have_text(re.compile("^Now"))


def test_the_chart_of_the_last_hours_stands_below_the_headline_and_above_the_nodes(watched: Watched) -> None:
    page = watched.page
    expect(page.locator(".tile").first).to_be_visible()
    titles = page.locator("main h2").all_inner_texts()
    assert titles.index("Last hours") < titles.index("Nodes") < titles.index("Events")


def test_an_event_of_the_clusters_day_shows_its_time_alone_and_an_older_one_its_day(
    watched: Watched, demo: tuple[str, Live]
) -> None:
    page = watched.page
    times = page.locator(".feed time")
    expect(times.first).to_be_visible()
    day = page.evaluate("(at) => new Date(at * 1000).toDateString()", demo[1].stage.clock.now())
    for time in times.all()[:40]:
        at = time.get_attribute("datetime")
        same = page.evaluate("(at) => new Date(at).toDateString()", at) == day
        assert (time.inner_text() == time.get_attribute("title")) is not same


def test_a_printed_page_is_dark_on_white_also_for_those_who_like_it_dark(
    browser: Browser, demo: tuple[str, Live]
) -> None:
    with opened(browser, demo[0], WIDE, "dark") as watched:
        page = watched.page
        watched.show("money")
        expect(heading(page, "Prices")).to_be_visible()
        page.emulate_media(media="print", color_scheme="dark")
        colour = "getComputedStyle(document.querySelector('.card')).%s"
        assert page.evaluate(colour % "backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate(colour % "color") == "rgb(20, 35, 43)"
        watched.show("sleep")
        expect(page.locator(".track-bar").first).to_be_visible()
        expect(page.get_by_text("Keep up for").first).to_be_hidden()
        assert "\nhours" not in page.locator("main").inner_text()
        assert watched.errors == []


def test_dark_and_light_are_kept_when_the_page_is_loaded_again(watched: Watched) -> None:
    page = watched.page
    button = page.get_by_role("button", name="Dark")
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(button).to_have_attribute("aria-pressed", "true")


def resolve(live: Live) -> None:
    """Time continues by steps, not by the clock: nobody waits for it."""
    for _ in range(MOST_STEPS):
        live.step(in_process=True)
        if live.situation is not None and live.situation.over:
            return
    raise AssertionError(f"not over: {live.situation and live.situation.lines}")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told_in_the_panel_and_the_feed_while_it_is_answered_and_when_it_is_survived(
    watched: Watched, demo: tuple[str, Live], fault: str
) -> None:
    page, live = watched.page, demo[1]
    panel = page.locator(".situation")
    watch(page, fault)
    page.get_by_role("button", name=fault, exact=True).click()
    expect(panel.get_by_role("heading", name=f"Surviving: {fault}")).to_be_visible()
    expect(page.get_by_text("Until this is over, time passes 12 times as fast")).to_be_visible()
    said = card(page, "Events").locator("li[data-group=person]").first
    expect(said).to_contain_text("A person broke something")
    # Before time is stopped: the page reads what the demo shows only while nobody holds its lock.
    # What answers the fault depends on the hour of the demo: see test_pages_in_a_fault.py.
    if fault in OUTAGES:
        expect(page.locator("#trouble")).to_contain_text(OUTAGES[fault])
    with live.lock:
        if fault == "API server gone":
            expect(page.locator("#live")).to_have_text("stale")
            expect(page.locator("dl.stats").first).not_to_contain_text(re.compile("(workers|pods on nodes)0"))
            expect(page.locator(".tile").first).to_be_visible()
    print(f"{fault}, milliseconds after the press: {page.evaluate('window.seen')}")
    resolve(live)
    expect(panel.locator(".pill")).to_contain_text("survived after")
    expect(panel.locator("li.past")).to_have_count(len(live.situation.lines) if live.situation else 0)
    expect(page.locator("#live")).to_have_text("live")


def test_a_wrong_number_of_hours_is_said_at_its_field_and_nothing_is_sent(watched: Watched) -> None:
    page = watched.page
    watched.show("sleep")
    one = card(page, "wiki")
    field = one.get_by_label("Keep up for")
    field.fill("0")
    one.get_by_role("button", name="Keep wiki up").click()
    expect(one.get_by_role("alert")).to_have_text("Enter 1 to 168 hours.")
    expect(one.get_by_label("Keep up for")).to_have_attribute("aria-invalid", "true")
    assert not any(asked.endswith("/keep-up") for asked in watched.asked)
    one.get_by_label("Keep up for").fill("2")
    one.get_by_role("button", name="Keep wiki up").click()
    expect(one.get_by_role("alert")).to_have_count(0)
    expect(one).to_contain_text("Kept up until")
