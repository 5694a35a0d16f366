"""How a comparison runs: so many examples, the differences, the cases counted.

The same draws on every push; another number gives others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.oracle.answers import Ruling
from tests.oracle.drawing import Cases, Thrown, strategy

Case = TypeVar("Case")


@dataclass
class Report:
    """What a comparison found."""

    cases: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    smallest: str = ""
    """The last case that differed."""

    @property
    def compared(self) -> int:
        """Each case once: names with a further word only say of which kind some were."""
        return sum(count for name, count in self.cases.items() if " by " not in name and " in " not in name)

    def differs(self, sentence: str) -> None:
        self.differences.append(sentence)

    def check(self, rulings: Iterable[Ruling], what: str) -> None:
        """What was done must be allowed by each of these."""
        for ruling in rulings:
            if not ruling.allows:
                self.differs(f"{ruling.why}: {what}")

    def merge(self, other: Report) -> None:
        self.cases.update(other.cases)
        self.differences.extend(other.differences)
        self.smallest = self.smallest or other.smallest


Compare = Callable[[Case, Report], None]


@dataclass(frozen=True, slots=True)
class Draws:
    examples: int
    number: int = 0
    """Which draws: the same number draws the same."""
    shrinks: bool = False
    """Whether Hypothesis makes the first case that differs as small as it can, which takes a while."""
    fast: bool = False
    """By a plain seeded generator, which takes half the time and makes nothing small."""


def run(cases: Cases[Case], compare: Compare[Case], draws: Draws) -> Report:
    """Compare so many draws. The first that differs ends it."""
    return _thrown(cases, compare, draws) if draws.fast else _chosen(cases, compare, draws)


def _thrown(cases: Cases[Case], compare: Compare[Case], draws: Draws) -> Report:
    report, source = Report(), Thrown(f"{cases.__module__}.{cases.__qualname__}/{draws.number}")
    for _ in range(draws.examples):
        case, found = cases(source), Report()
        compare(case, found)
        report.merge(found)
        if found.differences:
            report.smallest = repr(case)
            break
    return report


def _chosen(cases: Cases[Case], compare: Compare[Case], draws: Draws) -> Report:
    report = Report()

    @settings(
        max_examples=draws.examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink) if draws.shrinks else (Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @seed(draws.number)
    @given(strategy(cases))
    def each(case: Case) -> None:
        found = Report()
        compare(case, found)
        if found.differences:
            report.smallest = repr(case)
        assert not found.differences, found.differences[0]
        report.merge(found)

    try:
        each()
    except AssertionError as difference:
        report.differs(str(difference))
    return report
