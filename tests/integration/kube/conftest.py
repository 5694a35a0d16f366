"""Says in the last lines of a run what of the real control plane was not run, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.kube.gatehouse import MEASURED
from tests.servers.processes import eventually
from tests.servers.shared_kube import NOT_RUN, RBAC, SharedKube, shared_kube

RIGHTS = RBAC.with_name("workload-scaling.yaml")


@pytest.fixture
def kube() -> SharedKube:
    found = shared_kube()
    found.clear()
    return found


@pytest.fixture(scope="module")
def rights() -> Iterator[None]:
    """Those for scaling workloads, next to those of the service account."""
    server = shared_kube().server
    assert not server.kubectl("apply", "-f", str(RIGHTS)).returncode
    question = "list horizontalpodautoscalers.autoscaling -n default"
    eventually(lambda: server.can_i("ebbtide:ebbtide", question), 30, "the rights")
    yield
    server.kubectl("delete", "-f", str(RIGHTS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in sorted(NOT_RUN):
        terminalreporter.write_line(f"NOT RUN: {reason}", red=True)
    for line in MEASURED:
        terminalreporter.write_line(line)
