"""The tool that changes the code: how long a verdict holds, which tests are asked, what a fork shows."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.mutation.asking import Asking
from tests.mutation.chosen import ROOT
from tests.mutation.clauses import Clause
from tests.mutation.promise import Promise
from tests.mutation.reach import Reach, Reached
from tests.mutation.verdicts import Found, Verdict, Verdicts, names_of, short

LINES = frozenset({4})
OPENS, CLOSES, SLOW = "test_door.py::test_opens", "test_lock.py::test_closes", "test_house.py::test_all"
REACH = Reach(
    {
        OPENS: Reached(0.5, {"door": LINES}),
        CLOSES: Reached(0.6, {"door": LINES}),
        SLOW: Reached(30.0, {"door": LINES, "window": frozenset(range(50))}),
    },
    (),
)
MUTANT = Clause("door", "opens", "at < 5", "at <= 5", LINES, "")
OTHER = Clause("door", "opens", "at < 5", "at < 6", LINES, "")


@dataclass
class House:
    """The digests of now, and a file of verdicts."""

    place: Path
    module: str = "m1"
    tests: tuple[str, ...] = ("t1", "t2", "t3")

    def asking(self, budget: float = 60.0) -> Asking:
        files = dict(zip(("test_door.py", "test_lock.py", "test_house.py"), self.tests, strict=True))
        verdicts = Verdicts(self.place, {"door": self.module}, files)
        verdicts.read()
        mutants = (MUTANT, OTHER)
        return Asking(REACH, verdicts, dict(zip(mutants, names_of(mutants), strict=True)), budget)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "verdicts.jsonl")


def test_a_killed_mutant_stays_killed_until_its_module_or_that_test_changes(house: House) -> None:
    house.asking().conclude(MUTANT, Found(Verdict.KILLED, OPENS))
    assert house.asking().standing(MUTANT) == Found(Verdict.KILLED, OPENS)
    assert house.asking().standing(OTHER) is None
    house.tests = ("t1", "changed", "t3")
    assert house.asking().standing(MUTANT) is not None, "another test changed"
    house.tests = ("changed", "t2", "t3")
    assert house.asking().standing(MUTANT) is None
    house.tests, house.module = ("t1", "t2", "t3"), "changed"
    assert house.asking().standing(MUTANT) is None


def test_who_noticed_it_before_is_asked_first_after_a_change(house: House) -> None:
    house.asking().conclude(MUTANT, Found(Verdict.KILLED, SLOW))
    house.module = "changed"
    assert house.asking().tests_for(MUTANT) == [SLOW, OPENS, CLOSES]


def test_a_survivor_is_asked_only_by_tests_that_are_new_or_were_left_out(house: House) -> None:
    first = house.asking(budget=1.0)
    assert first.tests_for(MUTANT) == [OPENS, CLOSES]
    first.conclude(MUTANT, first.found(MUTANT, Verdict.SURVIVED, [OPENS, CLOSES], "", 0.5))
    again = house.asking(budget=1.0).standing(MUTANT)
    assert again is not None
    assert again.verdict is Verdict.SURVIVED

    more = house.asking(budget=60.0)
    assert more.standing(MUTANT) is None
    assert more.tests_for(MUTANT) == [SLOW]
    found = more.found(MUTANT, Verdict.SURVIVED, [SLOW], "", 2.0)
    assert found.asked == {short(OPENS), short(CLOSES), short(SLOW)}
    assert found.cpu == 2.5

    house.tests = ("t1", "changed", "t3")
    assert house.asking(budget=1.0).tests_for(MUTANT) == [CLOSES], "only what has changed"
    house.module = "changed"
    assert house.asking(budget=1.0).tests_for(MUTANT) == [OPENS, CLOSES]


def test_a_line_that_an_interrupted_run_left_half_written_is_ignored(house: House) -> None:
    house.asking().conclude(MUTANT, Found(Verdict.KILLED, OPENS))
    house.asking().conclude(OTHER, Found(Verdict.KILLED, OPENS))
    text = house.place.read_text()
    house.place.write_text(text[:-30])
    assert house.asking().standing(MUTANT) is not None
    assert house.asking().standing(OTHER) is None


def test_a_test_that_noticed_changes_of_the_same_function_is_asked_before_quicker_ones() -> None:
    promise = Promise(REACH)
    assert promise.best_first(MUTANT, [SLOW, CLOSES, OPENS]) == [OPENS, CLOSES, SLOW]
    promise.learn(OTHER, [OPENS], CLOSES)
    assert promise.best_first(MUTANT, [SLOW, CLOSES, OPENS]) == [CLOSES, OPENS, SLOW]


def test_a_test_that_fails_on_the_original_code_is_not_asked_again(house: House) -> None:
    asking = house.asking()
    asking.trust(OPENS, holds=False)
    asking.trust(CLOSES, holds=True)
    assert asking.tests_for(MUTANT) == [CLOSES, SLOW]
    assert asking.is_trusted(CLOSES)
    assert not asking.is_trusted(OPENS)


def test_the_same_change_twice_in_a_function_has_two_names() -> None:
    once, twice = names_of([MUTANT, MUTANT])
    assert once == str(MUTANT)
    assert twice != once


DOOR = """
def count(limit):
    at = 0
    while at < limit:
        at += 1
    return at
"""
TESTS = """
import os
import door

def test_counts():
    assert door.count(3) == 3

def test_only_in_the_first_process():
    door.count(0)
    assert str(os.getpid()) == os.environ["FIRST"]
"""
RUN = """
import json, os, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
os.environ["FIRST"] = str(os.getpid())
from tests.mutation import asking, chosen, judging, mutants, planting, reach, verdicts
chosen.PACKAGE = planting.PACKAGE = folder
judging.PYTEST = [*reach.PYTEST, "--rootdir", str(folder), "-c", os.devnull, "-p", "no:anyio"]
os.chdir(folder)
changed = mutants.mutants_of(folder / "door.py")
reached = reach.Reached(0.01, {"door": frozenset(range(1, 10))})
asked = {f"test_door.py::{name}": reached for name in sys.argv[2:]}
judging.CPU_SECONDS = 0.5
kept = verdicts.Verdicts(folder / "verdicts", {"door": "1"}, {"test_door.py": "1"})
names = dict(zip(changed, verdicts.names_of(changed)))
found = {}
judging.judge(
    changed,
    asking.Asking(reach.Reach(asked, ()), kept, names, 60.0),
    2,
    lambda mutant, one: found.update({mutant.new: [one.verdict.name, one.by.partition("::")[2]]}),
)
(folder / "found.json").write_text(json.dumps(found))
"""


def judged(folder: Path, *tests: str) -> dict[str, list[str]]:
    (folder / "door.py").write_text(DOOR)
    (folder / "test_door.py").write_text(TESTS)
    command = [sys.executable, "-c", RUN, str(folder), *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, list[str]] = json.loads((folder / "found.json").read_text())
    return found


def test_a_fork_tells_what_fails_and_what_never_ends(tmp_path: Path) -> None:
    assert judged(tmp_path, "test_counts") == {
        "at = 1": ["SURVIVED", ""],
        "while at <= limit:": ["KILLED", "test_counts"],
        "while not at < limit:": ["KILLED", "test_counts"],
        "at += 2": ["KILLED", "test_counts"],
        "pass": ["TIMED_OUT", "test_counts"],
        "return None": ["KILLED", "test_counts"],
    }


def test_a_test_that_fails_in_every_fork_kills_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path, "test_only_in_the_first_process")
    assert set(map(tuple, found.values())) == {("UNREACHED", "")}
