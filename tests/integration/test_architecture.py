"""ARCHITECTURE.md is true: its paths exist, its diagrams are current, its crash table is answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.house import newcomer_lines, reading_path
from scripts.state_diagrams import page

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "ebbtide"
TEXT = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
NEWCOMER_LINES = 650


def rows() -> list[str]:
    """The first cell of every row of the crash table."""
    table = TEXT.partition("| what can go wrong | how it is handled |\n| --- | --- |\n")[2].partition("\n\n")[
        0
    ]
    return [line.split("|")[1].strip() for line in table.splitlines()]


def test_every_row_of_the_crash_table_has_a_name() -> None:
    names = [re.match(r"\(([a-z-]+)\) ", row) for row in rows()]
    assert [row for row, name in zip(rows(), names, strict=True) if name is None] == []
    found = [name.group(1) for name in names if name is not None]
    assert len(found) == len(set(found)) > 50


def test_every_row_is_named_at_a_guard_and_every_named_row_exists() -> None:
    named: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for found in re.findall(r"# Crash table: ([a-z, -]+)\.", path.read_text("utf-8")):
            named.update(found.split(", "))
    assert named == {row.partition(")")[0].lstrip("(") for row in rows()}


MACHINES = [
    *(f"core/operations/{name}.py" for name in ("removals", "slots", "spot", "moves")),
    *(f"core/scale_to_zero/{name}.py" for name in ("machine", "idle", "wake")),
]


def lines_after_names(source: str) -> Iterator[str]:
    """The line of code that each name of a row stands at."""
    lines = source.splitlines()
    for number, line in enumerate(lines):
        if "Crash table" in line and line.lstrip().startswith("#"):
            yield next(each.strip() for each in lines[number + 1 :] if not each.lstrip().startswith("#"))


@pytest.mark.parametrize("name", MACHINES)
def test_the_machines_name_rows_at_their_guards(name: str) -> None:
    """At the condition, the call or the change that answers it, not at the end of a block."""
    source = (SOURCE / name).read_text("utf-8")
    assert "# Crash table: " in source
    ends = ("else:", "return", "pass", "")
    assert [line for line in lines_after_names(source) if line in ends] == []


def test_no_name_of_a_row_is_written_in_another_way() -> None:
    """It would be looked for by no test."""
    wrong = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"crash.table", line, re.IGNORECASE)
        and line.lstrip().startswith("#")
        and not re.match(r"\s*# Crash table: [a-z]+(-[a-z]+)*(, [a-z]+(-[a-z]+)*)*\.", line)
    ]
    assert wrong == []


def test_every_file_in_the_map_exists() -> None:
    tree = TEXT.partition("```\nsrc/ebbtide/\n")[2].partition("```")[0]
    names = {path.name for path in SOURCE.rglob("*")}
    wanted = set(re.findall(r"\b([a-z_]+(?:\.py|/))", tree))
    assert len(wanted) > 40
    assert {name for name in wanted if name.rstrip("/") not in names} == set()


def test_a_newcomer_reads_at_most_650_lines() -> None:
    assert reading_path(ROOT)[0] == "GLOSSARY.md"
    assert int(newcomer_lines(ROOT)) <= NEWCOMER_LINES


def test_the_state_diagrams_are_current() -> None:
    assert (ROOT / "docs" / "state-machines.md").read_text("utf-8") == page(), "run make reference"
