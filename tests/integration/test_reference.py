"""The reference is that of the code, and every page is found from the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from ebbtide.entrypoints.cli.app import app
from scripts.make_reference import pages

DOCS = Path(__file__).parents[2] / "docs"
LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", ["api.md", "cli.md", "metrics.md", "log.md"])
def test_the_reference_is_that_of_the_code(made: dict[str, str], name: str) -> None:
    assert (DOCS / "reference" / name).read_text() == made[name], "run make reference"


def commands() -> list[str]:
    group = typer.main.get_group(app)
    return sorted(group.commands)


def test_every_command_is_in_the_page_of_the_command_line() -> None:
    text = (DOCS / "cli.md").read_text()
    assert [name for name in commands() if f"`{name}" not in text] == []


def test_every_page_is_found_from_the_index() -> None:
    linked = set(LINK.findall((DOCS / "README.md").read_text()))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert there - linked == set()


def test_no_link_leads_nowhere() -> None:
    missing = []
    for page in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]:
        for target in LINK.findall(page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(DOCS.parent)}: {target}")
    assert missing == []
