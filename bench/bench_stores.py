"""Acquire, write, release on each store, against its bare driver making the same round trips.

The bare side changes the same columns by as many bytes under the same kind of conditions, as durably, in
three statements that each commit by themselves. Both sides run in turns, in small batches, so a busy
machine slows them alike; the number that counts is the ratio of the medians.
`python -m bench.bench_stores [--cycles N]`
"""

from __future__ import annotations

import argparse
import itertools
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from ebbtide.adapters.stores.codec.record import to_item
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import create_tables, make_client, parse_tables
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.adapters.stores.sql.store import COLUMN_ATTRIBUTES, SqlStore
from ebbtide.model.record import CLUSTER_LEASE, Record
from ebbtide.ports import Store
from tests.servers.dynamodb import CREDENTIALS, dynamodb_server
from tests.servers.postgres import postgres_server

AIM = 1.3
BATCH = 10
Cycle = Callable[[], None]

BARE_COLUMNS = (
    "pk TEXT PRIMARY KEY, rev BIGINT, owner TEXT, until BIGINT, token BIGINT, nonce TEXT, body JSON"
)
BARE_ROW = "INSERT INTO t VALUES ('cluster', 0, '', 0, 0, '', NULL)"
BARE_TAKE = (
    "UPDATE t SET owner = {0}, until = {0}, token = token + 1 WHERE pk = {0} AND owner = {0} "
    "RETURNING token, until"
)
BARE_WRITE = (
    "UPDATE t SET rev = rev + 1, nonce = {0}, body = {0} "
    "WHERE pk = {0} AND rev = {0} AND owner = {0} AND token = {0} AND until >= {0}"
)
BARE_RELEASE = "UPDATE t SET owner = {0}, until = {0} WHERE pk = {0} AND owner = {0} AND token = {0}"
BODY = msgspec.json.encode(
    {name: value for name, value in to_item(Record()).items() if name not in COLUMN_ATTRIBUTES}
).decode()


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class Timed:
    cycle: Cycle
    seconds: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """What the cycle cost this process in CPU time."""

    def run(self, times: int) -> None:
        for _ in range(times):
            start, busy = time.perf_counter(), time.process_time()
            self.cycle()
            self.busy.append(time.process_time() - busy)
            self.seconds.append(time.perf_counter() - start)

    def forget(self) -> None:
        self.seconds.clear()
        self.busy.clear()

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def says(self) -> str:
        p99 = statistics.quantiles(self.seconds, n=100)[98]
        each_second = 1 / statistics.fmean(self.seconds)
        busy = statistics.median(self.busy)
        return (
            f"{each_second:8.0f}/s  p50 {self.median * 1e3:7.3f} ms  p99 {p99 * 1e3:7.3f} ms"
            f"  CPU {busy * 1e3:6.3f} ms"
        )


def cycle_of(store: Store) -> Cycle:
    record = [Record()]

    def cycle() -> None:
        lease = store.acquire(CLUSTER_LEASE, "bench", 300)
        record[0] = store.write(record[0], lease)
        store.release(lease)

    return cycle


def measure(name: str, store: Store, bare: Cycle | None, cycles: int) -> float:
    ours = Timed(cycle_of(store))
    theirs = Timed(bare) if bare else None
    for side in filter(None, (ours, theirs)):
        side.run(BATCH)
        side.forget()
    for _ in range(cycles // BATCH):
        ours.run(BATCH)
        if theirs:
            theirs.run(BATCH)
    print(f"{name:<11} {ours.says()}")
    if theirs is None:
        return 0.0
    ratio = ours.median / theirs.median
    print(f"{'  bare':<11} {theirs.says()}  ratio {ratio:.2f} (aim: at most {AIM})")
    return ratio


def bare_sqlite(path: Path) -> tuple[sqlite3.Connection, Cycle]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection, bare_sql(connection, "?")


def bare_sql(connection: sqlite3.Connection | psycopg.Connection[Any], mark: str) -> Cycle:
    execute: Callable[..., Any] = connection.execute
    take, write, release = (text.format(mark) for text in (BARE_TAKE, BARE_WRITE, BARE_RELEASE))
    execute(f"CREATE TABLE t ({BARE_COLUMNS})")
    execute(BARE_ROW)
    revs = itertools.count()

    def cycle() -> None:
        now, rev = int(time.time()), next(revs)
        token, _ = execute(take, ("bench", now + 300, "cluster", "")).fetchone()
        execute(write, (f"{rev:032d}", BODY, "cluster", rev, "bench", token, now))
        execute(release, ("", 0, "cluster", "bench", token))

    return cycle


def bare_dynamodb(client: Any, table: str) -> Cycle:
    attributes = [f"a{number}" for number in range(24)]
    key = {"pk": {"S": "bare"}}
    sets = ", ".join(f"{name} = :{name}" for name in attributes)
    values = {f":{name}": {"S": "x" * 16} for name in attributes}

    def change(expression: str, **changed: Any) -> None:
        client.update_item(
            TableName=table,
            Key=key,
            UpdateExpression=expression,
            ConditionExpression="attribute_not_exists(o) OR o <> :never",
            ExpressionAttributeValues={":never": {"S": "never"}, **changed},
        )

    def cycle() -> None:
        change("SET o = :o ADD n :one", **{":o": {"S": "a"}, ":one": {"N": "1"}})
        change(f"SET {sets}", **values)
        change("SET o = :o", **{":o": {"S": ""}})

    return cycle


@contextmanager
def each(cycles: int) -> Iterator[list[float]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ebb-bench-")))
        ratios: list[float] = []
        clock = SystemClock()
        measure("memory", MemoryStore(clock), None, cycles)
        store: Store = stack.enter_context(closing(SqlStore.open(f"sqlite:///{folder / 'ours.db'}", clock)))
        connection, bare = bare_sqlite(folder / "bare.db")
        stack.enter_context(closing(connection))
        ratios.append(measure("sqlite", store, bare, cycles))
        server = stack.enter_context(postgres_server())
        upgrade(server.url("postgres"))
        store = stack.enter_context(closing(SqlStore.open(server.url("postgres"), clock)))
        direct = stack.enter_context(
            psycopg.connect(host=str(server.socket_folder), user="postgres", autocommit=True)
        )
        ratios.append(measure("postgresql", store, bare_sql(direct, "%s"), cycles))
        os.environ.update(CREDENTIALS)
        dynamo = stack.enter_context(dynamodb_server())
        url = dynamo.url("bench-state", "bench-logs")
        create_tables(url)
        store = stack.enter_context(closing(DynamoStore.open(url, clock)))
        client = stack.enter_context(closing(make_client(parse_tables(url))))
        ratios.append(measure("dynamodb", store, bare_dynamodb(client, "bench-state"), cycles))
        if dynamo.standing_in:
            print(f"dynamodb: moto's server, because {dynamo.standing_in}")
        yield ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=500)
    with each(parser.parse_args().cycles) as ratios:
        print(f"worst ratio to the bare driver: {max(ratios):.2f} (aim: at most {AIM})")


if __name__ == "__main__":
    main()
