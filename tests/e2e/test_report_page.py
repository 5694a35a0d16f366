"""The page that `ebbtide report` writes, in a real Chromium: on a phone, in the dark, printed."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.prices import CostPoint
from ebbtide.core.scale_to_zero.savings import Saved, SavingsDay
from ebbtide.entrypoints.report.collect import collect, period_of
from ebbtide.entrypoints.report.page import page as report_page
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.narrate import entry_of
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW
from tests.e2e.pages import NARROW, WIDE, opened

INK, PAPER = "rgb(20, 35, 43)", "rgb(255, 255, 255)"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LETTERS = "[...document.querySelectorAll('svg text')].map((each) => each.getBoundingClientRect().height)"
BROKEN = """() => [...document.querySelectorAll("th, td")].flatMap((cell) => {
  const found = [];
  for (const node of cell.childNodes) {
    for (const { 0: word, index } of node.textContent.matchAll(/[^\\s-]+/g)) {
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + word.length);
      if (range.getClientRects().length > 1) found.push(word);
    }
  }
  return found;
})"""
"""Words that continue on another line."""
LEAST_PX = 10
"""As high as the smallest letters of a chart must be."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = MemoryStore(VirtualClock(NOW), "demo")
    points = tuple(CostPoint(NOW - 3600 + at, {"USD": Decimal(at + 1)}) for at in (0, 600, 1200))
    saved = Saved("USD", "", Decimal(30), Decimal(20), Decimal(10))
    days = tuple(SavingsDay(f"2026-11-{day:02d}", money=(saved,)) for day in range(1, 31))
    figures = collect(store, "demo", (), period_of("", "", NOW))
    done = replace(figures.done, operations=(("consolidation", 1140, 211), ("interruption", 65, 0)))
    alarm = entry_of("1", NOW, Alarm(AlarmKind.OBSERVATION, f"node {'n' * 80} has no instance"))
    figures = replace(figures, done=done, alarms=(alarm,), alarms_in_all=1)
    file = tmp_path_factory.mktemp("report") / "page.html"
    file.write_text(report_page(replace(figures, currency="USD", points=points, days=days)))
    return file.as_uri()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_letters_of_its_charts_can_be_read_and_nothing_is_cut_off(
    browser: Browser, written: str, width: int
) -> None:
    """On a phone the axes were written 5 px high."""
    with opened(browser, written, width) as watched:
        letters = watched.page.evaluate(LETTERS)
        assert len(letters) > LEAST_PX
        assert min(letters) >= LEAST_PX
        assert watched.page.evaluate(WIDER) == 0
        assert watched.errors == []


def test_no_word_of_a_table_is_broken_on_a_phone_unless_it_is_wider_than_its_column(
    browser: Browser, written: str
) -> None:
    """It said "complete" and, below it, "d"."""
    with opened(browser, written, NARROW) as watched:
        assert watched.page.evaluate(BROKEN) == ["n" * 80]


def test_printed_it_is_dark_on_white_also_for_those_who_like_it_dark(browser: Browser, written: str) -> None:
    with opened(browser, written, WIDE, "dark") as watched:
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        style = "getComputedStyle(document.querySelector('section')).%s"
        assert page.evaluate(style % "backgroundColor") == PAPER
        assert page.evaluate(style % "color") == INK
        assert Path(written.removeprefix("file://")).read_text().count("<svg") > 1
