"""A store that passes every call on: what watches or disturbs a store overrides the calls it is about."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.model.log import Entries, Kinds, LogEntry
from ebbtide.model.record import Lease, Record
from ebbtide.ports import Store


class PassedStore:
    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        return self._inner.acquire(name, owner, ttl_seconds)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        return self._inner.renew(lease, ttl_seconds)

    def release(self, lease: Lease) -> None:
        self._inner.release(lease)

    def load(self) -> Record:
        return self._inner.load()

    def write(self, record: Record, guard: Lease | None, entries: Entries = ()) -> Record:
        return self._inner.write(record, guard, entries)

    def append(self, entries: Entries) -> None:
        self._inner.append(entries)

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        return self._inner.read_log(kinds, subject, limit, before, brief)

    def find_entry(self, entry_id: str) -> LogEntry | None:
        return self._inner.find_entry(entry_id)

    def prune_log(self, before: int) -> int:
        return self._inner.prune_log(before)

    def close(self) -> None:
        self._inner.close()
