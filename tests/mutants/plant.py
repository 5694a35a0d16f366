"""Plant a bug in a copy of the package and run one killer after the other against it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutants.anchor import PACKAGE, ROOT, DoesNotApply, Planted, planted

LONGEST_SECONDS = 1800
SEEDS = 400
EXPLORED = 100_000


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    """What is no longer done."""
    function: str
    """Its name, with as much of class and module before it as tells it from others."""
    old: str
    """An expression, or statements, of that function."""
    new: str
    killers: tuple[str, ...] = ()
    """Tried first, since they are known to catch it."""
    redundant: str = ""
    """Why nothing can catch it, where nothing does: what else holds the same line."""
    alone: bool = False
    """Whether only these killers are asked."""


SCENES = (
    "scale-down",
    "scale-up",
    "interruption",
    "rebalance",
    "demand returns",
    "never joins",
    "late joiner",
    "consolidation",
    "to zero and back",
    "behind the gate",
)
KILLERS = ("table", *(f"explorer:{scene}" for scene in SCENES), "unit", "points", "swarm")
"""In this order, after those that a mutant names itself."""


def changed(mutant: Mutant) -> Planted:
    """The file with the bug in it."""
    try:
        return planted(mutant.function, mutant.old, mutant.new)
    except (DoesNotApply, SyntaxError) as error:
        raise DoesNotApply(f"{mutant.name}: {error}: write it again (tests/mutants/__init__.py)") from error


def killer_of(mutant: Mutant) -> str:
    """Who caught it; empty when nobody did."""
    bug = changed(mutant)
    with tempfile.TemporaryDirectory(prefix="ebb-mutant-") as place:
        package = Path(place) / "ebbtide"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / bug.file).write_text(bug.source)
        if (
            _run(place, [sys.executable, "-c", "import ebbtide.engine.loop, ebbtide.simulator.run.simulate"])
            != 0
        ):
            raise DoesNotApply(f"{mutant.name}: the package cannot be imported with it")
        known: tuple[str, ...] = () if mutant.redundant or mutant.alone else KILLERS
        for killer in dict.fromkeys(mutant.killers + known):
            match _run(place, command_of(killer)):
                case 0:
                    continue
                case 1:
                    return killer
                case code:  # not a test that failed, but one that could not be run: that catches nothing
                    raise DoesNotApply(f"{mutant.name}: {killer} ended with {code} and judged nothing")
    return ""


def by_stories_and_oracle(mutant: Mutant) -> Mutant:
    """To be caught by tests that do not know the code: no unit test may help."""
    named = tuple(killer for killer in mutant.killers if killer.startswith(("story:", "oracle:")))
    return replace(mutant, killers=named, alone=True)


def by_the_fast_oracle(mutant: Mutant) -> Mutant | None:
    """To be caught by the comparisons of `make torture` alone, if it is one that the oracle catches."""
    named = tuple(killer for killer in mutant.killers if killer.startswith("oracle:"))
    return replace(mutant, killers=tuple(f"fast-{one}" for one in named), alone=True) if named else None


def command_of(killer: str) -> list[str]:
    kind, _, what = killer.partition(":")
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    match kind:
        case "explorer":
            return [sys.executable, "-m", "tests.explorer", "--scene", what, "--limit", str(EXPLORED)]
        case "swarm":
            return [sys.executable, "-m", "tests.swarm", "--seeds", what or str(SEEDS)]
        case "table":
            files = ["tests/simulation/test_crash_table.py", "tests/simulation/test_incidents.py"]
            return [*pytest, *files, *(["-k", what] if what else [])]
        case "oracle":
            return [sys.executable, "-m", "tests.oracle", *(["--only", what] if what else [])]
        case "fast-oracle":
            return [sys.executable, "-m", "tests.oracle", "--fast", "--only", what]
        case "points":
            return [*pytest, "tests/simulation/test_crash_points.py", *(["-k", what] if what else [])]
        case "story":
            return [*pytest, "tests/stories/test_stories.py", *(["-k", what] if what else [])]
        case "unit":
            return [*pytest, *(what or "tests/unit").split()]
        case _:
            raise ValueError(f"there is no killer {killer!r}")


def _run(place: str, command: list[str]) -> int:
    """How it ends with the package that is in `place`."""
    environment = dict(os.environ, PYTHONPATH=place, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=LONGEST_SECONDS
    )
    return done.returncode
