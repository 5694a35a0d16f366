"""What must not move or break on a page that is opened, or that loses its connection, in an outage."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.entrypoints.api.site import Site
from ebbtide.errors import Retryable
from ebbtide.model.events import CostNoted, OperationClosed, OperationKind, SpotAnswer, SpotEvent
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, SlotState, SpotKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView, Reading, Snapshot
from ebbtide.narrate import entry_of
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import (
    NOW,
    make_node,
    make_pod,
    make_removal,
    make_scale_up,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.e2e.pages import NARROW, SECONDS, SHIFTS, WIDE, Synthetic, only_said, opened, serving
from tests.servers.dynamodb import free_port

MOST_SHIFT = 0.01
PAGES = ("now", "why", "money", "sleep")
SEEN = make_snapshot(
    [make_node(name) for name in ("a1", "b1", "c1")],
    [make_pod("web", node_name="a1"), make_pod("new", phase=PodPhase.PENDING)],
    cpu=Reading(0.41, NOW),
)
GONE = ("the API server does not answer",)
NO_CPU = Reading(problem="the metrics server does not answer")
UNREAD = {
    "cluster": replace(SEEN, cluster=ClusterView(), cpu=NO_CPU, problems=GONE),
    "cloud": replace(SEEN, instances=(), problems=("the cloud does not answer",)),
    "metrics": replace(SEEN, cpu=NO_CPU),
}

OLD = {
    "cluster": "The cluster cannot be read. The values shown are 90 s old",
    "cloud": "The cloud cannot be read. Its list of instances is 90 s old",
    "metrics": "The metrics cannot be read. The CPU shown is 90 s old",
}
"""What the banner says is old: nodes and pods are not, where the cloud alone cannot be read."""

expect.set_options(timeout=SECONDS)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


def read_once(clock: VirtualClock, unread: Snapshot) -> Site:
    """Of a server that knew all before, and reads it again at every request."""
    cluster = Synthetic(clock, SEEN)
    site = cluster.site()
    site.sight.seen()
    clock.move_to(NOW + 90)
    cluster.snapshot = unread
    return site


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("unread", UNREAD)
def test_a_page_that_is_opened_in_an_outage_does_not_jump(
    browser: Browser, clock: VirtualClock, unread: str, width: int
) -> None:
    """The banner came after the page was drawn, and pushed all of it down."""
    with serving(read_once(clock, UNREAD[unread])) as url, opened(browser, url, width) as watched:
        page = watched.page
        for name in PAGES:
            watched.show(name)
            page.reload()
            expect(page.locator("#trouble")).to_contain_text(OLD[unread])
            expect(page.locator("main:not(.unread)")).to_be_attached()
            expect(page.locator("#live")).to_have_text("stale")
            shift, moved, _ = page.evaluate(SHIFTS)
            print(f"{unread}, {name}, {width} px: layout shift {shift:.4f}")
            assert shift < MOST_SHIFT, (name, moved)


def test_the_answer_for_a_node_or_a_pod_is_said_to_be_that_of_the_last_look(
    browser: Browser, clock: VirtualClock
) -> None:
    """ "It is not pending: it is on a1" was said of a pod that nobody had seen for minutes."""
    with serving(read_once(clock, UNREAD["cluster"])) as url, opened(browser, url) as watched:
        for asked in ("node=a1", "pod=default/web"):
            watched.show(f"why/?{asked}")
            expect(watched.page.locator(".says")).to_contain_text("When last read: ")


class Deaf(MemoryStore):
    def load(self) -> Record:
        raise Retryable("the store does not answer")


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_page_that_is_opened_while_the_store_is_gone_does_not_jump(
    browser: Browser, clock: VirtualClock, width: int
) -> None:
    cluster = Synthetic(clock, SEEN)
    cluster.store = Deaf(clock, "cluster")
    with serving(cluster.site()) as url, opened(browser, url, width) as watched:
        for name in PAGES:
            watched.show(name)
            watched.page.reload()
            expect(watched.page.locator("#trouble")).to_contain_text("cannot read its store")
            shift, moved, _ = watched.page.evaluate(SHIFTS)
            assert shift < MOST_SHIFT, (name, moved)
        assert only_said("status of 503", watched.errors)


NAME = """() => {
  const brand = document.querySelector(".brand");
  const text = [...brand.childNodes].find((each) => each.textContent.trim() === "Ebbtide");
  const range = document.createRange();
  range.selectNodeContents(text);
  const lines = [...range.getClientRects()].filter((each) => each.width > 1);
  const next = document.querySelector(".tools").getBoundingClientRect();
  const cluster = document.getElementById("cluster").getBoundingClientRect();
  const tall = document.querySelector(".top").offsetHeight;
  return { lines: lines.length, free: next.left - lines.at(-1).right, tall,
    cut: cluster.top < brand.getBoundingClientRect().bottom && cluster.width < 40 };
}"""
"""In how many lines the product's name is written, and how far what follows is from it."""


