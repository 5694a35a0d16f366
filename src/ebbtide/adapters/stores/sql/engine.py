"""Connections to SQLite and PostgreSQL, statements on the driver itself, and the meaning of driver
errors.

SQLite: full sync, WAL if the file system allows it, and a refusal to start if two processes could write at
once. PostgreSQL: time limits, so a frozen runner cannot hold a row forever. Connections are in autocommit;
a caller that needs a transaction issues BEGIN.

An error is one of three: the database refused (nothing was done), it could not be reached (nothing was
done), or it gave no answer (`Unanswered`: it may have been done). Each message has the next step.

SQLAlchemy opens connections, and builds and compiles each statement once. Its work per execution would
cost as much as the database itself, so statements run on the driver directly. This module lends the
connections and drops those that failed.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Dialect, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from ebbtide.errors import EbbtideError, Retryable, StoreCause, StoreUnusable, Unanswered
from ebbtide.extras import how_to_add

_SQLITE_UNUSABLE = {
    "SQLITE_FULL": (StoreCause.DISK_FULL, "the disk is full: free some space and try again"),
    "SQLITE_READONLY": (
        StoreCause.NOT_WRITABLE,
        "it cannot be written to: give this user the right to write the file and its folder",
    ),
    "SQLITE_CANTOPEN": (
        StoreCause.NO_FOLDER,
        "it cannot be opened: create its folder and give this user the right to write there",
    ),
    "SQLITE_PERM": (StoreCause.NO_RIGHTS, "access is denied: give this user the right to read and write it"),
    "SQLITE_AUTH": (StoreCause.NO_RIGHTS, "access is denied: give this user the right to read and write it"),
    "SQLITE_NOTADB": (
        StoreCause.FOREIGN,
        "it is not a SQLite file, and was left as it is; name another file, or move it away",
    ),
    "SQLITE_CORRUPT": (
        StoreCause.CORRUPT,
        "it is corrupt: it was left as it is; restore it from a backup, or move it away",
    ),
}

_POSTGRES_UNUSABLE = {
    "42P01": (StoreCause.NOT_MADE, "the tables of Ebbtide are missing: run `ebbtide db upgrade`"),
    "42703": (StoreCause.OLD_SCHEMA, "the tables of Ebbtide are too old: run `ebbtide db upgrade`"),
    "3F000": (
        StoreCause.NOT_MADE,
        "the schema of the search path does not exist: create it, then run `ebbtide db upgrade`",
    ),
    "42501": (
        StoreCause.NO_RIGHTS,
        "this user lacks a right: grant SELECT, INSERT, UPDATE and DELETE on all tables of Ebbtide",
    ),
    "25006": (
        StoreCause.READ_ONLY,
        "the database is read-only: connect to the primary server, or end its read-only mode",
    ),
    "53100": (StoreCause.DISK_FULL, "the disk of the server is full: free some space there and try again"),
    "28P01": (StoreCause.NO_CREDENTIALS, "user or password is wrong: correct store.url"),
    "28000": (
        StoreCause.NO_CREDENTIALS,
        "the server refuses this user: correct store.url, or allow it in pg_hba.conf",
    ),
    "3D000": (StoreCause.NO_SUCH_DATABASE, "the database does not exist: create it, or correct store.url"),
}

_POSTGRES_LATER = {
    "40001": "two transactions met",
    "40P01": "two transactions met",
    "55P03": "a row stayed locked for too long",
    "57014": "a statement took too long",
    "53300": "the server has no connection left",
}

_CONNECT_UNUSABLE = {
    "password authentication failed": _POSTGRES_UNUSABLE["28P01"],
    "no password supplied": _POSTGRES_UNUSABLE["28P01"],
    "no pg_hba.conf entry": _POSTGRES_UNUSABLE["28000"],
    "does not exist": (
        StoreCause.NO_SUCH_DATABASE,
        "the user or the database does not exist: create it, or correct store.url",
    ),
    "resolve host": (StoreCause.UNKNOWN_HOST, "its host name is not known: correct store.url"),
    "translate host name": (StoreCause.UNKNOWN_HOST, "its host name is not known: correct store.url"),
    "invalid": (StoreCause.BAD_URL, "store.url is not understood by the driver: correct it"),
}


def translate(origin: BaseException | None, where: str, broken: bool) -> EbbtideError:
    """For a statement that was sent; `broken` where the connection is gone."""
    if isinstance(origin, sqlite3.Error):
        return _from_sqlite(origin, where)
    code = getattr(origin, "sqlstate", None) or ""
    if code in _POSTGRES_UNUSABLE:
        return _unusable(where, _POSTGRES_UNUSABLE[code])
    if code in _POSTGRES_LATER:
        return Retryable(f"{where}: {_POSTGRES_LATER[code]}; nothing was done, try again")
    if broken or code.startswith(("57P", "08")) or not code:
        return Unanswered(f"{where} did not answer ({_first_line(origin)}): it may have been done")
    return StoreUnusable(
        StoreCause.REFUSED, f"{where} refused ({_first_line(origin)}): run `ebbtide db check`"
    )


def translate_connect(origin: BaseException | None, where: str) -> EbbtideError:
    """For a connection that did not come about: nothing was done."""
    if isinstance(origin, sqlite3.Error):
        answer = _from_sqlite(origin, where)
        return StoreUnusable(StoreCause.REFUSED, str(answer)) if isinstance(answer, Unanswered) else answer
    text = str(origin)
    for phrase, why in _CONNECT_UNUSABLE.items():
        if phrase in text:
            return _unusable(where, why)
    return Retryable(
        f"{where} cannot be reached ({_first_line(origin)}): see that the server runs and store.url is right"
    )


def _from_sqlite(origin: sqlite3.Error, where: str) -> EbbtideError:
    name = getattr(origin, "sqlite_errorname", "")
    for prefix, why in _SQLITE_UNUSABLE.items():
        if name.startswith(prefix):
            return _unusable(where, why)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return Retryable(f"{where} stayed locked by another process; nothing was done, try again")
    if "no such table" in str(origin) or "no such column" in str(origin):
        return StoreUnusable(
            StoreCause.NOT_MADE,
            f"{where}: the tables of Ebbtide are missing or too old: run `ebbtide db upgrade`",
        )
    return Unanswered(f"{where} failed ({origin}): it may have been done; look at the disk it is on")


def _unusable(where: str, why: tuple[StoreCause, str]) -> StoreUnusable:
    cause, says = why
    return StoreUnusable(cause, f"{where}: {says}")


def _first_line(origin: BaseException | None) -> str:
    return (str(origin).strip().splitlines() or ["no reason given"])[0]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the driver takes it, with the values that are the same every time."""

    sql: str
    fixed: Mapping[str, Any]


