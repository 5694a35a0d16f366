"""In CI, Hypothesis draws the same examples every time: a run there says whether this change is good. On a
developer's machine it draws new ones, to find what nobody thought of.

Tests on a real control plane come last, since one may still be being built while the others run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from ebbtide import redact
from tests.servers.control_plane import await_build
from tests.servers.having import ALL

ON_A_CONTROL_PLANE = (
    "tests/integration/kube/",
    "tests/contract/test_cluster_contract.py",
    "tests/e2e/test_cli_kubernetes.py",
    "tests/integration/aws/test_whole_path.py",
)
# How long an example takes says how busy the machine is, and nothing of the code.
ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("busy", ANY_TIME)
settings.register_profile("ci", ANY_TIME, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") or os.environ.get(ALL) else "busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.startswith(ON_A_CONTROL_PLANE))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Outside of the time limit of a test: it may take minutes, once."""
    if item.nodeid.startswith(ON_A_CONTROL_PLANE):
        await_build()
    yield
    redact._known.clear()  # the secrets of one test are ordinary words in another
