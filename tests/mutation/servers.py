"""The databases of the store contract, started once for all mutants of a worker and emptied in between.

A fork that started its own would spend most of its time on that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from ebbtide.adapters.stores.dynamodb.tables import make_client, parse_tables
from tests.servers.dynamodb import CREDENTIALS, DynamoServer, dynamodb_server
from tests.servers.postgres import PostgresServer, postgres_server

NEEDED_BY = ("tests/contract/stores/",)
S = TypeVar("S", PostgresServer, DynamoServer)


class Databases:
    """Those of one worker. They are started for the first mutant that needs them."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._postgres: PostgresServer | None = None
        self._dynamodb: DynamoServer | None = None

    def prepare(self, items: Iterable[pytest.Item]) -> None:
        """In the parent, before a fork."""
        if not any(item.nodeid.startswith(NEEDED_BY) for item in items):
            return
        if self._postgres is None or self._dynamodb is None:
            os.environ.update(CREDENTIALS)
            self._postgres = self._stack.enter_context(postgres_server())
            self._dynamodb = self._stack.enter_context(dynamodb_server())
        if not self._postgres.is_running:  # a test, or its mutant, has ended it
            self._postgres.restart()

    def lend(self, items: Iterable[pytest.Item]) -> None:
        """In the fork: the fixtures of that name give out what is running, emptied when first asked for."""
        asks = next((item for item in items if item.nodeid.startswith(NEEDED_BY)), None)
        if asks is None or self._postgres is None or self._dynamodb is None:
            return
        emptied = {
            "postgres": partial(_emptied, self._postgres, _empty_postgres),
            "dynamodb": partial(_emptied, self._dynamodb, _empty_dynamodb),
        }
        for name, server in emptied.items():
            for found in asks.session._fixturemanager.getfixturedefs(name, asks) or ():
                known: dict[str, Any] = found.func.__globals__
                known[f"{name}_server"] = server

    def close(self) -> None:
        self._stack.close()


def _emptied(server: S, empty: Callable[[S], None], *_: object) -> AbstractContextManager[S]:
    empty(server)
    return nullcontext(server)


def _empty_postgres(server: PostgresServer) -> None:
    with psycopg.connect(
        host=str(server.socket_folder), dbname="postgres", user="postgres", autocommit=True
    ) as connection:
        named = "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"
        for (name,) in connection.execute(named).fetchall():
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())
        roles = "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' AND rolname <> 'postgres'"
        for (name,) in connection.execute(roles).fetchall():
            connection.execute(f'DROP ROLE "{name}"'.encode())


def _empty_dynamodb(server: DynamoServer) -> None:
    client = make_client(parse_tables(server.url("any", "any")))
    for page in client.get_paginator("list_tables").paginate():
        for name in page["TableNames"]:
            client.delete_table(TableName=name)
    client.close()
