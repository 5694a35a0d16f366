"""The table of planted bugs in docs/guarantees.md, written from the bugs themselves."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.anchor import ROOT
from tests.mutants.plant import changed
from tests.mutants.planted import ALL

PAGE = ROOT / "docs" / "guarantees.md"
HEAD = "| planted bug | file | caught by |\n| --- | --- | --- |\n"


def table() -> str:
    """A row for each: the test that is named first is the one that is known to catch it."""
    rows = [f"| {one.name} | `{changed(one).file}` | {one.killers[0]} |\n" for one in ALL]
    return HEAD + "".join(rows)


def with_table(page: str) -> str:
    before, head, rest = page.partition(HEAD)
    if not head:
        raise ValueError(f"{PAGE.name} has no table of planted bugs")
    return before + table() + "\n" + rest.partition("\n\n")[2]


def write(page: Path = PAGE) -> None:
    page.write_text(with_table(page.read_text()))
