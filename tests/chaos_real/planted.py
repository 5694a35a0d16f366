"""One bug a night, planted in a copy of this version, that the judge of a real cluster must see.

Each shows however the runners are disturbed: at the latest when everything should have come to rest.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos_real.setting import SLEEPER
from tests.mutants.anchor import PACKAGE
from tests.mutants.plant import Mutant, changed


@dataclass(frozen=True)
class Bug:
    mutant: Mutant
    shows: str
    """In what the judge says of it: another violation does not count as catching it."""


BUGS = (
    Bug(
        Mutant(
            "what is used again is not woken",
            "idle._asleep",
            "return IdleStep(state, NextStep.WAKE, why=why)",
            "return IdleStep(state)",
        ),
        shows=f"{SLEEPER}, which is in use, is not up",
    ),
    Bug(
        Mutant(
            "the Node object of what is gone is never deleted",
            "rounds._do",
            "ports.cluster.delete_node(effect)",
            "pass",
        ),
        shows="has no instance",
    ),
)


def of_the_night(number: int) -> Bug:
    return BUGS[number % len(BUGS)]


def sightings(bug: Bug, violations: Iterable[str]) -> list[str]:
    return [violation for violation in violations if bug.shows in violation]


def plant(bug: Mutant, folder: Path) -> Path:
    """The sources with the bug in them."""
    planted = changed(bug)
    shutil.copytree(PACKAGE, folder / "ebbtide", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "ebbtide" / planted.file).write_text(planted.source)
    return folder
