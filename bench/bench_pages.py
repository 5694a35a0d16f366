"""How soon the page of the demo shows a fault after its button was pressed, in a real Chromium.

    python -m bench.bench_pages [--rounds 3]

The demo runs as `ebbtide demo` runs it. The page itself notes when the panel, the event, the timeline and the
banner of each fault come (`tests/e2e/faults.py`), so the driver of the browser is not part of it. Each is to
be there within 2 s; a busy machine takes longer. The first paint of each page is to come within 1 s: the best
of a few loads counts, since others may use the machine. Where it does not, the exit code is 1. Also printed:
how much each page jumps, and how many bytes of scripts and styles it loads
(`test_pages_are_light_ask_nobody_else_and_do_not_jump` asks for both).
"""

from __future__ import annotations

import argparse

from playwright.sync_api import Browser, Page, expect

from ebbtide.entrypoints.cli.demo_page import SPEED, demo_served
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.run.live_faults import BURST_SECONDS
from tests.e2e.faults import FAULTS, WITHIN_SECONDS, all_seen, watch
from tests.e2e.pages import Watched, opened
from tests.servers.chromium import chromium
from tests.servers.control_plane import Unavailable

PAGES = ("now", "why", "money", "sleep")
MOST_STEPS = 800
REST_SECONDS = 2 * BURST_SECONDS
LOADS = 5
PAINT_MS = 1000
"""On loopback, until something is painted."""
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
        slow = [name for name in PAGES if first_paint(watched, name) > PAINT_MS]
        watched.show("now")
        for number in range(rounds):
            if number:
                rest(live)
            for fault in FAULTS:
                seen = press(watched.page, fault)
                late += max(seen.values()) > WITHIN_SECONDS * 1000
                print(f"{fault}: " + ", ".join(f"{what} after {ms} ms" for what, ms in seen.items()))
                finish(live)
    print(f"{rounds * len(FAULTS) - late} of {rounds * len(FAULTS)} faults were shown within 2 s")
    print(f"first paint within {PAINT_MS} ms: " + (f"MISSED by {', '.join(slow)}" if slow else "every page"))
    return 1 if slow else 0


def first_paint(watched: Watched, name: str) -> float:
    """Milliseconds, the best of a few loads."""
    watched.show(name)
    loads = []
    for _ in range(LOADS):
        watched.page.reload()
        loads.append(watched.page.evaluate(LOADED))
    paints = sorted(load["paint"] for load in loads)
    shift = max(load["shift"] for load in loads)
    print(
        f"{name}: first paint after {paints[0]:.0f} ms at best, {paints[LOADS // 2]:.0f} ms usually, "
        f"layout shift {shift:.4f}, {loads[0]['bytes'] / 1000:.0f} kB of scripts and styles"
    )
    return float(paints[0])


def press(page: Page, fault: str) -> dict[str, int]:
    watch(page, fault)
    page.get_by_role("button", name=fault, exact=True).click()
    return all_seen(page, fault)


def rest(live: Live) -> None:
    """Until the pods of a burst and the nodes for them are gone: the next one would find room."""
    until = live.stage.clock.now() + REST_SECONDS
    while live.stage.clock.now() < until:
        live.step(in_process=True)


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
