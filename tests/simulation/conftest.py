"""Counts the distinct crash points that were tried, and says so at the end of the run."""

from __future__ import annotations

import pytest

CRASH_POINTS: set[tuple[str, str, str]] = set()
"""Story, call and strike."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if CRASH_POINTS:
        stories = len({story for story, _, _ in CRASH_POINTS})
        calls = len({(story, call) for story, call, _ in CRASH_POINTS})
        terminalreporter.write_line(
            f"crash points: {calls} distinct calls of {stories} stories, struck in {len(CRASH_POINTS)} ways"
        )
