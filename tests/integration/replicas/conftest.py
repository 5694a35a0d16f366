"""Says at the end of the run how long a takeover took."""

from __future__ import annotations

import pytest

TAKEOVERS: list[str] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for takeover in TAKEOVERS:
        terminalreporter.write_line(takeover)
