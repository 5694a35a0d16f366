"""A real etcd on loopback, in memory's speed: nothing it keeps has to outlive the test."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.control_plane import ensure_etcd
from tests.servers.dynamodb import free_port
from tests.servers.processes import running


@contextmanager
def etcd_server(folder: Path) -> Iterator[str]:
    """The address that clients use."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    data = folder / "etcd"
    command = [
        ensure_etcd(),
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=8589934592",
    ]

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"{client}/health", timeout=2) as answer:
                return b"true" in answer.read()
        except OSError:
            return False

    try:
        with running(command, folder / "etcd.log", ready):
            yield client
    finally:
        shutil.rmtree(data, ignore_errors=True)
