"""Counts what was tried, and says so at the end of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.explorer.search import Explored
    from tests.swarm.run import Outcome

CRASH_POINTS: set[tuple[str, str, str]] = set()
"""Story, call and strike."""
EXPLORED: dict[str, Explored] = {}
"""What came of exploring each scene."""
SWARM: list[Outcome] = []


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
