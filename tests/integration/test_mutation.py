"""The tool that changes the code: what it changes, that the change is really there, what it is excused."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from ebbtide.adapters.stores.dynamodb import record
from ebbtide.core.nodes import sizing
from ebbtide.model.record import Lease
from tests.mutation.__main__ import drawn
from tests.mutation.chosen import GROUPS, ROOT, files, gone, group_of, name_of
from tests.mutation.clauses import clauses, clauses_of
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.judging import Judged
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.planting import Functions
from tests.mutation.reach import Reach, Reached, stale_files
from tests.mutation.replacing import expressions, statements

EXAMPLE = '''
LIMIT = 3

class Door:
    def opens(self, at: int, held: bool = False) -> bool:
        """Text."""
        log.warning("not changed %d", 7)
        if at < 5 and not held:
            raise ValueError(f"at {at + 1}")
        self.store.write(at)
        self.tell(at, "x")
        return at in self.hours
'''
CHANGED = {
    ("if at < 5 and (not held):", "if not (at < 5 and (not held)):"),
    ("if at < 5 and (not held):", "if at < 5 or not held:"),
    ("if at < 5 and (not held):", "if not held:"),
    ("if at < 5 and (not held):", "if at < 5:"),
    ("if at < 5 and (not held):", "if at <= 5 and (not held):"),
    ("if at < 5 and (not held):", "if at < 6 and (not held):"),
    ("if at < 5 and (not held):", "if at < 5 and held:"),
    ("raise ValueError(f'at {at + 1}')", "pass"),
    ("self.store.write(at)", "pass"),
    ("self.tell(at, 'x')", "pass"),
    ("self.tell(at, 'x')", "self.tell('x', at)"),
    ("self.store.write(at); self.tell(at, 'x')", "self.tell(at, 'x'); self.store.write(at)"),
    ("return at in self.hours", "return None"),
    ("return at in self.hours", "return at not in self.hours"),
}


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mutant]:
    monkeypatch.setattr("tests.mutation.chosen.PACKAGE", tmp_path)
    file = tmp_path / "door.py"
    file.write_text(EXAMPLE)
    return mutants_of(file)


def test_every_guard_call_and_answer_is_changed_and_nothing_that_is_only_said(example: list[Mutant]) -> None:
    assert {(mutant.old, mutant.new) for mutant in example} == CHANGED
    assert {mutant.function for mutant in example} == {"Door.opens"}


def test_what_is_only_asked_whether_it_holds_is_made_true_and_not_none() -> None:
    (refuses,) = ast.parse("def refuses(): return False").body[0].body  # type: ignore[attr-defined]
    assert list(statements(refuses)) == []
    assert [ast.unparse(new) for new in expressions(refuses.value, refuses, "value")] == ["True"]


def test_a_mutant_is_code_and_leaves_the_next_one_alone(example: list[Mutant]) -> None:
    for mutant in example:
        mutant.code()
    assert len({mutant.code().co_consts for mutant in example}) == len(example)


def test_a_change_is_planted_where_the_function_is_already_held() -> None:
    held = sizing._cheapest_cpu
    kept = held.__code__
    (mutant,) = (
        mutant
        for mutant in mutants_of(Path(sizing.__file__))
        if mutant.function == "_cheapest_cpu" and mutant.new == "return None"
    )
    try:
        Functions().plant(mutant)
        assert held([]) is None
        assert held.__code__ is not kept
    finally:
        held.__code__ = kept


def test_every_comparison_in_the_text_of_a_condition_is_changed() -> None:
    assert list(clauses("attribute_not_exists(pk) OR until < :now")) == [
        "(attribute_not_exists(pk) OR attribute_exists(pk)) OR until < :now",
        "(attribute_not_exists(pk) AND attribute_exists(pk)) OR until < :now",
        "attribute_not_exists(pk) OR (until < :now OR until = :now OR until <> :now)",
        "attribute_not_exists(pk) OR (until < :now AND until = :now AND until <> :now)",
        "attribute_not_exists(pk) OR until <= :now",
    ]
    assert list(clauses("SET owner = :owner, until = :until")) == []
    assert list(clauses("the record is at rev")) == []
    assert list(clauses("UPDATE s SET a = 1 WHERE s.rev = v.rev RETURNING id")) == [
        "UPDATE s SET a = 1 WHERE (s.rev = v.rev OR s.rev = v.rev OR s.rev <> v.rev) RETURNING id",
        "UPDATE s SET a = 1 WHERE (s.rev = v.rev AND s.rev = v.rev AND s.rev <> v.rev) RETURNING id",
    ]


def test_a_condition_that_is_a_constant_is_planted_in_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "OURS", record.OURS)
    found = [clause for clause in clauses_of(Path(record.__file__)) if clause.function == "OURS"]
    assert {clause.old for clause in found} == {"lockOwner = :owner AND lockToken = :token"}
    Functions().plant(found[0])
    assert record.OURS == found[0].value != found[0].old
    assert record.release_lease(Lease("a", "b", 1, 2))["ConditionExpression"] == found[0].value


def test_the_quickest_tests_that_reach_a_line_come_first() -> None:
    lines = frozenset({4, 5})
    tests = {
        "slow": Reached(9.0, {"door": lines}),
        "quick": Reached(0.1, {"door": lines}),
        "elsewhere": Reached(0.1, {"window": lines}),
    }
    assert Reach(tests, ()).of("door", range(5, 8)) == ["quick", "slow"]
    assert Reach(tests, ()).of("door", range(6, 8)) == []


def test_every_group_has_modules_and_every_module_a_group() -> None:
    assert {group_of(name_of(file)) for file in files()} == set(GROUPS)


def test_a_sample_keeps_what_was_drawn_when_other_code_changes(example: list[Mutant]) -> None:
    first = drawn(example, 5, seed=7)
    assert len(first) == 5
    assert drawn(list(reversed(example)), 5, seed=7) == first
    assert drawn([one for one in example if one is not first[0]], 4, seed=7) == first[1:]
    assert drawn(example, 5, seed=8) != first


def test_only_tests_that_changed_or_reach_what_changed_are_recorded_again() -> None:
    modules = {"door": "a", "window": "b"}
    kept = {
        "files": {
            "test_door.py": {"digest": "1", "modules": modules},
            "test_window.py": {"digest": "2", "modules": modules},
            "test_gone.py": {"digest": "3", "modules": modules},
        },
        "tests": {
            "test_door.py::test_opens": [0.1, {"door": [4]}],
            "test_window.py::test_opens": [0.1, {"window": [4]}],
            "test_gone.py::test_opens": [0.1, {"door": [4]}],
        },
    }
    now = {"test_door.py": "1", "test_window.py": "2"}
    assert stale_files(kept, now, modules) == set()
    assert stale_files(kept, now, modules | {"door": "A"}) == {"test_door.py"}
    assert stale_files(kept, now, modules | {"roof": "c"}) == set(now), "who reaches it is not known"
    assert stale_files(kept, now | {"test_window.py": "9"}, modules) == {"test_window.py"}
    assert stale_files(kept, now | {"test_new.py": "1"}, modules) == {"test_new.py"}


def test_what_is_called_equivalent_is_there_and_says_why() -> None:
    named = {one.function.rsplit(".", 1)[0] for one in EQUIVALENT}
    modules = [file for file in files() if any(name.startswith(name_of(file)) for name in named)]
    changes: list[Judged] = []
    for file in modules:
        changes += [*mutants_of(file), *clauses_of(file)]
    found = {(f"{one.module}.{one.function}", one.old, one.new) for one in changes}
    assert [one for one in EQUIVALENT if (one.function, one.old, one.new) not in found] == []
    assert all(len(one.reason.split()) >= 4 for one in EQUIVALENT)
    assert len({(one.function, one.old, one.new) for one in EQUIVALENT}) == len(EQUIVALENT)


def test_every_module_that_is_to_be_changed_is_there() -> None:
    assert gone() == []


def test_modules_that_were_imported_before_do_not_keep_the_tests_from_being_collected() -> None:
    """Conditions are read from modules of the API too: what these import brings a plugin along."""
    code = (
        "import sys, anyio, pytest; from tests.mutation.reach import PYTEST; "
        "sys.exit(pytest.main([*PYTEST, '--collect-only', 'tests/unit/test_words.py']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
