"""A handful of planted bugs with every push, so the tests are tested too. `make torture` has all."""

from __future__ import annotations

import pytest

from tests.mutants.anchor import DoesNotApply, planted
from tests.mutants.plant import Mutant, changed, killer_of
from tests.mutants.planted import ALL, QUICK
from tests.mutants.table import PAGE, with_table

BY_NAME = {mutant.name: mutant for mutant in ALL}


def test_every_planted_bug_still_applies() -> None:
    assert len(BY_NAME) == len(ALL) >= 30
    for mutant in ALL:
        bug = changed(mutant)
        compile(bug.source, str(bug.file), "exec")


def test_every_planted_bug_has_its_row_in_the_documents() -> None:
    """`python -m tests.mutants --table` writes them."""
    page = PAGE.read_text()
    assert with_table(page) == page
    first_cells = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert {mutant.name for mutant in ALL} <= first_cells


def test_a_bug_is_planted_by_function_and_syntax_whatever_the_formatting() -> None:
    bug = planted("keeps_minimum", "len( left )<settings . min_workers", "False")
    assert "    if (False):\n" in bug.source
    assert planted("gates.keeps_minimum", "len(left) < settings.min_workers", "False") == bug


@pytest.mark.parametrize(
    ("function", "code", "why"),
    [
        ("keeps_minimum", "len(left) <= settings.min_workers", "0 times in keeps_minimum"),
        ("keeps_minimum", "left", "times in keeps_minimum"),
        ("keeps_minimum", "", "does not say which code"),
        ("gates.no_such_function", "left", "there is no function gates.no_such_function"),
    ],
)
def test_a_bug_that_is_not_found_exactly_once_fails(function: str, code: str, why: str) -> None:
    with pytest.raises(DoesNotApply, match=why):
        changed(Mutant("a bug", function, code, "False"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert killer_of(BY_NAME[name]) in BY_NAME[name].killers