def compiled(built: ClauseElement, dialect: Dialect) -> Statement:
    made = built.compile(dialect=dialect)
    assert isinstance(made, SQLCompiler)
    fixed = {name: bind.value for name, bind in made.binds.items() if not bind.required}
    return Statement(made.string, fixed)


class Lent:
    """A connection for one question or one transaction. Rows are plain tuples."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._cursor = connection.cursor()

    def run(self, statement: Statement, values: Mapping[str, Any]) -> Any:
        """Returns the driver's cursor; `fetchone`, `fetchall` and `rowcount` are alike in both drivers."""
        self._cursor.execute(statement.sql, {**statement.fixed, **values})
        return self._cursor

    def run_each(self, statement: Statement, rows: Sequence[Mapping[str, Any]]) -> None:
        self._cursor.executemany(statement.sql, [{**statement.fixed, **row} for row in rows])

    def say(self, words: str) -> None:
        self._cursor.execute(words)


class Driver:
    """Lends connections, all in autocommit, and keeps those not in use. Several threads may ask at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.dialect = engine.dialect
        self._where = describe(engine.url)
        self._begin = begins(engine.url)
        self._driver_error = engine.dialect.loaded_dbapi.Error
        self._idle: deque[Lent] = deque()

    def ask(self, question: Callable[[Lent], T]) -> T:
        """A refusal of ours leaves the connection sound; after anything else it is not used again."""
        lent = self._take() or self._connect()
        try:
            answer = question(lent)
        except EbbtideError:
            self._idle.append(lent)
            raise
        except self._driver_error as error:
            broken = self._engine.dialect.is_disconnect(error, lent.connection, None)
            self._drop(lent)
            if broken:
                self.close()
            raise translate(error, self._where, broken) from error
        except BaseException:
            self._drop(lent)
            raise
        self._idle.append(lent)
        return answer

    def ask_as_one(self, question: Callable[[Lent], T]) -> T:
        """All or nothing."""

        def transaction(lent: Lent) -> T:
            lent.say(self._begin)
            try:
                answer = question(lent)
            except EbbtideError:
                lent.say("ROLLBACK")
                raise
            lent.say("COMMIT")
            return answer

        return self.ask(transaction)

    def close(self) -> None:
        """Close what is not in use: when the store is closed, and when the server went away under it."""
        while lent := self._take():
            lent.connection.close()

    def _drop(self, lent: Lent) -> None:
        """Undo what it had begun, for SQLite lets go of a lock only when the last cursor is gone, too."""
        with suppress(self._driver_error):
            lent.connection.rollback()
        lent.connection.close()

    def _take(self) -> Lent | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _connect(self) -> Lent:
        try:
            connection = self._engine.raw_connection()
        except self._driver_error as error:
            raise translate_connect(error, self._where) from error
        connection.detach()
        return Lent(connection.dbapi_connection)


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
            StoreCause.BAD_URL,
            "store.url is no database URL: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE",
        ) from error
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreUnusable(
            StoreCause.BAD_URL,
            f"store.url names {parsed.drivername!r}: use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE",
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
        raise StoreUnusable(StoreCause.BAD_URL, "store.url names no file: write sqlite:///FILE")
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
            StoreCause.NO_DRIVER,
            f"the PostgreSQL driver is not installed; nothing was touched. Run: {how_to_add('postgres')}",
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
