"""The engine compared with the executable specification: all it does is allowed, and what must happen does.

The figures and the table of rules are said at the end of the run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests import oracle
from tests.oracle.answers import RULES
from tests.oracle.comparisons import COMPARISONS, Found, compare, too_few
from tests.simulation.conftest import ORACLE

NAMES = [one.name for one in COMPARISONS]


def found(name: str) -> Found:
    if name not in ORACLE:
        ORACLE[name] = compare(name)
    return ORACLE[name]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_the_engine_does_what_the_documents_say(name: str) -> None:
    assert found(name).report.differences == [], f"python -m tests.oracle --only {name}"


@pytest.mark.timeout(600)
def test_enough_cases_are_compared() -> None:
    cases: Counter[str] = Counter()
    for name in NAMES:
        cases.update(found(name).report.cases)
    assert too_few(cases) == []
    zones = [name for name in cases if name.startswith("schedule instants in ")]
    assert len(zones) >= 6


def test_no_rule_of_the_oracle_imports_what_it_judges() -> None:
    """Its rules are written from the documents; only the comparisons call the engine."""
    for rule in RULES.values():
        module = rule.function.partition(".")[0]
        text = (Path(oracle.__file__).parent / f"{module}.py").read_text()
        assert "ebbtide.core" not in text
        assert "ebbtide.engine" not in text
