"""Pages in a real browser, over servers that a test can stop and start again on the same port."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope, Sight, Site, Token, digest_of
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.snapshot import NodeUse, Snapshot
from ebbtide.ports import Clock
from tests.builders import make_settings

Scheme = Literal["light", "dark"]
HOST = "127.0.0.1"
TOKEN = "ebb_of_the_pages"
WIDE, NARROW = 1280, 390
SECONDS = 30_000
"""How long something may take to show (in milliseconds, as Playwright counts): this machine may be busy."""


SHIFTS = """() => new Promise((resolve) => {
  let sum = 0;
  const moved = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) {
      sum += each.value;
      for (const one of each.sources) moved.push(one.node?.className || one.node?.nodeName);
    }
  }).observe({ type: "layout-shift", buffered: true });
  const [painted] = performance.getEntriesByName("first-contentful-paint");
  setTimeout(() => resolve([sum, moved, painted.startTime]), 200);
})"""
"""Of a page: how far its parts were moved, which, and when something was painted first."""


@dataclass
class Watched:
    """A page, with what went wrong in it."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def show(self, name: str) -> None:
        self.page.goto(f"{self.base}/#/{name}")


@contextmanager
def opened(browser: Browser, url: str, width: int = WIDE, scheme: Scheme = "light") -> Iterator[Watched]:
    """A page in a profile of its own, with everything that its console complains of."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    context.set_default_timeout(SECONDS)
    page = context.new_page()
    watched = Watched(page, url.partition("/#")[0])

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            watched.errors.append(f"{message.text} {message.location.get('url', '')}")

    def asked(request: Request) -> None:
        watched.asked.append(request.url)

    page.on("console", heard)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("request", asked)
    page.goto(url)
    try:
        yield watched
    finally:
        context.close()


def only_said(pattern: str, errors: list[str]) -> bool:
    """Whether the console complained of nothing else; it cannot be kept from naming each failed request."""
    return all(re.search(pattern, error) for error in errors)


@dataclass
class Synthetic:
    """A cluster that is nothing but what the test says is seen."""

    clock: Clock
    snapshot: Snapshot
    looked: int = 0
    uses: dict[str, NodeUse] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, "cluster")
        self._told = 0

    def look(self) -> Snapshot:
        self.looked += 1
        return self.snapshot

    def change(self, change: Callable[[Snapshot], Snapshot]) -> None:
        """Something else is seen from now on, and listeners are told that something happened."""
        self.snapshot = change(self.snapshot)
        self._told += 1
        entry = LogEntry(f"{self._told:08d}", int(self.clock.now()), LogKind.ALARM, "something changed")
        self.store.append([entry])

    def site(self, *tokens: Token) -> Site:
        mine = Token("pages", Scope.ADMIN, digest_of(TOKEN))
        return Site(
            store=self.store,
            settings=make_settings(max_workers=2000),
            sight=Sight(self.look, self.clock, seconds=0.0, read_use=lambda _: self.uses),
            clock=self.clock,
            new_id=lambda: f"id-{self._told:08d}",
            tokens=tokens or (mine,),
            rate_per_minute=1_000_000,
        )


@contextmanager
def serving(site: Site, port: int = 0) -> Iterator[str]:
    """The address of its first page, with the token behind the #."""
    with served(make_app(replace(site)), HOST, port) as at:
        yield f"http://{HOST}:{at}/#/now?token={TOKEN}"
