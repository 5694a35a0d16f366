"""A store that tells the checker of every lease and every write that took effect."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Lease, Record
from ebbtide.ports import Store
from ebbtide.simulator.checker.checker import Checker


class WatchedStore:
    """Put it inside the faulty ports: what it is asked to do is what really happened."""

    def __init__(self, inner: Store, checker: Checker) -> None:
        self._inner = inner
        self._checker = checker

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        lease = self._inner.acquire(name, owner, ttl_seconds)
        self._checker.leased(lease)
        return lease

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        renewed = self._inner.renew(lease, ttl_seconds)
        self._checker.leased(renewed)
        return renewed

    def release(self, lease: Lease) -> None:
        self._inner.release(lease)

    def load(self) -> Record:
        return self._inner.load()

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        written = self._inner.write(record, guard, entries)
        self._checker.wrote(written, guard)
        return written

    def append(self, entries: Sequence[LogEntry]) -> None:
        self._inner.append(entries)

    def read_log(
        self,
        kinds: Collection[LogKind] = (),
        subject: str = "",
        limit: int = 100,
        before: str = "",
        brief: bool = False,
    ) -> Sequence[LogEntry]:
        return self._inner.read_log(kinds, subject, limit, before, brief)

    def find_entry(self, entry_id: str) -> LogEntry | None:
        return self._inner.find_entry(entry_id)

    def prune_log(self, before: int) -> int:
        return self._inner.prune_log(before)

    def close(self) -> None:
        self._inner.close()
