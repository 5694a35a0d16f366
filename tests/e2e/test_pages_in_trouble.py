"""The pages when something is wrong or large: a thousand nodes, hostile names, no server, an old token."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from ebbtide.entrypoints.api.scopes import Scope, Token, digest_of
from ebbtide.model.node import Market
from ebbtide.model.snapshot import ClusterView, Snapshot
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_pod, make_snapshot
from tests.e2e.pages import SECONDS, TOKEN, Synthetic, only_said, opened, serving
from tests.servers.dynamodb import free_port

MANY = 1000
UPDATES = 5
TRIES = 3
ROUNDS = 3
FRAME_MS = 200
LAST = f'.tile[data-key="node-uid-a{MANY - 1}"]'
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "javascript:alert(1)//",
    "${alert(1)}{{alert(1)}}",
    "../../../etc/passwd?token=x#/now",
    "\u202eeman-desrever",
    "n" * 300,
)

expect.set_options(timeout=SECONDS)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


def many_nodes(turn: int) -> Snapshot:
    """A tenth of them changes from turn to turn, and so does what is on all of them."""
    names = [f"{'abc'[number % 3]}{number}" for number in range(MANY)]
    nodes = [
        make_node(
            name,
            ready=(number + turn) % 10 != 0,
            market=Market.SPOT if number % 4 == 0 else Market.ON_DEMAND,
        )
        for number, name in enumerate(names)
    ]
    pods = [
        make_pod(f"web-{number}-{turn}", 500 * (1 + (number + turn) % 7), node_name=name)
        for number, name in enumerate(names)
    ]
    return make_snapshot(nodes, [*pods, *(make_pod(f"more-{n}", node_name=names[-1]) for n in range(turn))])


@pytest.fixture
def large(clock: VirtualClock) -> Synthetic:
    return Synthetic(clock, many_nodes(0))


MEASURE = """() => {
  window.frames_ms = [];
  let before = performance.now();
  const next = (now) => { window.frames_ms.push(now - before); before = now; requestAnimationFrame(next); };
  requestAnimationFrame((now) => { before = now; requestAnimationFrame(next); });
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.frames_ms.push(each.duration);
  }).observe({ entryTypes: ["longtask"] });
}"""


def longest_frame(page: Page, large: Synthetic, turns: Iterator[int]) -> float:
    page.evaluate("window.frames_ms.length = 0")
    for _ in range(UPDATES):
        turn = next(turns)
        large.change(lambda _, turn=turn: many_nodes(turn))  # type: ignore[misc]
        expect(page.locator("dl.stats").first).to_contain_text(f"pods{MANY + turn}")
        expect(page.locator(LAST)).to_have_attribute("aria-label", re.compile(rf", {1 + turn} pods"))
    return float(page.evaluate("Math.max(...window.frames_ms)"))


def longest_task(trace: bytes) -> float:
    """Of the page's thread, in milliseconds of the processor: however busy others keep the machine."""
    events = json.loads(trace)["traceEvents"]
    pages = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    times = [
        event["tdur"]
        for event in events
        if event["name"] == "RunTask" and "tdur" in event and (event["pid"], event["tid"]) in pages
    ]
    return float(max(times)) / 1000


def overloaded() -> bool:
    return os.getloadavg()[0] > (os.cpu_count() or 1)


