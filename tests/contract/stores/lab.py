"""What a store is plugged into the contract with: how to open it, let time pass, and lose a reply.

Time stands still until a test moves it. On PostgreSQL, where the server's time counts, a function in a
schema of the search path stands in for `clock_timestamp()`; the store itself is the one that ships.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from ebbtide.adapters.stores.codec.record import item_key
from ebbtide.adapters.stores.dynamodb.record import to_wire
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import make_client, parse_tables
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.adapters.stores.sql import schema
from ebbtide.adapters.stores.sql.engine import make_engine, parse
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.ports import PolicyStore, Store
from tests.servers.dynamodb import DynamoServer
from tests.servers.lossy import LossyForwarder
from tests.servers.postgres import PostgresServer

START = 4_000_000_000
"""Far ahead: every few seconds DynamoDB Local removes what has expired by the clock of the machine."""
KINDS = ("memory", "sqlite", "postgresql", "dynamodb")


@dataclass
class StillClock:
    time: float = float(START)

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        """Waiting between attempts costs a test nothing."""


def policies_of(store: Store) -> PolicyStore:
    assert isinstance(store, MemoryStore | SqlStore | DynamoStore)
    return store.policies()


class StoreLab(Protocol):
    clock: StillClock

    def open(self, cluster: str) -> Store: ...

    def open_lossy(self, cluster: str) -> Store:
        """A store that may lose replies. Open it, and let it connect, before replies are lost."""

    def lose_reply_to(self, *calls: str) -> None:
        """Lose the reply to the next of these calls, after it was carried out, then to the next."""

    @property
    def still_to_lose(self) -> int: ...

    def advance(self, seconds: int) -> None: ...

    def meddle(self, cluster: str, owner: str | None = None, **attributes: Any) -> None:
        """What another tool does to a record: a lock without an end, and attributes."""


@dataclass
class MemoryLab:
    clock: StillClock = field(default_factory=StillClock)
    database: MemoryDatabase = field(default_factory=MemoryDatabase)

    def open(self, cluster: str) -> Store:
        return MemoryStore(self.clock, cluster, self.database)

    def open_lossy(self, cluster: str) -> Store:
        return self.open(cluster)

    def lose_reply_to(self, *calls: str) -> None:
        """A call inside one process cannot lose its reply."""

    @property
    def still_to_lose(self) -> int:
        return 0

    def advance(self, seconds: int) -> None:
        self.clock.time += seconds

    def meddle(self, cluster: str, owner: str | None = None, **attributes: Any) -> None:
        item = self.database.items[item_key(cluster)]
        item.update(attributes)
        if owner is not None:
            item["lockOwner"] = owner
            del item["lockUntilEpoch"]


def _meddle_sql(url: str, cluster: str, owner: str | None, attributes: dict[str, Any]) -> None:
    engine = make_engine(parse(url))
    key = schema.state.c.pk == item_key(cluster)
    with engine.begin() as connection:
        body = connection.execute(sa.select(schema.state.c.body).where(key)).scalar_one()
        values: dict[str, Any] = {"body": {**body, **attributes}}
        if owner is not None:
            values |= {"lock_owner": owner, "lock_until_epoch": 0}
        connection.execute(sa.update(schema.state).where(key).values(**values))
    engine.dispose()


SQL_OF_CALL = {
    "acquire": "INSERT INTO ebbtide_state",
    "renew": "SET lock_until_epoch",
    "release": "SET lock_owner",
    "write": "UPDATE ebbtide_state SET rev",
    "write with entries": "COMMIT",
    "its repetition": "UPDATE ebbtide_state SET rev",
    "append": "COMMIT",
    "policy transaction": "COMMIT",
    "its repeated creation": "INSERT INTO scaling_policies",
    "its repeated renaming": "UPDATE scaling_policies",
    "its repeated state": "UPDATE scaling_idle_state",
    "write state": "UPDATE scaling_idle_state",
    "write states": "COMMIT",
    "keep once": "INSERT INTO scaling_once",
}


class _LossyCursor(sqlite3.Cursor):
    def execute(self, sql: str, parameters: Any = ()) -> _LossyCursor:
        super().execute(sql, parameters)
        if LOSSES and LOSSES[0] in sql:
            del LOSSES[0]
            self.fetchall()
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR"
            raise error
        return self


class _LossyConnection(sqlite3.Connection):
    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_LossyCursor)


LOSSES: list[str] = []


@dataclass
class SqliteLab:
    path: Path
    clock: StillClock = field(default_factory=StillClock)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def open(self, cluster: str) -> Store:
        return SqlStore.open(self.url, self.clock, cluster)

    def open_lossy(self, cluster: str) -> Store:
        self.open(cluster).close()
        engine = make_engine(parse(self.url))

        @sa.event.listens_for(engine, "do_connect")
        def _(*_: object) -> sqlite3.Connection:
            return sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False, factory=_LossyConnection
            )

        return SqlStore(engine, self.clock, cluster)

    def lose_reply_to(self, *calls: str) -> None:
        LOSSES[:] = [SQL_OF_CALL[call] for call in calls]

    @property
    def still_to_lose(self) -> int:
        return len(LOSSES)

    def advance(self, seconds: int) -> None:
        self.clock.time += seconds

    def meddle(self, cluster: str, owner: str | None = None, **attributes: Any) -> None:
        _meddle_sql(self.url, cluster, owner, attributes)


@dataclass
class PostgresLab:
    server: PostgresServer
    database: str
    forwarder: LossyForwarder
    clock: StillClock = field(default_factory=StillClock)

    def prepare(self) -> None:
        self.server.run("CREATE SCHEMA shim", self.database)
        self.server.run("CREATE TABLE shim.clock (now float8)", self.database)
        self.server.run(f"INSERT INTO shim.clock VALUES ({self.clock.time})", self.database)
        self.server.run(
            "CREATE FUNCTION shim.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE "
            "AS 'SELECT to_timestamp(now) FROM shim.clock'",
            self.database,
        )

    def open(self, cluster: str) -> Store:
        return self._open(cluster, port=0)

    def open_lossy(self, cluster: str) -> Store:
        return self._open(cluster, self.forwarder.port)

    def lose_reply_to(self, *calls: str) -> None:
        self.forwarder.lose_reply_to(*(SQL_OF_CALL[call].encode() for call in calls))

    @property
    def still_to_lose(self) -> int:
        return self.forwarder.still_to_lose

    def advance(self, seconds: int) -> None:
        self.clock.time += seconds
        self.server.run(f"UPDATE shim.clock SET now = {self.clock.time}", self.database)

    def meddle(self, cluster: str, owner: str | None = None, **attributes: Any) -> None:
        _meddle_sql(self.server.url(self.database, 0), cluster, owner, attributes)

    def _open(self, cluster: str, port: int) -> Store:
        path = "-csearch_path=public,shim,pg_catalog"
        wrong_clock = StillClock(0)
        return SqlStore.open(self.server.url(self.database, port, options=path), wrong_clock, cluster)


DYNAMODB_CALL = {
    "acquire": "UpdateItem",
    "renew": "UpdateItem",
    "release": "UpdateItem",
    "write": "UpdateItem",
    "write with entries": "TransactWriteItems",
    "its repetition": "TransactWriteItems",
    "append": "PutItem",
    "policy transaction": "TransactWriteItems",
    "its repeated creation": "TransactWriteItems",
    "its repeated renaming": "TransactWriteItems",
    "its repeated state": "TransactWriteItems",
    "write state": "PutItem",
    "write states": "PutItem",
    "keep once": "PutItem",
}


@dataclass
class DynamoLab:
    server: DynamoServer
    tables: tuple[str, str]
    forwarder: LossyForwarder
    clock: StillClock = field(default_factory=StillClock)

    def open(self, cluster: str) -> Store:
        return DynamoStore.open(self.server.url(*self.tables), self.clock, cluster)

    def open_lossy(self, cluster: str) -> Store:
        return DynamoStore.open(self.server.url(*self.tables, self.forwarder.port), self.clock, cluster)

    def lose_reply_to(self, *calls: str) -> None:
        self.forwarder.lose_reply_to(*(f"DynamoDB_20120810.{DYNAMODB_CALL[call]}".encode() for call in calls))

    @property
    def still_to_lose(self) -> int:
        return self.forwarder.still_to_lose

    def advance(self, seconds: int) -> None:
        self.clock.time += seconds

    def meddle(self, cluster: str, owner: str | None = None, **attributes: Any) -> None:
        tables = parse_tables(self.server.url(*self.tables))
        client = make_client(tables)
        values = {f":{name}": to_wire(value) for name, value in attributes.items()}
        sets = [f"{name} = :{name}" for name in attributes]
        if owner is not None:
            values[":owner"] = to_wire(owner)
            sets.append("lockOwner = :owner")
        removes = "" if owner is None else " REMOVE lockUntilEpoch"
        client.update_item(
            TableName=tables.state,
            Key={"pk": to_wire(item_key(cluster))},
            UpdateExpression=f"SET {', '.join(sets)}{removes}",
            ExpressionAttributeValues=values,
        )
        client.close()


def cause_of(attempt: Callable[[], object], names: str = "") -> StoreCause:
    """Why the store cannot be used. The error is one sentence, and names what is wrong."""
    with pytest.raises(StoreUnusable) as refused:
        attempt()
    assert "\n" not in str(refused.value)
    assert names in str(refused.value)
    return refused.value.cause
