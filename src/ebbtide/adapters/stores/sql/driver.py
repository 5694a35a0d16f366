"""Runs the store's statements on the database driver itself.

SQLAlchemy builds and compiles each statement once, and opens the connections. What it does around every
single execution costs as much as the database does, so from there on the driver is asked directly. What is
left to do is here: lend connections, drop one that failed, and turn errors into ours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from ebbtide.adapters.stores.sql.engine import begins, describe
from ebbtide.adapters.stores.sql.errors import translate, translate_connect
from ebbtide.errors import EbbtideError

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
