"""What the page shows of each fault of the demo, and how soon after its button is pressed."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Page

WITHIN_SECONDS = 2.0
"""From the press of a button to all that its fault shows, in the seconds of a person."""


@dataclass(frozen=True, slots=True)
class Shown:
    said: str
    """In the feed, after "A person broke something"."""
    timeline: str = ""
    """Title of the operation that answers it."""
    banner: str = ""
    """Of an outage, which nothing is done about: the banner at the top."""


FAULTS = {
    "Burst": Shown("pods want a place", timeline="Adding nodes"),
    "Spot loss": Shown("two minutes left", timeline="spot nodes taken back"),
    "Stuck drain": Shown("disruption budget will not let", timeline="Spot node at risk"),
    "Crash": Shown("will be killed while it drains", timeline="Spot node taken back"),
    "Metrics gone": Shown("the CPU use is unknown for", banner="The metrics cannot be read"),
    "API server gone": Shown(
        "the API server does not answer for", banner="The cluster cannot be read. The values shown are"
    ),
}
OUTAGES = {name: shown.banner for name, shown in FAULTS.items() if shown.banner}

WATCH = """(wanted) => {
  window.watching?.disconnect();
  window.seen = {};
  let since = null;
  const count = ([selector, text]) =>
    [...document.querySelectorAll(selector)].filter((each) => each.textContent.includes(text)).length;
  const before = Object.fromEntries(Object.entries(wanted).map(([name, what]) => [name, count(what)]));
  addEventListener("pointerdown", () => { since ??= performance.now(); }, true);
  window.watching = new MutationObserver(() => {
    for (const [name, what] of Object.entries(wanted)) {
      const there = count(what);
      before[name] = Math.min(before[name], there);
      if (since === null || name in window.seen || there === before[name]) continue;
      window.seen[name] = Math.round(performance.now() - since);
    }
  });
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  window.watching.observe(document.body, all);
}"""
"""Notes how many milliseconds after the press of the button each thing came that was not there before. One
more counts: the event of an earlier press stays in the feed."""


def watch(page: Page, fault: str) -> None:
    shown = FAULTS[fault]
    wanted = {
        "panel": (".situation h2", f"Surviving: {fault}"),
        "steps": (".situation .survived li.past, .situation .survived li.here", ""),
        "event": (".feed li[data-group=person]", shown.said),
    }
    if shown.timeline:
        wanted["timeline"] = (".operation h3", shown.timeline)
    else:
        wanted["banner"] = ("#trouble", shown.banner)
    page.evaluate(WATCH, wanted)


def all_seen(page: Page, fault: str) -> dict[str, int]:
    """Milliseconds from the press to each thing, once all of them were there."""
    there = "(wanted) => wanted.every((name) => name in window.seen)"
    page.wait_for_function(there, arg=["panel", "event", "timeline" if FAULTS[fault].timeline else "banner"])
    found: dict[str, int] = page.evaluate("window.seen")
    return found
