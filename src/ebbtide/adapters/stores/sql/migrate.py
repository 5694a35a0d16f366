"""Brings the tables of a SQL store to the version this code was written for, and says how they stand.

An upgrade is one transaction. A schema that is newer is accepted as long as its `readable_from` says that
this version can live with it, so replicas can be upgraded one after another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine

from ebbtide.adapters.stores.sql.engine import (
    connected,
    describe,
    is_sqlite,
    make_engine,
    parse,
    sqlite_path,
    transaction,
)
from ebbtide.adapters.stores.sql.schema import READABLE_FROM, SCHEMA_REVISION, VERSION_TABLE, meta, version
from ebbtide.adapters.stores.sql.sqlite_probe import prefer_wal, probe
from ebbtide.errors import StoreUnusable

_UPGRADE_LOCK = 0x65626274
_RIGHTS = {
    "ebbtide_state": "SELECT, INSERT, UPDATE, DELETE",
    "ebbtide_log": "SELECT, INSERT, DELETE",
    "scaling_policies": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_idle_state": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_cost_savings": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_targets": "SELECT, INSERT, UPDATE, DELETE",
    "scaling_once": "SELECT, INSERT, UPDATE, DELETE",
}


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database says of its tables; an empty revision is a database without any."""

    revision: str
    readable_from: str

    @property
    def is_older(self) -> bool:
        return self.revision < SCHEMA_REVISION

    @property
    def is_too_new(self) -> bool:
        return self.readable_from > SCHEMA_REVISION


def upgrade(url: str) -> str:
    """Make or upgrade the tables; answers with a sentence."""
    parsed = parse(url)
    if is_sqlite(parsed):
        probe(sqlite_path(parsed), may_create=True)
    engine = make_engine(parsed)
    try:
        before = migrate(engine)
    finally:
        engine.dispose()
    if not before.is_older:
        return f"{describe(parsed)} is at schema {before.revision} already"
    if not before.revision:
        return f"{describe(parsed)} has its tables now, at schema {SCHEMA_REVISION}"
    return f"{describe(parsed)} was brought from schema {before.revision} to {SCHEMA_REVISION}"


def check(url: str) -> str:
    """How the database stands, as a sentence; `StoreUnusable` with the next step where it cannot be used."""
    parsed = parse(url)
    if is_sqlite(parsed):
        probe(sqlite_path(parsed), may_create=False)
    engine = make_engine(parsed)
    try:
        with connected(engine) as connection:
            schema = read_schema(connection)
            refuse_unusable(schema, parsed)
            _refuse_without_rights(connection, parsed)
            _refuse_corrupt(connection, parsed)
    finally:
        engine.dispose()
    newer = f" (this Ebbtide was written for {SCHEMA_REVISION})" if schema.revision > SCHEMA_REVISION else ""
    return f"{describe(parsed)} is ready at schema {schema.revision}{newer}"


def migrate(engine: Engine) -> Schema:
    """Upgrade inside one transaction; returns what was there before."""
    from alembic import command
    from alembic.config import Config

    with transaction(engine) as connection:
        if not is_sqlite(engine.url):
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})")
        before = read_schema(connection)
        if is_sqlite(engine.url) and not before.revision and sa.inspect(connection).get_table_names():
            raise StoreUnusable(
                f"{describe(engine.url)} belongs to another program: it was left as it is; "
                "name another file in store.url"
            )
        if before.is_older:
            config = Config()
            config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        elif before.is_too_new:
            refuse_unusable(before, engine.url)
    if is_sqlite(engine.url) and not before.revision:
        prefer_wal(sqlite_path(engine.url))
    return before


def read_schema(connection: Connection) -> Schema:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return Schema("", "")
    revision = connection.execute(sa.select(version.c.version_num)).scalar() or ""
    readable = connection.execute(sa.select(meta.c.value).where(meta.c.name == READABLE_FROM)).scalar()
    return Schema(revision, readable or revision)


def refuse_unusable(schema: Schema, url: URL) -> None:
    if not schema.revision:
        raise StoreUnusable(f"{describe(url)} has no tables of Ebbtide yet: run `ebbtide db upgrade`")
    if schema.is_older:
        raise StoreUnusable(
            f"{describe(url)} has schema {schema.revision}, this Ebbtide needs {SCHEMA_REVISION}: "
            "run `ebbtide db upgrade`"
        )
    if schema.is_too_new:
        raise StoreUnusable(
            f"{describe(url)} has schema {schema.revision}, which this Ebbtide ({SCHEMA_REVISION}) cannot "
            "read: nothing was touched; run the newer version of Ebbtide"
        )


def _refuse_without_rights(connection: Connection, url: URL) -> None:
    if is_sqlite(url):
        return
    if connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
        raise StoreUnusable(
            f"{describe(url)} is read-only: connect to the primary server, or end its read-only mode"
        )
    for table, rights in _RIGHTS.items():
        for right in rights.split(", "):
            asked = sa.select(sa.func.has_table_privilege(table, right))
            if not connection.execute(asked).scalar():
                raise StoreUnusable(
                    f"{describe(url)}: this user may not {right} {table}: grant {rights} on it"
                )


def _refuse_corrupt(connection: Connection, url: URL) -> None:
    if not is_sqlite(url):
        return
    answer = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
    if answer != "ok":
        raise StoreUnusable(
            f"{describe(url)} is corrupt ({' '.join(str(answer).split())}): it was left as it is; "
            "restore it from a backup, or move it away"
        )
