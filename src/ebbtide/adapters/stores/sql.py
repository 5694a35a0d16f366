"""The store on SQLite and PostgreSQL, through SQLAlchemy Core.

Every change is one conditional statement, or one transaction of a conditional statement and its log
entries. A nonce in each write tells our own write from somebody else's, so every call may be repeated
after a lost reply and is, a few times.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult, Engine, Row

from ebbtide.adapters.stores.entries import KNOWN_KINDS, distinct, pack, unpack
from ebbtide.adapters.stores.guards import Attempt, Held, Stored, action_id, held_by_another
from ebbtide.adapters.stores.item import Item, from_item, item_key, lock_key, to_item
from ebbtide.adapters.stores.migrate import migrate, read_schema, refuse_unusable
from ebbtide.adapters.stores.repeat import repeat
from ebbtide.adapters.stores.schema import log
from ebbtide.adapters.stores.sql_engine import (
    connected,
    is_sqlite,
    make_engine,
    parse,
    sqlite_path,
    transaction,
)
from ebbtide.adapters.stores.sql_statements import Statements, newest_entries
from ebbtide.adapters.stores.sqlite_probe import probe
from ebbtide.errors import Conflict
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.ports import Clock

_COLUMN_ATTRIBUTES = ("pk", "rev", "lockOwner", "lockUntilEpoch", "lockToken")
T = TypeVar("T")


class _Refused(Conflict):
    """The condition of a write did not hold; the transaction is rolled back."""


class SqlStore:
    def __init__(self, engine: Engine, clock: Clock, cluster: str = "cluster") -> None:
        self._engine = engine
        self._clock = clock
        self._cluster = cluster
        self._key = item_key(cluster)
        self._on_sqlite = is_sqlite(engine.url)
        self._sql = Statements(engine.dialect.name)

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

        def take(connection: Connection) -> Lease:
            row = connection.execute(self._sql.take, values).first()
            if row is None:
                raise held_by_another(name, _held(self._row(connection, self._pk(name))))
            return Lease(name, owner, row.lock_token, row.lock_until_epoch)

        return self._ask(take)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        values = self._values(key=self._pk(lease.name), ttl=ttl_seconds, **_signed(lease))

        def renew(connection: Connection) -> Lease:
            until = connection.execute(self._sql.renew, values).scalar()
            if until is None:
                raise _held(self._row(connection, self._pk(lease.name))).lost(lease)
            return replace(lease, until=until)

        return self._ask(renew)

    def release(self, lease: Lease) -> None:
        values = {"key": self._pk(lease.name), **_signed(lease)}
        self._ask(lambda connection: connection.execute(self._sql.release, values))

    def load(self) -> Record:
        row = self._ask(lambda connection: self._row(connection, self._key))
        if row is None:
            return Record(cluster=self._cluster)
        item: Item = dict(row.body or {})
        item |= {"pk": row.pk, "rev": row.rev, "lockToken": row.lock_token}
        item |= {"lockOwner": row.lock_owner, "lockUntilEpoch": row.lock_until_epoch}
        return from_item(item, self._cluster)

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        attempt = Attempt(record, guard, nonce=uuid.uuid4().hex)
        values, rows = self._write_values(attempt), self._log_rows(entries)

        def write(reply_lost: bool) -> Record:
            try:
                self._write_once(attempt, values, rows)
            except _Refused:
                self._settle(replace(attempt, reply_lost=reply_lost))
            return replace(record, rev=record.rev + 1)

        return repeat(self._clock, write)

    def append(self, entries: Sequence[LogEntry]) -> None:
        rows = self._log_rows(entries)
        if not rows:
            return

        def append(_: bool) -> None:
            with transaction(self._engine) as connection:
                connection.execute(self._sql.append, rows)

        repeat(self._clock, append)

    def read_log(
        self, kinds: Collection[LogKind] = (), subject: str = "", limit: int = 100
    ) -> Sequence[LogEntry]:
        asked = newest_entries(self._cluster, kinds, subject, limit)
        rows = self._ask(lambda connection: connection.execute(asked).all())
        return [_entry(row) for row in rows if row.kind in KNOWN_KINDS]

    def find_entry(self, entry_id: str) -> LogEntry | None:
        asked = sa.select(log).where(log.c.cluster == self._cluster, log.c.id == entry_id)
        row = self._ask(lambda connection: connection.execute(asked).first())
        return None if row is None or row.kind not in KNOWN_KINDS else _entry(row)

    def close(self) -> None:
        self._engine.dispose()

    def _ask(self, question: Callable[[Connection], T]) -> T:
        def ask(_: bool) -> T:
            with connected(self._engine) as connection:
                return question(connection)

        return repeat(self._clock, ask)

    def _write_once(self, attempt: Attempt, values: Mapping[str, Any], rows: Sequence[Item]) -> None:
        guard = attempt.guard
        on_record = guard is not None and guard.name == CLUSTER_LEASE
        statement = self._sql.write_guarded if on_record else self._sql.write
        if on_record and not rows:
            with connected(self._engine) as connection:
                _demand(connection.execute(statement, values))
            return
        with transaction(self._engine) as connection:
            if (
                guard is not None
                and not on_record
                and not connection.execute(self._sql.lock_guard, values).all()
            ):
                raise _Refused
            if attempt.record.rev == 0:
                connection.execute(self._sql.make_item, values)
            _demand(connection.execute(statement, values))
            if rows:
                connection.execute(self._sql.append, rows)

    def _settle(self, attempt: Attempt) -> None:
        """Say why a write was refused; return when it was not, but is our own of which the reply was lost."""
        guard = attempt.guard

        def look(connection: Connection) -> tuple[Stored, Held, int]:
            row = self._row(connection, self._key)
            stored = Stored() if row is None else Stored(row.rev, row.action_id, row.nonce)
            held = Held() if guard is None else _held(self._row(connection, self._pk(guard.name)))
            return stored, held, connection.execute(self._sql.time, self._values()).scalar_one()

        attempt.settle(*self._ask(look))

    def _pk(self, lease_name: str) -> str:
        return self._key if lease_name == CLUSTER_LEASE else lock_key(self._cluster, lease_name)

    def _values(self, **values: Any) -> dict[str, Any]:
        return {**values, "now": int(self._clock.now())} if self._on_sqlite else values

    def _write_values(self, attempt: Attempt) -> dict[str, Any]:
        item = to_item(attempt.record)
        for name in _COLUMN_ATTRIBUTES:
            del item[name]
        values = self._values(
            key=self._key,
            expected_rev=attempt.record.rev,
            under_way=action_id(attempt.record),
            new_nonce=attempt.nonce,
            new_body=item,
        )
        if attempt.guard is not None:
            values |= {"lock_key": self._pk(attempt.guard.name), **_signed(attempt.guard)}
        return values

    def _log_rows(self, entries: Sequence[LogEntry]) -> list[Item]:
        return [
            {
                "cluster": self._cluster,
                "id": entry.id,
                "at": entry.at,
                "kind": str(entry.kind),
                "subject": entry.subject,
                "says": entry.says,
                "data": pack(entry.data),
            }
            for entry in distinct(entries)
        ]

    def _row(self, connection: Connection, key: str) -> Row[Any] | None:
        return connection.execute(self._sql.load, {"key": key}).first()


def _signed(lease: Lease) -> dict[str, Any]:
    return {"owner": lease.owner, "token": lease.token}


def _held(row: Row[Any] | None) -> Held:
    return Held() if row is None else Held(row.lock_owner, row.lock_until_epoch, row.lock_token)


def _demand(result: CursorResult[Any]) -> None:
    if result.rowcount != 1:
        raise _Refused


def _entry(row: Row[Any]) -> LogEntry:
    data = unpack(bytes(row.data), row.id)
    return LogEntry(row.id, row.at, LogKind(row.kind), row.says, row.subject, data)
