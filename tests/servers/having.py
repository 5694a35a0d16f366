"""What the tests need of this machine: fetched, built or missed before the first of them runs.

Where `EBBTIDE_ALL` is set, as CI sets it, nothing is left out: what cannot be had fails the run. Elsewhere a
test whose server cannot be had is skipped, and the run says so in its first lines, with how to get it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from tests.servers.control_plane import BUILDER, Unavailable, all_built, cache_folder, ensure_debian

ALL = "EBBTIDE_ALL"
DEBIAN = (
    ("etcd", "etcd-server"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("chromium", "chromium"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
)


def leave_out(why: str) -> NoReturn:
    """Skips the test; fails it where nothing may be left out."""
    if os.environ.get(ALL):
        pytest.fail(f"this must be run here, and cannot: {why}")
    pytest.skip(f"not run: {why}")


def missing() -> list[str]:
    """What cannot be had, and how to get it. Debian's packages are installed where that is possible."""
    found = []
    for command, package in DEBIAN:
        try:
            ensure_debian(command, package)
        except Unavailable as why:
            found.append(f"{why} (as root, this is done by itself)")
    if not all_built() and shutil.which("go") is None:
        found.append(
            "there is no Kubernetes control plane or no Helm, and no Go to build them: install Go and run "
            "make control-plane, or set KUBEBUILDER_ASSETS to a folder with its binaries"
        )
    return found


@contextmanager
def control_plane_being_built() -> Iterator[str]:
    """Where there is none yet, it is built next to the tests, with the time they leave over. What is said of
    it; empty where there is nothing to build."""
    if all_built() or shutil.which("go") is None:
        yield ""
        return
    log = cache_folder() / "control-plane.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        building = subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "tests.servers.control_plane"],
            stdout=out,
            stderr=out,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
    os.environ[BUILDER] = str(building.pid)
    try:
        yield (
            "The Kubernetes control plane and Helm are built once, next to the other tests (15 to 25 minutes "
            f"on 2 cores). Tests that need it come last and wait for it; what the build says is in {log}."
        )
    finally:
        del os.environ[BUILDER]
        with suppress(ProcessLookupError):
            os.killpg(building.pid, signal.SIGTERM)
        building.wait()
