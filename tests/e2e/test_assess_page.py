"""The page that `ebbtide assess --html` writes, in a real Chromium: on a phone, in the dark, printed."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from ebbtide.config.prices import read_book
from ebbtide.entrypoints.assess.command import assess_command
from tests.dumps import VERSIONS, as_dump, node, place
from tests.e2e.pages import NARROW, WIDE, Scheme, opened

A4_WITHOUT_MARGINS = 718
"""Pixels, at the margins of a browser."""
INK, PAPER = "rgb(20, 35, 43)", "rgb(255, 255, 255)"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = (
    "[...document.querySelectorAll('section')].filter((each) => each.scrollWidth > each.clientWidth).length"
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of a cluster whose nodes have names as long as a cloud makes them."""
    folder = tmp_path_factory.mktemp("assess")
    labels = place("m7i.large", "eu-central-1a", "eu-central-1")
    names = [f"ip-10-0-12-{number}.eu-central-1.compute.internal" for number in range(4)]
    spot = {**labels, "eks.amazonaws.com/capacityType": "SPOT"}
    items = [node(name, VERSIONS["eks"], spot, f"aws:///eu-central-1a/i-{name}") for name in names]
    (folder / "dump.json").write_bytes(as_dump(items))
    assert assess_command(str(folder / "dump.json"), read_book(None), True, folder / "page.html", None) == 0
    return (folder / "page.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_nothing_of_the_page_is_cut_off_and_everybody_can_read_it(
    browser: Browser, written: str, width: int, scheme: Scheme
) -> None:
    with opened(browser, written, width, scheme) as watched:
        page = watched.page
        assert page.evaluate(WIDER) == 0
        assert page.evaluate(CUT_OFF) == 0
        # Its own policy forbids scripts, so those of the check run in a page of the same content without it.
        content = (
            Path(written.removeprefix("file://")).read_text().replace("Content-Security-Policy", "x-policy")
        )
        page.set_content(content)
        found = Axe().run(page).response["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        assert watched.errors == []


def test_nothing_of_the_printed_page_runs_off_the_paper(browser: Browser, written: str) -> None:
    """The last column, whether a node can go, was cut off."""
    with opened(browser, written, A4_WITHOUT_MARGINS) as watched:
        watched.page.emulate_media(media="print")
        assert watched.page.evaluate(WIDER) == 0
        assert watched.page.evaluate(CUT_OFF) == 0


def test_printed_it_is_dark_on_white_also_for_those_who_like_it_dark(browser: Browser, written: str) -> None:
    with opened(browser, written, WIDE, "dark") as watched:
        page = watched.page
        page.emulate_media(media="print", color_scheme="dark")
        style = "getComputedStyle(document.querySelector('section')).%s"
        assert page.evaluate(style % "backgroundColor") == PAPER
        assert page.evaluate(style % "color") == INK
