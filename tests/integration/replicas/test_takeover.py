"""Two replicas on one PostgreSQL: the active one is killed in the middle of a drain, the other continues."""

from __future__ import annotations

import multiprocessing
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.engine.loop import run_loop
from ebbtide.engine.ports import Ports
from ebbtide.model.events import OperationClosed
from ebbtide.model.operation import RemovalState, ScaleDown
from ebbtide.model.record import Record
from ebbtide.narrate import facts_in
from ebbtide.ports import Store
from tests.chaos import host
from tests.chaos.notes import Silent
from tests.chaos.setting import SETTINGS
from tests.chaos.stores import open_store
from tests.integration.replicas.conftest import TAKEOVERS
from tests.servers.postgres import postgres_server

LEASE_SECONDS, TICK_SECONDS = 6, 1.0
STEADY = replace(SETTINGS, daemon_lock_ttl_seconds=LEASE_SECONDS, pending_up_seconds=600, settle_seconds=3)
"""A drain of this setting lasts a few seconds, since a drained node must settle."""


def replica(url: str, address: str, authkey: bytes, owner: str) -> None:
    """As `ebbtide run` does it, with the world in another process."""
    world: Any = host.knock(address, authkey)
    opened = Ports(open_store(url), world, world, world, world, Silent(), SystemClock(), TimeOrderedIds())
    run_loop(opened, STEADY, owner, TICK_SECONDS, threading.Event(), lambda report: None)


@pytest.fixture
def url() -> Iterator[str]:
    with postgres_server() as server:
        server.run("CREATE DATABASE replicas")
        upgrade(server.url("replicas"))
        yield server.url("replicas")


def wait_for(store: Store, reached: Callable[[Record], bool], seconds: float = 60) -> Record:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record = store.load()
        if reached(record):
            return record
        time.sleep(0.05)
    raise AssertionError(f"not reached within {seconds} s: {store.load()}")


def drains(record: Record) -> bool:
    operation = record.operation
    return isinstance(operation, ScaleDown) and any(
        removal.state in (RemovalState.DRAINING, RemovalState.DRAINED) for removal in operation.removals
    )


def test_the_standby_takes_over_an_unfinished_drain_where_it_stands(url: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    address, authkey = str(tmp_path / "world"), secrets.token_bytes(16)
    processes = {"world": context.Process(target=host.serve, args=(url, 7, address, authkey), daemon=True)}
    processes["world"].start()
    while not Path(address).exists():
        time.sleep(0.05)
    for owner in ("one", "two"):
        processes[owner] = context.Process(target=replica, args=(url, address, authkey, owner), daemon=True)
        processes[owner].start()
    store = open_store(url)
    try:
        host.knock(address, authkey).settle()
        caught = wait_for(store, drains)
        assert caught.operation is not None
        processes[caught.lock_owner].kill()
        killed_at = time.monotonic()
        taken = wait_for(store, lambda record: record.lock_owner not in ("", caught.lock_owner))
        TAKEOVERS.append(
            f"the standby continued {time.monotonic() - killed_at:.1f} s after the kill "
            f"(lease {LEASE_SECONDS} s, a tick every {TICK_SECONDS:g} s)"
        )
        assert taken.lock_token > caught.lock_token
        closed = wait_for(store, lambda record: record.operation is None)
        (ended,) = facts_in(store.read_log(subject=caught.operation.id), OperationClosed)
        assert ended.succeeded, (ended, closed)
    finally:
        for process in processes.values():
            process.kill()
            process.join()
        store.close()
