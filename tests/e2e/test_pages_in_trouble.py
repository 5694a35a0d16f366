"""The pages when something is wrong: hostile names, no server, no cluster, an old token."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Dialog, Page, Route, expect

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.entrypoints.api.site import Scope, Token, digest_of
from ebbtide.errors import Retryable
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    CostNoted,
    EffectDone,
    EffectKind,
    Event,
    OperationBegun,
    OperationKind,
    PartKind,
    SpotAnswer,
    SpotEvent,
    Transition,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import SpotKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView, Reading, Snapshot
from ebbtide.narrate import entry_of
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_pod, make_snapshot
from tests.e2e.pages import SECONDS, TOKEN, Synthetic, only_said, opened, serving
from tests.servers.dynamodb import free_port

MOST_BYTES = 150_000
MOST_SHIFT = 0.02
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "\"'><script>alert(1)</script>",
    "javascript:alert(1)//",
    "${alert(1)}{{alert(1)}}",
    "../../../etc/passwd?token=x#/now",
    "\u202eeman-desrever",
    "n" * 300,
)

PATIENCE = 600
"""Tenths of a second in which a request must come."""

expect.set_options(timeout=SECONDS)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


class Deaf(MemoryStore):
    """A store that can be made to answer nothing."""

    deaf = False

    def load(self) -> Record:
        if self.deaf:
            raise Retryable("the store does not answer")
        return super().load()


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
        page.get_by_role("link", name="Why is it still here?").click()
        expect(page.locator("h1")).to_have_text("Why")
        for path in ("why/?node=<img src=x onerror=alert(1)>", "why/%E0%A4%A", "constructor", "<b>"):
            watched.show(path)
            expect(page.locator("h1")).to_be_visible()
        assert page.locator("main img, main script, main iframe").count() == 0
        assert all(asked.startswith(watched.base) for asked in watched.asked)
        assert not any(asked.endswith("/x") for asked in watched.asked)
        assert said == []
        assert only_said("404 .*/decisions/", watched.errors)


def test_a_node_is_chosen_by_the_keyboard_and_its_life_is_shown(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(2)
        page.get_by_role("link", name="from /api/v1/costs").focus()
        for choice in ("By zone", "By pool", "Fill: requests", "Fill: use"):
            page.keyboard.press("Tab")
            expect(page.get_by_role("button", name=choice)).to_be_focused()
        page.keyboard.press("Tab")
        tile = page.locator(".tile").first
        expect(tile).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="a1", exact=True)).to_be_visible()
        expect(tile).to_be_focused()
        page.get_by_role("link", name="Why is it still here?").click()
        expect(page.get_by_role("heading", name="Why is a1 still here?")).to_be_visible()
        expect(page.get_by_role("heading", name="The life of a1")).to_be_visible()
        assert watched.errors == []


def test_a_pending_pod_says_why_it_is_pending(browser: Browser, clock: VirtualClock) -> None:
    huge = make_pod("huge", 900_000, phase=PodPhase.PENDING)
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")], [huge]))
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        page.get_by_role("link", name="default/huge").click()
        expect(page.get_by_role("heading", name="Why is default/huge pending?")).to_be_visible()
        expect(page.locator(".says")).to_contain_text("No type of any pool can take it (needs 900000m CPU")
        expect(page.get_by_role("row").filter(has_text="needs 900000m CPU")).to_contain_text("2")
        assert watched.errors == []


def test_a_pod_is_asked_for_on_the_page_of_a_node(browser: Browser, clock: VirtualClock) -> None:
    """It was taken for a node, of which the page said that it is not in the cluster now."""
    huge = make_pod("huge", 900_000, phase=PodPhase.PENDING)
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")], [huge]))
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        watched.show("why/?node=a1")
        expect(page.get_by_role("heading", name="Why is a1 still here?")).to_be_visible()
        page.get_by_label("Node or pod").fill("default/huge")
        page.get_by_role("button", name="Ask why").click()
        expect(page.get_by_role("heading", name="Why is default/huge pending?")).to_be_visible()
        page.get_by_label("Node or pod").fill("b1")
        page.get_by_role("button", name="Ask why").click()
        expect(page.get_by_role("heading", name="Why is b1 still here?")).to_be_visible()
        assert watched.errors == []


BEGUN = (
    (OperationKind.SCALE_DOWN, "remove a1: empty for at least 5 min", "Empty for at least 5 min"),
    (
        OperationKind.SCALE_DOWN,
        "consolidation: remove a1, empty and idle; saves 1",
        "Empty and idle; saves 1",
    ),
    (OperationKind.CONSOLIDATION, "consolidation: empty a1 by 4 moves; saves 1", "By 4 moves; saves 1"),
)


def test_an_event_names_its_nodes_once(browser: Browser, clock: VirtualClock) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    for number, (kind, reason, _) in enumerate(BEGUN):
        begun = OperationBegun("op", kind, "because", f"{number}", 0, ("a1",), 4, reason)
        cluster.store.append([entry_of(f"{number:08d}", NOW - 60 + number, begun, "op")])
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        rows = watched.page.locator(".feed li div")
        expect(rows).to_have_count(len(BEGUN))
        texts = [text.replace("\u00a0", " ") for text in rows.all_inner_texts()]
        shown = [re.sub(r".*?a1\s*", "", text, count=1) for text in texts]
        assert shown == [why for _, _, why in reversed(BEGUN)]
        assert watched.errors == []


def test_a_page_that_could_not_be_read_asks_again_and_does_not_pass_for_read(
    browser: Browser, clock: VirtualClock
) -> None:
    """Money took its failed refresh for one, stood there empty and said that all is well."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    failed: list[str] = []

    def fail_once(route: Route) -> None:
        if failed:
            route.continue_()
        else:
            failed.append(route.request.url)
            route.fulfill(status=503, json={"detail": "the store does not answer"})

    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(1)
        page.route("**/api/v1/spending", fail_once)
        watched.show("money")
        expect(page.locator("#trouble")).to_contain_text("The server cannot read its store")
        cluster.change(lambda seen: seen)
        expect(page.locator("#trouble")).to_be_hidden()
        assert page.get_by_role("heading", name="Paid and saved").is_visible()
        assert only_said("404 .*/scaling/|status of 503", watched.errors)


