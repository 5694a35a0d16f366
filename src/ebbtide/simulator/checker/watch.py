"""A store that tells the checker of every lease and every write that took effect."""

from __future__ import annotations

from ebbtide.model.log import Entries
from ebbtide.model.record import Lease, Record
from ebbtide.ports import Store
from ebbtide.simulator.checker.checker import Checker
from ebbtide.simulator.passed_store import PassedStore


class WatchedStore(PassedStore):
    """Put it inside the faulty ports: what it is asked to do is what really happened."""

    def __init__(self, inner: Store, checker: Checker) -> None:
        super().__init__(inner)
        self._checker = checker

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        lease = self._inner.acquire(name, owner, ttl_seconds)
        self._checker.leased(lease)
        return lease

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        renewed = self._inner.renew(lease, ttl_seconds)
        self._checker.leased(renewed)
        return renewed

    def write(self, record: Record, guard: Lease | None, entries: Entries = ()) -> Record:
        written = self._inner.write(record, guard, entries)
        self._checker.wrote(written, guard)
        return written
