"""Says in the last lines of a run what of the real control plane was not run, and why."""

from __future__ import annotations

import pytest

from tests.servers.shared_kube import NOT_RUN, SharedKube, shared_kube


@pytest.fixture
def kube() -> SharedKube:
    found = shared_kube()
    found.clear()
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in sorted(NOT_RUN):
        terminalreporter.write_line(f"NOT RUN: {reason}", red=True)
