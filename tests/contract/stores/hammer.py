"""One of several processes that hammer a store: takes the lease, moves an operation on, sometimes stalls.

It reports only what the store acknowledged. `test_processes.py` then asks the store whether it is there.
"""

from __future__ import annotations

import random
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import cast

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.errors import Conflict, LeaseLost, Retryable
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import ScaleDown
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.ports import PolicyStore, Store
from tests.builders import lanes
from tests.contract.stores.lab import policies_of

PROCESSES = 8
TTL_SECONDS = 1
STALL_SECONDS = 2.2
HAMMER_SECONDS = 5
HAMMER_AT_MOST_SECONDS = 60
"""On a busy machine each continues until it has written something."""
STALLERS = 3


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class MemoryServer(BaseManager):
    """Serves one store in memory to several processes."""


_shared = MemoryDatabase()


def _open_shared(cluster: str) -> MemoryStore:
    return MemoryStore(SystemClock(), cluster, _shared)


MemoryServer.register("open", _open_shared)
MemoryServer.register("open_policies", lambda cluster: _open_shared(cluster).policies())


def open_place(place: str, cluster: str) -> Store:
    if place.startswith("memory:"):
        manager = MemoryServer(place.removeprefix("memory:"), b"contract")
        manager.connect()
        return cast(Store, manager.open(cluster))  # type: ignore[attr-defined]
    if place.startswith("dynamodb:"):
        from ebbtide.adapters.stores.dynamodb.store import DynamoStore

        return DynamoStore.open(place, SystemClock(), cluster)
    from ebbtide.adapters.stores.sql.store import SqlStore

    return SqlStore.open(place, SystemClock(), cluster)


def open_both(place: str, cluster: str) -> tuple[Store, PolicyStore]:
    store = open_place(place, cluster)
    if not place.startswith("memory:"):
        return store, policies_of(store)
    manager = MemoryServer(place.removeprefix("memory:"), b"contract")
    manager.connect()
    return store, cast(PolicyStore, manager.open_policies(cluster))  # type: ignore[attr-defined]


@dataclass
class Acknowledged:
    """What the store said yes to."""

    owner: str
    tokens: list[int] = field(default_factory=list)
    writes: list[tuple[int, int, str]] = field(default_factory=list)
    """rev, token and id of the entry written with it."""
    appended: list[str] = field(default_factory=list)
    refused: int = 0


def hammer(place: str, cluster: str, number: int, arrivals: Path) -> Acknowledged:
    store = open_place(place, cluster)
    chance = random.Random(number)
    done = Acknowledged(f"p{number}")
    stalls = 1 if number < STALLERS else 0
    start = start_together(arrivals, number)
    while time.monotonic() < start + (HAMMER_SECONDS if done.writes else HAMMER_AT_MOST_SECONDS):
        try:
            lease = store.acquire(CLUSTER_LEASE, done.owner, TTL_SECONDS)
        except (LeaseLost, Retryable):
            time.sleep(chance.uniform(0.002, 0.02))
            continue
        done.tokens.append(lease.token)
        try:
            act(store, lease, done, stall=stalls > 0)
        except (Conflict, Retryable):
            done.refused += 1
        stalls = 0
        with suppress(Retryable):
            store.release(lease)
        time.sleep(chance.uniform(0.01, 0.03))
    store.close()
    return done


def start_together(arrivals: Path, number: int) -> float:
    arrived(arrivals, number, PROCESSES)
    return time.monotonic()


def arrived(arrivals: Path, number: int, awaited: int) -> None:
    """Returns when all have come this far."""
    (arrivals / str(number)).touch()
    while len(list(arrivals.iterdir())) < awaited:
        time.sleep(0.02)


def act(store: Store, lease: Lease, done: Acknowledged, stall: bool) -> None:
    """Begin or take up the operation, move it on, close it: three writes, each acknowledged or not."""
    record = store.load()
    if stall:
        time.sleep(STALL_SECONDS)
    for _ in range(3):
        record = _write(store, _moved_on(record, lease), lease, done)
    entry = _entry(done, {"appended": True})
    store.append([entry])
    done.appended.append(entry.id)


def _moved_on(record: Record, lease: Lease) -> Record:
    match record.operation:
        case ScaleDown(abort_reason="") as started:
            return replace(record, **lanes(replace(started, abort_reason=lease.owner)))
        case ScaleDown():
            return replace(record, **lanes(None), removal_failures=record.removal_failures + 1)
        case _:
            return replace(record, **lanes(ScaleDown(uuid.uuid4().hex, started_at=1)))


def _write(store: Store, record: Record, lease: Lease, done: Acknowledged) -> Record:
    entry = _entry(done, {"rev": record.rev + 1, "token": lease.token, "owner": lease.owner})
    written = store.write(record, lease, [entry])
    done.writes.append((written.rev, lease.token, entry.id))
    return written


def _entry(done: Acknowledged, data: dict[str, object]) -> LogEntry:
    return LogEntry(uuid.uuid4().hex, int(time.time()), LogKind.EFFECT, "hammered", done.owner, data)