@pytest.mark.timeout(300)
def test_a_thousand_nodes_are_shown_and_kept_up_to_date_without_a_long_frame(
    browser: Browser, large: Synthetic
) -> None:
    """Of the longest frames of three tries the middle one counts. Where others keep the machine busy, frames
    tell more about them; the time that the page itself took of the processor is asked for in any case."""
    turns = iter(range(1, 1000))
    with serving(large.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(MANY)
        page.evaluate(MEASURE)
        browser.start_tracing(page=page, categories=["disabled-by-default-devtools.timeline", "__metadata"])
        rounds: list[float] = []
        while len(rounds) < ROUNDS and (not rounds or (rounds[-1] > FRAME_MS and not overloaded())):
            rounds.append(median(longest_frame(page, large, turns) for _ in range(TRIES)))
        assert longest_task(browser.stop_tracing()) <= FRAME_MS
        assert min(rounds) <= FRAME_MS or overloaded(), f"longest frames of each round, in ms: {rounds}"
        assert watched.errors == []


def test_a_hostile_name_is_text_and_nothing_more(browser: Browser, clock: VirtualClock) -> None:
    nodes = [make_node(name, zone=name, instance_type=name, uid=name) for name in HOSTILE]
    waiting = [make_pod(name, phase="Pending", uid=name) for name in HOSTILE]
    seen = make_snapshot(nodes, waiting, problems=HOSTILE)
    cluster = Synthetic(clock, seen)
    said: list[str] = []

    def refuse(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        page.on("dialog", refuse)
        expect(page.locator(".tile")).to_have_count(len(HOSTILE))
        for name in HOSTILE:
            expect(page.get_by_text(name, exact=True).first).to_be_visible()
        for tile in page.locator(".tile").all():
            tile.click()
            expect(tile).to_have_attribute("aria-pressed", "true")
            expect(page.locator("[aria-live] h3")).to_be_visible()
        page.get_by_role("link", name="Its whole life").click()
        expect(page.locator("h1")).to_have_text("Why")
        for path in ("why/?node=<img src=x onerror=alert(1)>", "why/%E0%A4%A", "constructor", "<b>"):
            watched.show(path)
            expect(page.locator("h1")).to_be_visible()
        assert page.locator("main img, main script, main iframe").count() == 0
        assert all(asked.startswith(watched.base) for asked in watched.asked)
        assert not any(asked.endswith("/x") for asked in watched.asked)
        assert said == []
        assert only_said("404 .*/decisions/", watched.errors)


def test_when_the_server_goes_that_is_said_what_was_seen_stays_and_it_comes_back_by_itself(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    port = free_port()
    trouble = "The server does not answer. What is shown is what was last seen"
    with ExitStack() as stack:
        with serving(cluster.site(), port) as url:
            watched = stack.enter_context(opened(browser, url))
            page = watched.page
            expect(page.locator(".tile")).to_have_count(2)
            expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#trouble")).to_contain_text(trouble)
        expect(page.locator("#live")).to_have_text("reconnecting")
        expect(page.locator(".tile")).to_have_count(2)
        page.get_by_role("button", name="Pause all removals").click()
        expect(page.locator("#trouble")).to_contain_text("Pausing was refused: The server does not answer")
        with serving(cluster.site(), port):
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator("#trouble")).to_be_hidden()
            cluster.change(lambda seen: with_node(seen, "b2"))
            expect(page.locator(".tile")).to_have_count(3)
        assert only_said("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET", watched.errors)


def with_node(seen: Snapshot, name: str) -> Snapshot:
    return replace(seen, cluster=ClusterView((*seen.cluster.nodes, make_node(name)), seen.cluster.pods))


def test_a_token_that_has_expired_is_said_and_another_one_helps(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    old = Token("old", Scope.ADMIN, digest_of(TOKEN), expires_at=NOW + 60)
    reader = Token("reader", Scope.READ, digest_of("ebb_reader"))
    with serving(cluster.site(old, reader)) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(1)
        clock.move_to(NOW + 61)
        cluster.change(lambda seen: seen)
        expect(page.locator("#trouble")).to_contain_text("the token has expired")
        expect(page.locator("#trouble")).to_contain_text("Press Token at the top")
        expect(page.locator(".tile")).to_have_count(1)
        page.get_by_role("button", name="Token").click()
        page.get_by_role("textbox", name="Token").fill("ebb_reader")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#trouble")).to_be_hidden()
        page.get_by_role("button", name="Pause all removals").click()
        expect(page.locator("#trouble")).to_contain_text("has scope read, this needs admin")
        assert not cluster.store.load().paused
        assert only_said("status of 40[13]", watched.errors)