def test_the_name_of_the_product_stays_in_one_line_on_a_phone_also_while_it_reconnects(
    browser: Browser, clock: VirtualClock
) -> None:
    """The word "reconnecting" broke it into "Ebbt" and "ide", and the header grew."""
    cluster = Synthetic(clock, SEEN)
    with ExitStack() as stack:
        with serving(cluster.site(), free_port()) as url:
            page = stack.enter_context(opened(browser, url, NARROW)).page
            expect(page.locator("#live")).to_have_text("live")
            before = page.evaluate(NAME)
        expect(page.locator("#live")).to_have_text("reconnecting")
        found = page.evaluate(NAME)
    assert found["lines"] == 1
    assert found["free"] >= 0
    assert found["tall"] == before["tall"]
    assert not before["cut"]
    assert not found["cut"], "of its name one letter is left"


def test_an_operation_says_how_long_it_lasts_still(browser: Browser, clock: VirtualClock) -> None:
    """By what launches took lately, and until when a drain is tried."""
    cluster = Synthetic(clock, SEEN)
    took = OperationClosed("old", OperationKind.SCALE_UP, True, NOW - 600, ready=("c1",))
    cluster.store.append([entry_of("1", NOW - 510, took, "old")])
    slot = make_slot("new", state=SlotState.LAUNCHED, since=NOW - 30)
    drained = make_removal("a1", state=RemovalState.DRAINING, since=NOW - 10, drain_deadline=NOW + 170)
    spot = make_spot("a1", deadline=NOW + 100, removal=drained)
    record = replace(cluster.store.load(), launching=make_scale_up(slot), spots=(spot,))
    cluster.store.write(record, None)
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        shown = watched.page.locator(".operation")
        expect(shown.filter(has_text="Adding nodes")).to_contain_text("started 30 s ago, about 60 s left")
        expect(shown.filter(has_text="Spot node taken back")).to_contain_text(
            "draining for 10 s, at most 2 min 50 s left"
        )
        clock.move_to(NOW + 4)
        cluster.change(lambda seen: replace(seen, at=NOW + 4))
        expect(shown.filter(has_text="Adding nodes")).to_contain_text("about 60 s left")
        clock.move_to(NOW + 65)
        cluster.change(lambda seen: replace(seen, at=NOW + 65))
        expect(shown.filter(has_text="Adding nodes")).to_contain_text("started 95 s ago")
        expect(shown.filter(has_text="Adding nodes")).not_to_contain_text("left")


