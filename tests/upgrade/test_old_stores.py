"""What every earlier schema holds is read by this version, in every store, and nothing of it is lost.

That a record of a newer format is left alone, with an alarm, is shown in `test_records.py` of the contract
(`test_a_record_of_a_newer_version_is_left_alone`) and by the crash table.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ebbtide.adapters.stores.codec.record import from_item, to_item
from ebbtide.adapters.stores.dynamodb.record import to_wire_item
from ebbtide.adapters.stores.dynamodb.store import DynamoStore
from ebbtide.adapters.stores.dynamodb.tables import create_tables, open_client
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.adapters.stores.sql.schema import SCHEMA_REVISION
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.core.nodes.decide import decide
from ebbtide.engine.journal import read_decision, read_inputs
from ebbtide.entrypoints.api.views import entry_shape
from ebbtide.entrypoints.report.collect import DONE, collect, period_of
from ebbtide.model.decision import Decision
from ebbtide.model.events import FACTS
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.narrate import facts_in
from ebbtide.ports import Store
from ebbtide.simulator.world.clock import VirtualClock
from tests.servers.dynamodb import CREDENTIALS, dynamodb_server
from tests.servers.postgres import postgres_server
from tests.upgrade.left_behind import LOG, NAMES, STATE, VERSIONS, LeftBehind, left_behind

CLOCK = VirtualClock(4_000_000_000)
UNSIGNED = {"rev": 0, "lockOwner": "", "lockUntilEpoch": 0, "lockToken": 0}
"""A lease is not written but taken, and the first write is the first."""
DIFFERS: dict[str, str] = {}
"""Decisions that this version takes otherwise, by data and cluster, with the reason."""


@pytest.fixture(params=NAMES)
def old(request: pytest.FixtureRequest) -> LeftBehind:
    return left_behind(request.param)


def clusters(old: LeftBehind) -> list[str]:
    return sorted({row["cluster"] for row in old.rows("ebbtide_log", LOG)} | old.items().keys())


@pytest.fixture
def sqlite_url(old: LeftBehind, tmp_path: Path) -> str:
    url = old.restore(tmp_path / "old.db")
    upgrade(url)
    return url


@pytest.fixture(scope="module")
def postgres() -> Iterator[Any]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[Any]:
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    try:
        with dynamodb_server() as server:
            yield server
    finally:
        os.environ.clear()
        os.environ.update(before)


def entries_of(store: Store) -> list[LogEntry]:
    return list(reversed(store.read_log(limit=10_000)))


def log_of(url: str, cluster: str) -> list[LogEntry]:
    store = SqlStore.open(url, CLOCK, cluster)
    found = entries_of(store)
    store.close()
    return found


def test_there_is_data_of_every_schema() -> None:
    revisions = {file.name[:4] for file in VERSIONS.glob("[0-9]*.py")}
    assert revisions == {left_behind(name).schema for name in NAMES}


def test_an_old_database_is_upgraded_and_no_row_is_lost(old: LeftBehind, tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    url = old.restore(file)
    with sqlite3.connect(file) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = [name for name in tables if name not in ("ebbtide_schema", "ebbtide_meta")]
        columns = {name: [row[1] for row in database.execute(f"PRAGMA table_info({name})")] for name in kept}
        before = {name: rows_of(database, name, columns[name]) for name in kept}
    said = upgrade(url)
    assert said.before == old.schema
    with sqlite3.connect(file) as database:
        assert {name: rows_of(database, name, columns[name]) for name in kept} == before
    assert sum(map(len, before.values())) > 200


def plain(record: Record) -> dict[str, Any]:
    """As it comes back from JSON."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_item(record)))
    return found


def rows_of(database: sqlite3.Connection, table: str, columns: list[str]) -> list[Any]:
    return sorted(map(repr, database.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()))


def test_every_record_is_read_and_written_again_without_loss(old: LeftBehind, sqlite_url: str) -> None:
    items = old.items()
    kinds = set()
    for cluster, item in items.items():
        store = SqlStore.open(sqlite_url, CLOCK, cluster)
        record = store.load()
        kinds |= {type(work).__name__ for work in (record.operation, *record.spots) if work}
        again = plain(record)
        assert {name: again.get(name) for name in item} == item, cluster
        assert from_item({**item, "ofALaterVersion": {"x": [1]}}, cluster) == record
        store.write(record, None)
        assert plain(store.load()) == {**again, "rev": item["rev"] + 1}
        store.close()
    known = {"ScaleUp", "ScaleDown", "Spot"} | ({"Consolidate"} if old.schema > "0001" else set())
    assert kinds == known


