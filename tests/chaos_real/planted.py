"""One bug a night, planted in a copy of this version, that the judge of a real cluster must see.

Each shows however the runners are disturbed: at the latest when everything should have come to rest.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.mutants.anchor import PACKAGE
from tests.mutants.plant import Mutant, changed

BUGS = (
    Mutant(
        "what is used again is not woken",
        "idle._asleep",
        'IdleStep(state, Wanted.WAKE, says=f"activity while at zero: {why}")',
        "IdleStep(state)",
    ),
    Mutant(
        "the Node object of what is gone is never deleted",
        "rounds._do",
        "ports.cluster.delete_node(effect)",
        "pass",
    ),
)


def of_the_night(number: int) -> Mutant:
    return BUGS[number % len(BUGS)]


def plant(bug: Mutant, folder: Path) -> Path:
    """The sources with the bug in them."""
    planted = changed(bug)
    shutil.copytree(PACKAGE, folder / "ebbtide", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "ebbtide" / planted.file).write_text(planted.source)
    return folder