TORN = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) for (const each of walk.currentNode.data.matchAll(/\\d[ \\u00a0](s|min|h|d)\\b/g)) {
    const range = document.createRange();
    range.setStart(walk.currentNode, each.index);
    range.setEnd(walk.currentNode, each.index + each[0].length);
    found.push([each.input, range.getClientRects().length]);
  }
  return found;
}"""
"""Every number with a unit of time, and in how many pieces it is drawn."""


def test_a_number_and_its_unit_stay_in_one_line_on_a_phone(browser: Browser, clock: VirtualClock) -> None:
    """The headline ended a line with "in 113" and began the next with "s;"."""
    cluster = Synthetic(clock, SEEN)
    spots = [make_spot(name, deadline=NOW + 113) for name in ("a1", "b1")]
    cluster.store.write(replace(cluster.store.load(), spots=tuple(spots)), None)
    with serving(cluster.site()) as url, opened(browser, url, NARROW) as watched:
        expect(watched.page.locator(".headline")).to_contain_text("in 113 s; moving the pods")
        for width in range(300, 420, 4):
            watched.page.set_viewport_size({"width": width, "height": 800})
            drawn = watched.page.evaluate(TORN)
            assert len(drawn) > 3
            assert [text for text, pieces in drawn if pieces > 1] == []


def test_the_page_of_a_node_that_is_drained_says_for_what(browser: Browser, clock: VirtualClock) -> None:
    """It said "It is draining." and no more."""
    cluster = Synthetic(clock, SEEN)
    spot = make_spot("a1", deadline=NOW + 100, removal=make_removal("a1", state=RemovalState.DRAINING))
    cluster.store.write(replace(cluster.store.load(), spots=(spot,)), None)
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        watched.show("why/?node=a1")
        expect(watched.page.locator(".says")).to_contain_text(
            "It is draining. The cloud takes a1 back in 100 s"
        )


def test_the_page_of_a_node_at_risk_says_who_wants_it(browser: Browser, clock: VirtualClock) -> None:
    """Before its replacement is there, no step of the operation names it."""
    cluster = Synthetic(clock, SEEN)
    spot = make_spot("a1", kind=SpotKind.REBALANCE, deadline=NOW + 500, removal=None)
    cluster.store.write(replace(cluster.store.load(), spots=(spot,)), None)
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        watched.show("why/?node=a1")
        expect(watched.page.locator(".says")).to_contain_text(
            "It is at risk. The cloud recommends replacing a1"
        )


def test_the_chart_says_of_now_what_the_numbers_above_it_say(browser: Browser, clock: VirtualClock) -> None:
    """It said how many pods were pending at the last tick: 33, below "pending 18"."""
    cluster = Synthetic(clock, SEEN)
    noted = CostNoted({"USD": "0.5"}, 0, 3, 33)
    cluster.store.append([entry_of("1", NOW - 20, noted, "cost")])
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        expect(watched.page.locator("dl.stats").first).to_contain_text("pending1")
        expect(watched.page.locator(".trend-values")).to_contain_text("Now: 3 nodes, 1 pending")


def test_the_chart_says_so_too_where_nothing_that_is_an_event_happened_since(
    browser: Browser, clock: VirtualClock
) -> None:
    """Costs are asked for every few seconds alone: until then it still said "78 pending" below a headline
    that said "none pending". Here these seconds never pass."""
    cluster = Synthetic(clock, SEEN)
    cluster.store.append([entry_of("00000001", NOW - 20, CostNoted({"USD": "0.5"}, 0, 3, 33), "cost")])
    with serving(cluster.site()) as url, opened(browser, "about:blank") as watched:
        page = watched.page
        page.add_init_script("performance.now = () => 0")
        page.goto(url)
        expect(page.locator(".trend-values")).to_contain_text("Now: 3 nodes, 1 pending")
        cluster.snapshot = replace(SEEN, cluster=ClusterView(SEEN.cluster.nodes, SEEN.cluster.pods[:1]))
        cluster.store.append([entry_of("00000002", NOW, CostNoted({"USD": "0.5"}, 0, 3, 0), "cost")])
        expect(page.locator("dl.stats").first).to_contain_text("pending0")
        expect(page.locator(".trend-values")).to_contain_text("Now: 3 nodes, 0 pending")


LEFT = """() => [".brand", "main > :not(.hidden)"].map(
  (each) => Math.round(document.querySelector(each).getBoundingClientRect().left))"""


@pytest.mark.parametrize("width", [NARROW, 1440, 2560])
def test_the_header_begins_where_the_page_below_it_begins(
    browser: Browser, clock: VirtualClock, width: int
) -> None:
    """At 2,560 px it began 370 px to the left of it."""
    with serving(Synthetic(clock, SEEN).site()) as url, opened(browser, url, width) as watched:
        expect(watched.page.locator(".headline")).to_be_visible()
        header, body = watched.page.evaluate(LEFT)
        assert header == body


EMPTY = """() => [...document.querySelectorAll("main .card")].filter(
  (each) => each.checkVisibility() && !each.innerText.trim()).length"""


def test_a_printed_page_has_its_nodes_and_no_empty_cards(browser: Browser, clock: VirtualClock) -> None:
    """A tile is a button, and buttons were left out: the map of nodes was printed without a node."""
    with serving(Synthetic(clock, SEEN).site()) as url, opened(browser, url) as watched:
        page = watched.page
        page.emulate_media(media="print")
        expect(page.locator(".tile")).to_have_count(3)
        for tile in page.locator(".tile").all():
            expect(tile).to_be_visible()
        expect(page.get_by_role("button", name="Pause all removals")).to_be_hidden()
        expect(page.get_by_text("Choose a node")).to_be_hidden()
        for name, title in (("why", "Decisions, newest first"), ("money", "Prices")):
            watched.show(name)
            expect(page.get_by_role("heading", name=title)).to_be_visible()
            assert page.evaluate(EMPTY) == 0
        expect(page.get_by_role("button", name="24 h")).to_be_hidden()


def test_a_button_that_asks_the_server_is_held_while_it_is_gone_and_keeps_the_focus(
    browser: Browser, clock: VirtualClock
) -> None:
    """It looked as if it could be used below "The server does not answer"."""
    cluster = Synthetic(clock, SEEN)
    port = free_port()
    with ExitStack() as stack:
        with serving(cluster.site(), port) as url:
            page = stack.enter_context(opened(browser, url.replace("/now", "/why"))).page
            button = page.get_by_role("button", name="Ask why")
            page.get_by_label("Node or pod").fill("a1")
            expect(page.locator("#live")).to_have_text("live")
            expect(button).to_be_enabled()
            button.focus()
        expect(button).to_be_disabled()
        expect(button).to_be_focused()
        said = page.locator("#trouble").inner_text()[:30]
        page.keyboard.press("Enter")
        page.get_by_label("Node or pod").press("Enter")
        expect(page.locator("main .says")).to_have_count(0)
        assert page.locator("#trouble").inner_text()[:30] == said
        assert page.locator("#trouble p").count() == 1, "nothing was asked, so nothing was refused"
        button.focus()
        with serving(cluster.site(), port):
            expect(page.locator("#live")).to_have_text("live")
            expect(button).to_be_enabled()
            expect(button).to_be_focused()
            page.keyboard.press("Enter")
            expect(page.get_by_role("heading", name="Why is a1 still here?")).to_be_visible()


NOTICES = 30
"""So many follow each other that they are one row."""
TIMES = """() => [...document.querySelectorAll("main details > summary > time, main p.decision > time")].map(
  (each) => Math.round(each.getBoundingClientRect().left))"""


APART = """() => [...document.querySelectorAll("main .icon")].map((icon) => {
  const row = icon.closest("p, summary");
  const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  const first = document.createRange();
  while (texts.nextNode()) {
    const at = texts.currentNode.textContent.search(/[^\\s]/);
    const after = icon.compareDocumentPosition(texts.currentNode) & Node.DOCUMENT_POSITION_FOLLOWING;
    if (!after || at < 0) continue;
    first.setStart(texts.currentNode, at);
    first.setEnd(texts.currentNode, at + 1);
    break;
  }
  return Math.abs(first.getBoundingClientRect().top - icon.getBoundingClientRect().top);
})"""
"""How far the first letter of each row is below its icon."""


def test_rows_that_open_and_rows_that_do_not_begin_at_one_line(browser: Browser, clock: VirtualClock) -> None:
    """A notice of the cloud has no triangle, and its time stood to the left of all others."""
    cluster = Synthetic(clock, SEEN)
    notice = SpotEvent("", "i-1", SpotKind.REBALANCE, SpotAnswer.TAKEN_IN, NOW - 60, NOW + 100, "a1")
    cluster.store.append([entry_of("00000002", NOW - 60, notice, "")])
    for number in range(NOTICES):
        cluster.store.append([entry_of(f"{10 + number:08d}", NOW - 25 * 3600 + number, notice, "")])
    for number, ago in ((1, 90), (3, 30)):
        decided = LogEntry(f"{number:08d}", NOW - ago, LogKind.DECISION, "nothing: because", f"{number:08d}")
        cluster.store.append([decided])
    with serving(cluster.site()) as url, opened(browser, url.replace("/now", "/why"), NARROW) as watched:
        page = watched.page
        expect(page.locator("p.decision")).to_have_count(1)
        times = page.evaluate(TIMES)
        assert len(times) == 4
        assert max(times) - min(times) <= 1
        for width in range(300, 420, 4):
            page.set_viewport_size({"width": width, "height": 800})
            apart = page.evaluate(APART)
            assert len(apart) == 2
            assert max(apart) < 10, f"at {width} px an icon stands alone at the end of a line"
