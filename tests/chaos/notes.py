"""What outlives a runner that is killed: a line for each write that the database acknowledged.

The notes go straight to the file, one line at a time, so they outlive the process by which they
were made. Nothing here but ports and values is imported, so an older version can run with it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Lease, Record
from ebbtide.ports import Store


class Acknowledged:
    """A store that notes what it was told is durable: `rev token entry-id…`, a line each."""

    def __init__(self, inner: Store, notes: Path) -> None:
        self._inner = inner
        self._notes = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        return self._inner.acquire(name, owner, ttl_seconds)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        return self._inner.renew(lease, ttl_seconds)

    def release(self, lease: Lease) -> None:
        self._inner.release(lease)

    def load(self) -> Record:
        return self._inner.load()

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        written = self._inner.write(record, guard, entries)
        token = guard.token if guard is not None and guard.name == "cluster" else 0
        self._note(written.rev, token, entries)
        return written

    def append(self, entries: Sequence[LogEntry]) -> None:
        self._inner.append(entries)
        self._note(0, 0, entries)

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

    def _note(self, rev: int, token: int, entries: Sequence[LogEntry]) -> None:
        ids = " ".join(entry.id for entry in entries)
        os.write(self._notes, f"{rev} {token} {ids}\n".encode())


class Silent:
    def notify(self, entry: LogEntry) -> None:
        """Alarms are in the log."""
