"""In CI, Hypothesis draws the same examples every time: a run there says whether this change is good. On a
developer's machine it draws new ones, to find what nobody thought of.

Tests on a real control plane come last, since CI may still be building one while the others run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ebbtide import hush
from tests.servers.control_plane import why_late

ON_A_CONTROL_PLANE = (
    "tests/integration/kube/",
    "tests/contract/test_cluster_contract.py",
    "tests/e2e/test_cli_kubernetes.py",
    "tests/integration/aws/test_whole_path.py",
)
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.startswith(ON_A_CONTROL_PLANE))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Outside of the time limit of a test: it may take minutes, once."""
    if item.nodeid.startswith(ON_A_CONTROL_PLANE):
        why_late()
    yield
    hush._known.clear()  # the secrets of one test are ordinary words in another
