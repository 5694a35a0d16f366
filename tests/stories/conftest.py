"""Says at the end of a run how many stories were played, and how many hold."""

from __future__ import annotations

import pytest

PLAYED: dict[str, bool] = {}
"""Whether each story holds, by the name of its file."""


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if PLAYED:
        held = sum(PLAYED.values())
        terminalreporter.write_line(f"stories: {len(PLAYED)} played, {held} hold")