DECIDED = (
    ("nothing", 40),
    ("nothing", 70),
    ("scale_up", 100),
    ("nothing", 160),
    ("nothing", 220),
    ("nothing", 280),
)


WORDS = """async (says) => {
  const { decided, decidedAt, sentence } = await import("/static/words.js");
  const at = (now) => decidedAt({ kept_at: 100000 }, now);
  return [at(100040), at(100005), sentence(decided(says))];
}"""
NOTICES = (
    "nothing to do: all fit; "
    "interruption of a1 (i-a1) received: the instance will be gone at 15:10 UTC; "
    "interruption of b1 (i-b1) received: the instance will be gone at 15:09 UTC; "
    "interruption of c1 …"
)


def test_what_was_said_a_while_ago_has_its_time_and_notices_are_one_sentence(
    browser: Browser, clock: VirtualClock
) -> None:
    """A node page said "the last scaling was 40 s ago" 40 s later; Now listed ten notices one by one."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        old, fresh, said = watched.page.evaluate(WORDS, NOTICES)
        assert old.startswith(" as of ")
        assert fresh == ""
        assert "spot notices" in said
        assert "15:09 UTC" in said
        assert not any(name in said for name in ("a1", "b1", "c1", "15:10"))


TIME_OF = """(_, at) =>
  new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" })"""
"""As the browser writes it."""


