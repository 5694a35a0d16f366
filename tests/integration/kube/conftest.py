"""Says in the last lines of a run what of the real control plane was not run, and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.kube.gatehouse import MEASURED
from tests.servers.processes import eventually
from tests.servers.shared_kube import NOT_RUN, RBAC, SharedKube, shared_kube

RIGHTS = RBAC.with_name("workload-scaling.yaml")
GATE = RBAC.with_name("gate.yaml")


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


@pytest.fixture(scope="module")
def gate_rights() -> Iterator[Path]:
    """The kubeconfig of the gate's own service account, with the rights of the manifest and no others."""
    server = shared_kube().server
    applied = server.kubectl("apply", "-f", str(GATE))
    assert not applied.returncode, applied.stderr
    # The gate of this test runs here, and not as a pod.
    server.kubectl("delete", "deployment", "ebbtide-gate", "--namespace=ebbtide")
    for account in ("ebbtide", "ebbtide-gate"):
        question = "delete endpointslices.discovery.k8s.io -n default"
        eventually(lambda a=account, q=question: server.can_i(f"ebbtide:{a}", q), 30, "the rights")  # type: ignore[misc]
    made = server.kubectl("create", "token", "ebbtide-gate", "--namespace=ebbtide", "--duration=24h")
    yield server.kubeconfig("ebbtide-gate", token=made.stdout.strip())
    server.kubectl("delete", "-f", str(GATE))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reason in sorted(NOT_RUN):
        terminalreporter.write_line(f"NOT RUN: {reason}", red=True)
    for line in MEASURED:
        terminalreporter.write_line(line)
