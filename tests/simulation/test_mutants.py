"""A handful of planted bugs with every push, so that the tests are tested too. `make torture` has all."""

from __future__ import annotations

import pytest

from tests.mutants.plant import changed, killer_of
from tests.mutants.planted import ALL, QUICK

BY_NAME = {mutant.name: mutant for mutant in ALL}


def test_every_planted_bug_still_applies() -> None:
    assert len(BY_NAME) == len(ALL) >= 30
    for mutant in ALL:
        compile(changed(mutant), mutant.file, "exec")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert killer_of(BY_NAME[name]) in BY_NAME[name].killers