def test_repeated_decisions_to_do_nothing_are_one_row_with_its_span(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    for number, (action, ago) in enumerate(reversed(DECIDED)):
        entry_id, at = f"{number:08d}", NOW - ago
        says = f"{action}: because"
        cluster.store.append([LogEntry(entry_id, at, LogKind.DECISION, says, entry_id)])
        if action != "nothing":
            started = OperationBegun("op", OperationKind.SCALE_UP, action, entry_id, 1, (), 0, "because")
            cluster.store.append([entry_of(f"{entry_id}-b", at, started, "op")])
    with serving(cluster.site()) as url, opened(browser, url.replace("/now", "/why")) as watched:
        page = watched.page
        expect(page.locator("details.idle")).to_have_count(2)
        newest = page.locator("details.idle").first
        expect(newest).to_contain_text("Nothing new decided for 70 s (2 decisions)")
        said_at = newest.evaluate(TIME_OF, NOW - 40)
        expect(newest).to_contain_text(f"the last one, of {said_at}: because")
        expect(page.locator("details.idle").last).to_contain_text("for 3 min (3 decisions)")
        expect(page.locator("details.scale_up")).to_have_count(1)
        page.get_by_role("button", name="What was done").click()
        expect(page.locator("details.idle")).to_have_count(0)
        expect(page.locator("details.scale_up")).to_be_visible()
        assert watched.errors == []


def test_when_the_server_goes_that_is_said_what_was_seen_stays_and_it_comes_back_by_itself(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    port = free_port()
    trouble = re.compile(r"The server does not answer\. The values shown are .* old")
    with ExitStack() as stack:
        with serving(cluster.site(), port) as url:
            watched = stack.enter_context(opened(browser, url))
            page = watched.page
            expect(page.locator(".tile")).to_have_count(2)
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator(".trend-values")).to_have_text(re.compile("^Now: "))
        expect(page.locator("#trouble")).to_contain_text(trouble)
        expect(page.locator("#live")).to_have_text("reconnecting")
        expect(page.locator(".tile")).to_have_count(2)
        expect(page.locator(".trend-values")).to_have_text(re.compile("^Last known: "))
        # Pressed, it would stay pressed over a chart of other hours.
        expect(page.get_by_role("button", name="24 h")).to_be_disabled()
        page.get_by_role("button", name="Pause all removals").click()
        expect(page.locator("#trouble")).to_contain_text("Pausing was refused: The server does not answer")
        with serving(cluster.site(), port):
            expect(page.locator("#live")).to_have_text("live")
            expect(page.locator("#trouble")).to_be_hidden()
            expect(page.locator(".trend-values")).to_have_text(re.compile("^Now: "))
            cluster.change(lambda seen: with_node(seen, "b2"))
            expect(page.locator(".tile")).to_have_count(3)
        assert only_said("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_CONNECTION_RESET", watched.errors)


AT_REST = "Nothing to do: 2 nodes for 2 pods, none pending."


def test_what_a_page_last_knew_is_not_said_in_the_present_tense(
    browser: Browser, clock: VirtualClock
) -> None:
    """The headline said "Nothing to do", the axis "now" and a card "Nothing is in progress" while nobody
    could know."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    cluster.store = store = Deaf(clock, "cluster")
    for number, ago in enumerate((1800, 0)):
        noted = CostNoted({"USD": "0.1"}, 0, 2, 0)
        store.append([entry_of(f"{number:08d}", NOW - ago, noted)])
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        headline, axis = page.locator(".headline"), page.locator(".trend text")
        for now in (True, False, True):
            store.deaf = not now
            expect(page.locator("#live")).to_have_text("live" if now else "stale")
            before = re.compile(r"^As of .*, nothing to do: 2 nodes")
            expect(headline).to_have_text(AT_REST if now else before)
            expect(page.get_by_text("Nothing is in progress.")).to_have_count(int(now))
            expect(page.get_by_text("No pod is pending.")).to_have_count(int(now))
            expect(page.get_by_text("Nothing was in progress.")).to_have_count(int(not now))
            expect(page.get_by_role("heading", name="In progress when last read")).to_have_count(int(not now))
            expect(page.get_by_text("No pod was pending.")).to_have_count(int(not now))
            expect(axis.get_by_text("now", exact=True)).to_have_count(int(now))
        assert only_said("status of 503", watched.errors)


def test_a_notice_of_the_cloud_belongs_to_the_life_of_its_node(browser: Browser, clock: VirtualClock) -> None:
    """The log has it under the instance, as it has all that came before the node joined. An earlier node of
    the same name is another one."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    notice = SpotEvent("spot:i-a1", "i-a1", SpotKind.REBALANCE, SpotAnswer.TAKEN_IN, NOW, NOW + 120, "a1")
    was, joined, drained = (
        Transition("op", OperationKind.SCALE_UP, PartKind.LAUNCH, name, before, after, "", instance)
        for name, before, after, instance in (
            ("a1", "DRAINED", "TERMINATING", "i-before"),
            ("i-a1", "LAUNCHED", "JOINED", "i-a1"),
            ("a1", "DRAINING", "DRAINED", "i-a1"),
        )
    )
    evicted, cordoned = (
        EffectDone("op", OperationKind.SCALE_DOWN, effect, OutcomeKind.DONE, "a1", pod=pod)
        for effect, pod in ((EffectKind.EVICT, "default/old"), (EffectKind.CORDON, ""))
    )
    logged: tuple[tuple[str, Event], ...] = (
        ("a1", evicted),
        ("a1", was),
        ("i-a1", joined),
        ("i-a1", notice),
        ("a1", cordoned),
        ("a1", drained),
    )
    for number, (subject, fact) in enumerate(logged):
        cluster.store.append([entry_of(f"{number:08d}", NOW + number, fact, subject)])
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        lived = page.locator("section.card ol > li")
        for gone in (False, True):
            if gone:
                cluster.change(lambda _: make_snapshot([make_node("b1")]))
            watched.show(f"why/?node=a1&gone={gone}")
            expect(page.locator(".says")).to_contain_text(
                "not in the cluster" if gone else "nothing was to be"
            )
            expect(lived).to_have_text(
                [
                    re.compile("was started, is joined"),
                    re.compile("The cloud may soon take spot node a1 back"),
                    re.compile("cordon a1: done"),
                    re.compile("was draining, is drained"),
                ]
            )
        assert watched.errors == []


def test_a_page_that_is_gone_to_in_an_outage_shows_its_last_values_or_says_that_it_has_none(
    browser: Browser, clock: VirtualClock
) -> None:
    """It stood there empty below "The values shown are 18 s old"."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    port = free_port()
    with ExitStack() as stack:
        with serving(cluster.site(), port) as url:
            watched = stack.enter_context(opened(browser, url))
            page = watched.page
            go_to(page, "Money")
            expect(page.get_by_role("heading", name="Prices")).to_be_visible()
            go_to(page, "Now")
            expect(page.locator(".tile")).to_have_count(2)
            expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#live")).to_have_text("reconnecting")
        trouble = page.locator("#trouble")
        go_to(page, "Why")
        expect(trouble).to_contain_text("Nothing was read for this page yet")
        for name, found in (
            ("Money", page.get_by_role("heading", name="Prices")),
            ("Now", page.locator(".tile")),
        ):
            go_to(page, name)
            expect(found.first).to_be_visible()
            expect(trouble).to_contain_text("The values shown are")
            expect(page.locator("main")).to_have_attribute("data-stale", "all")
        with serving(cluster.site(), port):
            expect(page.locator("#live")).to_have_text("live")
            cluster.change(lambda seen: with_node(seen, "b2"))
            expect(page.locator(".tile")).to_have_count(3)
            go_to(page, "Why")
            expect(page.get_by_role("heading", name="Decisions, newest first")).to_be_visible()
            expect(trouble).to_be_hidden()


def go_to(page: Page, name: str) -> None:
    page.get_by_role("navigation").get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)


def test_values_that_are_shown_have_an_age_even_where_the_first_refresh_never_came_to_its_end(
    browser: Browser, clock: VirtualClock
) -> None:
    """The tiles are drawn before the chart is asked for: "Nothing is known yet" above them would be wrong."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    with serving(cluster.site()) as url, opened(browser, "about:blank") as watched:
        page = watched.page
        page.route("**/api/v1/costs*", lambda route: route.abort("connectionrefused"))
        page.goto(url)
        expect(page.locator(".tile")).to_have_count(2)
        expect(page.locator("#trouble")).to_contain_text("The values shown are")
        assert only_said("ERR_CONNECTION_REFUSED", watched.errors)


def with_node(seen: Snapshot, name: str) -> Snapshot:
    return replace(seen, cluster=ClusterView((*seen.cluster.nodes, make_node(name)), seen.cluster.pods))


VALUES = ("workers3 of", "pods on nodes2", "pending1", "CPU41%")


def test_an_outage_of_the_cluster_shows_the_last_values_with_their_age_and_never_zeros(
    browser: Browser, clock: VirtualClock
) -> None:
    """Empty would look like a cluster that lost all its nodes, under a green "live"."""
    pods = [
        make_pod("web", node_name="a1"),
        make_pod("api", node_name="b1"),
        make_pod("new", phase=PodPhase.PENDING),
    ]
    seen = make_snapshot([make_node(name) for name in ("a1", "b1", "c1")], pods, cpu=Reading(0.41, NOW))
    cluster = Synthetic(clock, seen)
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        shown = page.locator("dl.stats").first
        for text in VALUES:
            expect(shown).to_contain_text(text)
        clock.move_to(NOW + 90)
        gone = ("the cluster could not be read: no answer",)
        cluster.change(lambda _: Snapshot(NOW + 90, instances=seen.instances, problems=gone))
        trouble = page.locator("#trouble")
        expect(trouble).to_contain_text("The cluster cannot be read. The values shown are 90 s old")
        expect(trouble).to_contain_text("Meanwhile Ebbtide adds and removes no node")
        expect(trouble).to_contain_text("the cluster could not be read: no answer")
        expect(page.locator("#live")).to_have_text("stale")
        for text in VALUES:
            expect(shown).to_contain_text(text)
        expect(page.locator(".tile")).to_have_count(3)
        expect(page.locator("main")).to_have_attribute("data-stale", "cluster")
        cluster.change(lambda _: replace(seen, at=NOW + 90))
        expect(trouble).to_be_hidden()
        expect(page.locator("#live")).to_have_text("live")
        assert watched.errors == []


def test_a_server_that_never_read_the_cluster_says_unknown_and_not_zero(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, Snapshot(NOW, problems=("the cluster could not be read: no answer",)))
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        shown = watched.page.locator("dl.stats").first
        for name in ("workers", "pods on nodes", "pending", "CPU", "cost an hour"):
            expect(shown).to_contain_text(f"{name}unknown")
        expect(watched.page.locator("#trouble")).to_contain_text("Nothing is known of it")
        assert watched.errors == []


def test_a_store_that_cannot_be_read_is_named_and_what_was_seen_stays(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")]))
    cluster.store = store = Deaf(clock, "cluster")
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(2)
        store.deaf = True
        expect(page.locator("#trouble")).to_contain_text("The server cannot read its store")
        expect(page.locator("#trouble")).to_contain_text("Ebbtide starts nothing until it can be read again")
        expect(page.locator("#live")).to_have_text("stale")
        expect(page.locator("main")).to_have_attribute("data-stale", "all")
        expect(page.locator(".tile")).to_have_count(2)
        store.deaf = False
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#trouble")).to_be_hidden()
        assert only_said("status of 503", watched.errors)


def test_a_page_that_takes_long_to_be_read_says_so_and_is_not_blank(
    browser: Browser, clock: VirtualClock
) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    said = "getComputedStyle(document.body, '::after').content"
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(1)
        assert page.evaluate(said) == "none"
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route("**/api/v1/spending*", hold)
        watched.show("money")
        expect(page.locator("main.unread")).to_have_count(1)
        assert page.evaluate(said) == '"Reading …"'
        expect(page.locator("h1")).not_to_be_visible()
        wait_for(page, lambda: bool(held))
        held[0].continue_()
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate(said) == "none"
        expect(page.locator("main")).to_be_focused()


def test_a_page_that_was_left_while_it_was_read_does_not_show_the_next_one_before_its_data(
    browser: Browser, clock: VirtualClock
) -> None:
    """Money stood there with its title and nothing else when Now had been left in the middle of a refresh."""
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    held: dict[str, Route] = {}

    def hold(route: Route) -> None:
        held.setdefault(route.request.url.rpartition("/")[2], route)

    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile")).to_have_count(1)
        page.route("**/api/v1/nodes", hold)
        page.route("**/api/v1/spending", hold)
        cluster.change(lambda seen: seen)
        wait_for(page, lambda: "nodes" in held)
        watched.show("money")
        expect(page.locator("main.unread")).to_have_count(1)
        held["nodes"].continue_()
        wait_for(page, lambda: "spending" in held)
        expect(page.locator("main.unread")).to_have_count(1)
        expect(page.locator("h1")).not_to_be_visible()
        held["spending"].continue_()
        expect(page.get_by_role("heading", name="Paid and saved")).to_be_visible()
        assert only_said("404 .*/scaling/", watched.errors)


def wait_for(page: Page, there: Callable[[], bool]) -> None:
    for _ in range(PATIENCE):
        if there():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never came")


def test_a_runner_that_does_not_tick_is_named(browser: Browser, clock: VirtualClock) -> None:
    cluster = Synthetic(clock, make_snapshot([make_node("a1")]))
    cluster.store.write(replace(cluster.store.load(), ticked_at=NOW - 900), None)
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        expect(watched.page.locator("#trouble")).to_contain_text("Ebbtide is not ticking. The last tick was")
        expect(watched.page.locator("#live")).to_have_text("stale")
        expect(watched.page.locator(".headline")).to_have_text(
            "Ebbtide has not ticked for 15 min: no node is added or removed until it ticks again."
        )
        assert watched.errors == []


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


SHIFTS = """() => {
  window.shift = 0;
  window.moved = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) {
      window.shift += each.value;
      for (const one of each.sources) window.moved.push(one.node?.className || one.node?.nodeName);
    }
  }).observe({ type: "layout-shift", buffered: true });
}"""


def test_pages_are_light_ask_nobody_else_and_do_not_jump(browser: Browser, clock: VirtualClock) -> None:
    pods = [make_pod("web", node_name="a1"), make_pod("new", phase=PodPhase.PENDING)]
    cluster = Synthetic(clock, make_snapshot([make_node("a1"), make_node("b1")], pods))
    begun = OperationBegun("op", OperationKind.SCALE_UP, "scale_up", "d", 1, (), 0, "because")
    cluster.store.append([entry_of("1", NOW - 60, begun, "op")])
    with serving(cluster.site()) as url, opened(browser, url) as watched:
        page = watched.page
        expect(page.locator(".tile").first).to_be_visible()
        sizes = page.evaluate("""async () => {
          const names = performance.getEntriesByType("resource").map((each) => each.name);
          const own = names.filter((name) => /[.](js|css)$/.test(name));
          const parts = await Promise.all(own.map(async (name) => (await (await fetch(name)).text()).length));
          return parts.reduce((sum, each) => sum + each, 0);
        }""")
        assert 0 < sizes <= MOST_BYTES
        expect(page.locator(".feed li").first).to_be_visible()
        expect(page.locator("svg.chart").first).to_be_visible()
        page.evaluate(SHIFTS)
        assert all(asked.startswith(watched.base) for asked in watched.asked)
        assert page.evaluate("window.shift") < MOST_SHIFT, page.evaluate("window.moved")
