"""All comparisons, how many draws each makes with a push, and how many cases there must be at least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.oracle import (
    admitting,
    averages,
    deciding,
    draining,
    history,
    refreshing,
    repacking,
    running,
    scheduling,
    sleeping,
    sparing,
)
from tests.oracle.answers import DRAWN
from tests.oracle.drawing import Cases
from tests.oracle.suite import Draws, Report, run


@dataclass(frozen=True, slots=True)
class Comparison:
    name: str
    cases: Cases[Any]
    compare: Callable[[Any, Report], None]
    examples: int
    """With every push; `make torture` draws a hundred times as many."""


COMPARISONS = (
    Comparison("decisions", deciding.cases, deciding.compare, 440),
    Comparison("histories", history.cases, history.compare, 150),
    Comparison("drains", draining.cases, draining.compare, 2700),
    Comparison("averages", averages.cases, averages.compare, 150),
    Comparison("consolidations", repacking.cases, repacking.compare, 500),
    Comparison("schedules", scheduling.instants, scheduling.compare, 400),
    Comparison("ledgers", scheduling.accounts, scheduling.compare_accounts, 200),
    Comparison("nights", sleeping.nights, sleeping.compare_nights, 150),
    Comparison("wakes", sleeping.mornings, sleeping.compare_mornings, 150),
    Comparison("refusals", admitting.cases, admitting.compare, 120),
    Comparison("runs", running.cases, running.compare, 120),
    Comparison("pools", sparing.cases, sparing.compare, 350),
    Comparison("replacements", refreshing.cases, refreshing.compare, 350),
    Comparison("rules", sleeping.ruled, sleeping.compare_ruled, 300),
)
AT_LEAST = {
    "decisions": 5000,
    "drains": 2000,
    "schedule instants on DST days": 2000,
}


@dataclass(frozen=True, slots=True)
class Found:
    """What one comparison came to, with the answers that it drew."""

    name: str
    report: Report
    drawn: Counter[tuple[str, str]]


def compare(name: str, part: int = 0, shrinks: bool = False, fast: bool = False) -> Found:
    """The draws of a push are part 0; other parts are other draws, of the same number. Hypothesis can make a
    case small but likes small ones: it hardly ever draws two rules that pull against each other. So the plain
    generator draws as many again."""
    comparison = next(one for one in COMPARISONS if one.name == name)
    before = Counter(DRAWN)
    report = Report()
    for plain in (True,) if fast else (False, True):
        draws = Draws(comparison.examples, part, shrinks, plain)
        report.merge(run(comparison.cases, comparison.compare, draws))
    return Found(name, report, DRAWN - before)


Job = tuple[str, int, bool, bool]


def compared(job: Job) -> Found:
    """Here, since a process that was spawned does not import `__main__`."""
    return compare(*job)


def too_few(cases: Counter[str], times: int = 1) -> list[str]:
    return [
        f"{cases[name]:,} {name}, not {least * times:,}"
        for name, least in AT_LEAST.items()
        if cases[name] < least * times
    ]
