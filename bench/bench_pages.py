"""How soon the page of the demo shows a fault after its button was pressed, in a real Chromium.

    python -m bench.bench_pages [--rounds 3]

The demo runs as `ebbtide demo` runs it. The page itself notes when the panel, the event, the timeline and the
banner of each fault come (`tests/e2e/faults.py`), so the driver of the browser is not part of it. Each is to
be there within 2 s; a busy machine takes longer. Also printed: the first paint of each page, how much it
jumps, and how many bytes of scripts and styles it loads.
"""

from __future__ import annotations

import argparse

from playwright.sync_api import Browser, Page, expect

from ebbtide.entrypoints.cli.demo_page import SPEED, demo_served
from ebbtide.simulator.run.live import Live
from tests.e2e.faults import FAULTS, WITHIN_SECONDS, all_seen, watch
from tests.e2e.pages import opened
from tests.servers.chromium import chromium
from tests.servers.control_plane import Unavailable

PAGES = ("now", "why", "money", "sleep")
MOST_STEPS = 800
LOADED = """() => new Promise((resolve) => {
  let shift = 0;
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) if (!each.hadRecentInput) shift += each.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve({
    paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
    bytes: performance.getEntriesByType("resource").filter((each) => /\\.(js|css)$/.test(each.name))
      .reduce((sum, each) => sum + each.decodedBodySize, 0),
    shift,
  }), 1000);
})"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    asked = parser.parse_args()
    try:
        with chromium() as browser, demo_served(seed=1, speed=SPEED, port=0) as (url, live):
            return measure(browser, url, live, asked.rounds)
    except Unavailable as why:
        print(f"bench_pages: NOT RUN: {why}")
        return 0


def measure(browser: Browser, url: str, live: Live, rounds: int) -> int:
    late = 0
    with opened(browser, url) as watched:
        expect(watched.page.locator("#live")).to_have_text("live")
        for name in PAGES:
            watched.show(name)
            watched.page.reload()
            found = watched.page.evaluate(LOADED)
            print(
                f"{name}: first paint after {found['paint']:.0f} ms, layout shift {found['shift']:.4f}, "
                f"{found['bytes'] / 1000:.0f} kB of scripts and styles"
            )
        watched.show("now")
        for _ in range(rounds):
            for fault in FAULTS:
                seen = press(watched.page, fault)
                late += max(seen.values()) > WITHIN_SECONDS * 1000
                print(f"{fault}: " + ", ".join(f"{what} after {ms} ms" for what, ms in seen.items()))
                finish(live)
    print(f"{rounds * len(FAULTS) - late} of {rounds * len(FAULTS)} faults were shown within 2 s")
    return 0


def press(page: Page, fault: str) -> dict[str, int]:
    watch(page, fault)
    page.get_by_role("button", name=fault, exact=True).click()
    return all_seen(page, fault)


def finish(live: Live) -> None:
    """The rest of it goes by steps: nobody waits for it."""
    for _ in range(MOST_STEPS):
        busy = live.situation is not None and not live.situation.over
        record = live.ports.store.load()
        if not busy and not record.spots and not record.scaling_in_progress:
            return
        live.step(in_process=True)


if __name__ == "__main__":
    raise SystemExit(main())
