"""The store on SQLite and PostgreSQL, in statements that SQLAlchemy Core builds.

Every change is one conditional statement, or one transaction of a conditional statement and its log
entries. A nonce in each write tells our own write from somebody else's, so every call may be repeated
after a lost reply and is, a few times.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from sqlalchemy.engine import Engine

from ebbtide.adapters.stores.codec import operations
from ebbtide.adapters.stores.codec.operations import Item
from ebbtide.adapters.stores.codec.record import (
    KNOWN_KINDS,
    from_item,
    item_key,
    lock_key,
    log_rows,
    to_item,
    unpack,
)
from ebbtide.adapters.stores.guards import (
    Attempt,
    Outwaiting,
    Stored,
    StoredLease,
    action_ids,
    given_back,
    held_by_another,
    repeat,
    written,
)
from ebbtide.adapters.stores.sql.engine import (
    Driver,
    Lent,
    connected,
    is_sqlite,
    make_engine,
    parse,
    sqlite_path,
)
from ebbtide.adapters.stores.sql.migrate import migrate, probe, read_schema, refuse_unusable
from ebbtide.adapters.stores.sql.statements import LogRow, Statements, StateRow, action_column
from ebbtide.errors import Conflict
from ebbtide.model.log import Kinds, LogEntry, LogKind
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.ports import Clock

if TYPE_CHECKING:
    from ebbtide.adapters.stores.sql.policies import SqlPolicies

PRUNED_AT_ONCE = 1000
TAKES = 3
COLUMN_ATTRIBUTES = ("pk", "rev", "lockOwner", "lockUntilEpoch", "lockToken")
T = TypeVar("T")


class _Refused(Conflict):
    """The condition of a write did not hold; the transaction is rolled back."""


class SqlStore:
    def __init__(self, engine: Engine, clock: Clock, cluster: str = "cluster") -> None:
        self._clock = clock
        self._cluster = cluster
        self._key = item_key(cluster)
        self._on_sqlite = is_sqlite(engine.url)
        self._driver = Driver(engine)
        self._sql = Statements(engine.dialect)
        self._outwaiting = Outwaiting()

    @classmethod
    def open(cls, url: str, clock: Clock, cluster: str = "cluster") -> SqlStore:
        """A store that is fit to use, or `StoreUnusable`. A new SQLite file gets its tables here."""
        parsed = parse(url)
        if is_sqlite(parsed):
            probe(sqlite_path(parsed), may_create=True)
        engine = make_engine(parsed)
        try:
            with connected(engine) as connection:
                schema = read_schema(connection)
            if is_sqlite(parsed) and not schema.revision:
                migrate(engine)
            else:
                refuse_unusable(schema, parsed)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, clock, cluster)

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        values = self._values(key=self._pk(name), owner=owner, ttl=ttl_seconds)

        def take(lent: Lent) -> Lease:
            held, now = StoredLease(), 0
            for _ in range(TAKES):
                taken = lent.run(self._sql.take, values).fetchone()
                if taken is None:
                    held = _held(self._row(lent, self._pk(name)))
                    if not held.owner:
                        continue  # it was given back between our two looks
                    now = lent.run(self._sql.time, values).fetchone()[0]
                    # The clock of the database decides, not ours: they may differ by hours.
                    if not self._outwaiting.is_over(name, held, now):
                        break
                    as_seen = {"held_owner": held.owner, "held_token": held.token, "held_until": held.until}
                    taken = lent.run(self._sql.take_over, values | as_seen).fetchone()
                if taken is not None:
                    token, until = taken
                    return Lease(name, owner, token, until)
            raise held_by_another(name, held, now)

        return self._ask(take)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        values = self._values(key=self._pk(lease.name), ttl=ttl_seconds, **_signed(lease))

        def renew(lent: Lent) -> Lease:
            renewed = lent.run(self._sql.renew, values).fetchone()
            if renewed is None:
                raise _held(self._row(lent, self._pk(lease.name))).lost(lease)
            return replace(lease, until=renewed[0])

        return self._ask(renew)

    def release(self, lease: Lease) -> None:
        values = {"key": self._pk(lease.name), "until": given_back(lease), **_signed(lease)}
        self._ask(lambda lent: lent.run(self._sql.release, values))

    def load(self) -> Record:
        row = self._ask(lambda lent: self._row(lent, self._key))
        if row is None:
            return Record(cluster=self._cluster)
        item: Item = msgspec.json.decode(row.body) if row.body else {}
        item |= {"pk": self._key, "rev": row.rev, "lockToken": row.lock_token}
        item |= {"lockOwner": row.lock_owner, "lockUntilEpoch": row.lock_until_epoch}
        return from_item(item, self._cluster)

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        attempt = Attempt(record, guard, nonce=os.urandom(16).hex())
        values, rows = self._write_values(attempt), log_rows(self._cluster, entries)

        def write(reply_lost: bool) -> Record:
            try:
                self._write_once(attempt, values, rows)
            except _Refused:
                self._settle(replace(attempt, reply_lost=reply_lost))
            return written(record)

        return repeat(self._clock, write)

    def append(self, entries: Sequence[LogEntry]) -> None:
        rows = log_rows(self._cluster, entries)
        if not rows:
            return

        def append(lent: Lent) -> None:
            lent.run_each(self._sql.append, rows)

        repeat(self._clock, lambda _: self._driver.ask_as_one(append))

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        asked = self._sql.newest_entries(kinds, subject, before, brief)
        values = {"cluster": self._cluster, "subject": subject, "limit": limit, "before": before}
        rows = self._ask(lambda lent: lent.run(asked, values).fetchall())
        return [_entry(row) for row in map(LogRow._make, rows) if row.kind in KNOWN_KINDS]

    def find_entry(self, entry_id: str) -> LogEntry | None:
        values = {"cluster": self._cluster, "entry_id": entry_id}
        found = self._ask(lambda lent: lent.run(self._sql.find_entry, values).fetchone())
        row = found and LogRow._make(found)
        return _entry(row) if row and row.kind in KNOWN_KINDS else None

    def prune_log(self, before: int) -> int:
        """In small steps, so nobody waits long for the rows or, on SQLite, for the file."""
        values = {"cluster": self._cluster, "before": before, "limit": PRUNED_AT_ONCE}
        pruned = 0
        while True:
            gone: int = self._ask(lambda lent: lent.run(self._sql.prune_log, values).rowcount)
            pruned += gone
            if gone < PRUNED_AT_ONCE:
                break
        self._ask(lambda lent: lent.run(self._sql.prune_leases, self._values()))
        return pruned

    def policies(self) -> SqlPolicies:
        """The policies of the same cluster, over the same connections; closed with this store."""
        from ebbtide.adapters.stores.sql.policies import SqlPolicies

        return SqlPolicies(self._driver, self._clock, self._cluster)

    def close(self) -> None:
        self._driver.close()

    def _ask(self, question: Callable[[Lent], T]) -> T:
        return repeat(self._clock, lambda _: self._driver.ask(question))

    def _write_once(self, attempt: Attempt, values: Mapping[str, Any], rows: Sequence[Item]) -> None:
        guard = attempt.guard
        on_record = guard is not None and guard.name == CLUSTER_LEASE

        def write(lent: Lent) -> None:
            if lent.run(self._sql.write_guarded if on_record else self._sql.write, values).rowcount != 1:
                raise _Refused

        def write_all(lent: Lent) -> None:
            # Locked in the same transaction: a lease that ends meanwhile must not let the write through.
            if guard is not None and not on_record and not lent.run(self._sql.lock_guard, values).fetchall():
                raise _Refused
            if attempt.record.rev == 0:
                lent.run(self._sql.make_item, values)
            write(lent)
            if rows:
                lent.run_each(self._sql.append, rows)

        if on_record and not rows:
            self._driver.ask(write)
        else:
            self._driver.ask_as_one(write_all)

    def _settle(self, attempt: Attempt) -> None:
        """Say why a write was refused; return when it was not, but is our own of which the reply was lost."""
        guard = attempt.guard

        def look(lent: Lent) -> tuple[Stored, StoredLease, int]:
            row = self._row(lent, self._key)
            stored = Stored() if row is None else Stored(row.rev, _open_ids(row), row.nonce)
            held = StoredLease() if guard is None else _held(self._row(lent, self._pk(guard.name)))
            (now,) = lent.run(self._sql.time, self._values()).fetchone()
            return stored, held, now

        attempt.settle(*self._ask(look))

    def _pk(self, lease_name: str) -> str:
        return self._key if lease_name == CLUSTER_LEASE else lock_key(self._cluster, lease_name)

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "now": int(self._clock.now())} if self._on_sqlite else values

    def _write_values(self, attempt: Attempt) -> dict[str, Any]:
        item = to_item(attempt.record)
        for name in COLUMN_ATTRIBUTES:
            del item[name]
        values = self._values(
            key=self._key,
            expected_rev=attempt.record.rev,
            **action_column(*action_ids(attempt.record)),
            new_nonce=attempt.nonce,
            new_body=msgspec.json.encode(item).decode(),
        )
        if attempt.guard is not None:
            values |= {"lock_key": self._pk(attempt.guard.name), **_signed(attempt.guard)}
        return values

    def _row(self, lent: Lent, key: str) -> StateRow | None:
        row = lent.run(self._sql.load, {"key": key}).fetchone()
        return None if row is None else StateRow._make(row)


def _open_ids(row: StateRow) -> tuple[str, str]:
    """By lane, which the column alone does not tell."""
    return operations.action_ids(msgspec.json.decode(row.body) if row.body else {})


def _signed(lease: Lease) -> dict[str, Any]:
    return {"owner": lease.owner, "token": lease.token}


def _held(row: StateRow | None) -> StoredLease:
    return StoredLease() if row is None else StoredLease(row.lock_owner, row.lock_until_epoch, row.lock_token)


def _entry(row: LogRow) -> LogEntry:
    data = unpack(row.data, row.id) if row.data is not None else {}
    return LogEntry(row.id, row.at, LogKind(row.kind), row.says, row.subject, data)