def test_the_other_stores_read_the_same(
    old: LeftBehind, sqlite_url: str, postgres: Any, dynamodb: Any
) -> None:
    database = f"old_{old.schema}"
    postgres.run(f"CREATE DATABASE {database}")
    upgrade(postgres.url(database))
    old.into_postgresql(postgres.url(database))
    url = dynamodb.url(f"{old.name}-state", f"{old.name}-logs")
    create_tables(url)
    with open_client(url) as (tables, client):
        for item in old.items().values():
            client.put_item(TableName=tables.state, Item=to_wire_item(item))
    for cluster in list(old.items())[::3]:
        store = SqlStore.open(sqlite_url, CLOCK, cluster)
        record, entries = store.load(), entries_of(store)
        store.close()
        memory = MemoryStore(CLOCK, cluster)
        memory.write(replace(record, rev=0), None, entries)
        assert plain(memory.load()) | UNSIGNED == plain(record) | UNSIGNED
        assert entries_of(memory) == entries
        other = SqlStore.open(postgres.url(database), CLOCK, cluster)
        assert (other.load(), entries_of(other)) == (record, entries)
        other.close()
        table = DynamoStore.open(url, CLOCK, cluster)
        assert table.load() == record
        table.append(entries)
        assert entries_of(table) == entries
        table.close()


def test_every_kind_of_entry_is_read(old: LeftBehind, sqlite_url: str) -> None:
    found = [entry for cluster in clusters(old) for entry in log_of(sqlite_url, cluster)]
    assert len(found) == len(old.rows("ebbtide_log", LOG))
    assert {str(entry.kind) for entry in found} == {row["kind"] for row in old.rows("ebbtide_log", LOG)}
    if old.schema == SCHEMA_REVISION:
        assert {entry.kind for entry in found} == set(LogKind)


def done(decision: Decision) -> tuple[object, ...]:
    """What is launched where, and what is removed."""
    launched = [(slot.zone, slot.instance_type) for slot in decision.slots]
    return decision.action, launched, [removal.instance_id for removal in decision.removals]


def test_every_decision_comes_out_the_same(old: LeftBehind, sqlite_url: str) -> None:
    asked = 0
    for cluster in clusters(old):
        for entry in log_of(sqlite_url, cluster):
            if entry.kind is not LogKind.DECISION:
                continue
            stored, inputs = read_decision(entry), read_inputs(entry)
            again = decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, stored.id)
            # What is done must be the same; the sentences about it may have become better ones.
            assert done(again) == done(stored) or f"{old.name}/{cluster}" in DIFFERS, (
                cluster,
                entry.id,
                stored.reason,
                again.reason,
            )
            asked += 1
    assert asked >= 20


def test_policies_their_states_and_their_ledger_are_read(sqlite_url: str, old: LeftBehind) -> None:
    store = SqlStore.open(sqlite_url, CLOCK, "town")
    rows = store.policies()
    policies = list(rows.list_policies())
    if old.schema == "0001":
        assert policies == []
    else:
        (policy,) = policies
        (state,) = rows.list_states()
        (day,) = rows.list_days()
        assert (policy.name, state.policy_id, day.policy_id) == ("web", policy.id, policy.id)
        assert day.wakes == 1
        rows.write_state(state)
    store.close()


def test_the_columns_are_those_of_the_store() -> None:
    """The data is told column by column; one that is added must be thought of here."""
    from ebbtide.adapters.stores.sql import schema

    assert tuple(schema.state.c.keys()) == STATE
    assert tuple(schema.log.c.keys()) == LOG


@pytest.mark.parametrize("old", ["schema-0001", "schema-0002"], indirect=True)
def test_entries_that_were_logged_without_data_are_shown_and_not_counted(
    old: LeftBehind, sqlite_url: str
) -> None:
    """Versions before facts were typed logged sentences alone."""
    found = 0
    for cluster in clusters(old):
        store = SqlStore.open(sqlite_url, CLOCK, cluster)
        entries = store.read_log(DONE, limit=10_000)
        assert [entry_shape(entry).says for entry in entries] == [entry.says for entry in entries]
        assert [fact for kind in DONE for fact in facts_in(entries, FACTS[kind][0])] == []
        found += len(entries)
        last = max((entry.at for entry in entries), default=0)
        totals = collect(store, cluster, (), period_of("2023-11-01", "2030-01-01", last + 60))
        assert (totals.done.operations, totals.done.unknown) == ((), len(entries))
        store.close()
    assert found > 100
