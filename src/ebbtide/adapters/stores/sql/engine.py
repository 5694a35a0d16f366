"""Opens the database of a store URL: the connection settings on which the store's promises rest.

SQLite: full sync, WAL where the file system allows it, and a refusal to start where two processes could
write at once. PostgreSQL: time limits, so a frozen runner cannot hold a row forever.
Connections are in autocommit; a caller that needs a transaction issues BEGIN.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from ebbtide.adapters.stores.sql.errors import translate, translate_connect
from ebbtide.errors import StoreUnusable
from ebbtide.extras import how_to_add

BUSY_TIMEOUT_SECONDS = 10
POSTGRES_PORT = 5432
POSTGRES_LIMITS = (
    "-c statement_timeout=15000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=15000"
)


def parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise StoreUnusable(
            "store.url is no database URL: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreUnusable(
            f"store.url names {parsed.drivername!r}: use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        )
    return parsed


def describe(url: URL) -> str:
    """The database in words, without its password."""
    if is_sqlite(url):
        return f"the SQLite file {url.database}"
    return f"the PostgreSQL database {url.database!r} at {url.host or url.query.get('host', 'this machine')}"


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def begins(url: URL) -> str:
    """On SQLite the write lock is taken at once, so a transaction cannot fail half-way."""
    return "BEGIN IMMEDIATE" if is_sqlite(url) else "BEGIN"


def sqlite_path(url: URL) -> Path:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise StoreUnusable("store.url names no file: write sqlite:///FILE")
    return Path(url.database)


def place_of(url: str) -> str:
    """Where the database is, however the URL names it: one file by its number, or by its path without links
    where it is not made yet; one server by its address, for any user."""
    parsed = parse(url)
    if is_sqlite(parsed):
        path = sqlite_path(parsed).resolve()
        try:
            found = path.stat()
        except OSError:
            return f"sqlite {path}"
        return f"sqlite {found.st_dev}:{found.st_ino}"
    host = str(parsed.host or parsed.query.get("host", "")).lower()
    return f"postgresql {host}:{parsed.port or parsed.query.get('port', POSTGRES_PORT)}/{parsed.database}"


def make_engine(url: URL) -> Engine:
    if is_sqlite(url):
        connect_args: dict[str, Any] = {"timeout": BUSY_TIMEOUT_SECONDS}
    else:
        options = " ".join([POSTGRES_LIMITS, *_as_list(url.query.get("options"))])
        url = url.difference_update_query(["options"])
        connect_args = {
            "options": options,
            "connect_timeout": 5,
            "application_name": "ebbtide",
            "tcp_user_timeout": 10_000,
        }
    try:
        engine = sa.create_engine(
            url,
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
            connect_args=connect_args,
            paramstyle="named" if is_sqlite(url) else "pyformat",
        )
    except (ImportError, NoSuchModuleError) as error:
        raise StoreUnusable(
            f"the PostgreSQL driver is not installed; nothing was touched. Run: {how_to_add('postgres')}"
        ) from error
    if is_sqlite(url):
        sa.event.listen(engine, "connect", _set_pragmas)
    return engine


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    """A connection whose errors are ours."""
    where = describe(engine.url)
    try:
        connection = engine.connect()
    except DBAPIError as error:
        raise translate_connect(error.orig, where) from error
    with connection:
        try:
            yield connection
        except DBAPIError as error:
            raise translate(error.orig, where, error.connection_invalidated) from error


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """All or nothing."""
    with connected(engine) as connection:
        connection.exec_driver_sql(begins(engine.url))
        try:
            yield connection
            connection.exec_driver_sql("COMMIT")
        except BaseException:
            with suppress(SQLAlchemyError):
                if not connection.invalidated:
                    connection.exec_driver_sql("ROLLBACK")
            raise


def _set_pragmas(connection: sqlite3.Connection, _: object) -> None:
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_SECONDS * 1000}")


def _as_list(value: tuple[str, ...] | str | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
