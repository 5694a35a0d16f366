"""Counts what was tried, and says so at the end of the run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.oracle.answers import table

if TYPE_CHECKING:
    from tests.explorer.search import Explored
    from tests.oracle.comparisons import Found
    from tests.swarm.run import Outcome

CRASH_POINTS: set[tuple[str, str, str]] = set()
"""Story, call and strike."""
EXPLORED: dict[str, Explored] = {}
"""The result of exploring each scene."""
SWARM: list[Outcome] = []
ORACLE: dict[str, Found] = {}
"""The result of each comparison with the oracle."""


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CRASH_POINTS:
        stories = len({story for story, _, _ in CRASH_POINTS})
        calls = len({(story, call) for story, call, _ in CRASH_POINTS})
        strikes = sorted({strike for _, _, strike in CRASH_POINTS})
        terminalreporter.write_line(
            f"crash points: {calls} distinct calls of {stories} stories, struck in {len(CRASH_POINTS)} ways"
        )
        share = 100 * len(CRASH_POINTS) // (calls * len(strikes))
        terminalreporter.write_line(f"{share} % of effect points x {{{', '.join(strikes)}}} x 2 runners")
    if EXPLORED:
        states = sum(explored.states for explored in EXPLORED.values())
        found = sum(len(explored.findings) for explored in EXPLORED.values())
        terminalreporter.write_line(
            f"{states:,} states explored in {len(EXPLORED)} scenes, {found} violations"
        )
    if SWARM:
        kinds = len({fault for outcome in SWARM for fault in outcome.faults})
        terminalreporter.write_line(f"{len(SWARM)} swarm seeds with {kinds} kinds of fault")
    if ORACLE:
        _tell_oracle(terminalreporter)


def _tell_oracle(terminalreporter: pytest.TerminalReporter) -> None:
    drawn = sum((found.drawn for found in ORACLE.values()), Counter[tuple[str, str]]())
    cases = sum((found.report.cases for found in ORACLE.values()), Counter[str]())
    for line in table(drawn):
        terminalreporter.write_line(line)
    differences = sum(len(found.report.differences) for found in ORACLE.values())
    terminalreporter.write_line(
        f"oracle: {cases['decisions']:,} decisions, {cases['drains']:,} drains, "
        f"{cases['schedule instants on DST days']:,} schedule instants on DST days, {differences} differences"
    )
