"""Schemas older and newer than the code: refused, upgraded, or lived with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ebbtide.adapters.stores.sql import migrate
from ebbtide.adapters.stores.sql.engine import make_engine, parse, transaction
from ebbtide.adapters.stores.sql.migrate import check, upgrade
from ebbtide.adapters.stores.sql.schema import SCHEMA_REVISION, VERSION_TABLE, metadata, state
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.record import CLUSTER_LEASE
from tests.contract.stores.examples import SCALE_UP, make_entry, make_record
from tests.contract.stores.lab import StillClock, cause_of
from tests.servers.postgres import PostgresServer


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'schema.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    server.run("CREATE DATABASE schema_test")
    yield server.url("schema_test")
    server.run("DROP DATABASE schema_test WITH (FORCE)")


def run(url: str, *statements: str) -> None:
    engine = make_engine(parse(url))
    with transaction(engine) as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


def test_the_code_is_written_for_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrate.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_current_head() == SCHEMA_REVISION


def test_the_migrations_make_the_tables_that_the_code_describes(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_old_code_lives_with_a_newer_schema_that_only_adds(url: str) -> None:
    upgrade(url)
    run(
        url,
        "ALTER TABLE ebbtide_state ADD COLUMN region TEXT",
        "ALTER TABLE ebbtide_log ADD COLUMN trace_id TEXT",
        "ALTER TABLE scaling_idle_state ADD COLUMN region TEXT",
        "CREATE TABLE ebbtide_regions (name TEXT PRIMARY KEY)",
        "UPDATE ebbtide_schema SET version_num = '0004'",
    )
    store = SqlStore.open(url, StillClock(), "old")
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.write(make_record("old", operation=SCALE_UP), lease, [make_entry("1")])
    store.write(record, store.renew(lease, 60))
    store.append([make_entry("2", subject="s")])
    store.release(lease)
    assert store.load().operation == SCALE_UP
    assert [entry.id for entry in store.read_log()] == ["2", "1"]
    assert store.find_entry("2") == make_entry("2", subject="s")
    store.close()
    assert check(url).revision == "0004"
    assert upgrade(url).before == "0004"


def test_a_schema_that_this_version_cannot_read_is_refused(url: str) -> None:
    upgrade(url)
    run(
        url,
        "UPDATE ebbtide_schema SET version_num = '0009'",
        "UPDATE ebbtide_meta SET value = '0008' WHERE name = 'readable_from'",
    )
    for attempt in (check, upgrade, lambda url: SqlStore.open(url, StillClock())):
        assert cause_of(partial(attempt, url)) is StoreCause.NEW_SCHEMA


def test_a_schema_that_is_too_old_asks_for_the_upgrade(url: str) -> None:
    upgrade(url)
    run(url, "UPDATE ebbtide_schema SET version_num = '0000'")
    for attempt in (check, lambda url: SqlStore.open(url, StillClock())):
        assert cause_of(partial(attempt, url)) is StoreCause.OLD_SCHEMA


def test_an_upgrade_that_fails_half_way_leaves_nothing(url: str) -> None:
    upgrade(url)
    run(url, "DROP TABLE ebbtide_log", "DROP TABLE ebbtide_meta", "DROP TABLE ebbtide_schema")
    engine = make_engine(parse(url))
    left = sa.inspect(engine).get_table_names()
    assert "ebbtide_log" not in left
    with pytest.raises(StoreUnusable):
        upgrade(url)
    assert sa.inspect(engine).get_table_names() == left
    engine.dispose()


def test_what_has_a_column_is_not_in_the_body_as_well(url: str) -> None:
    """Two places for one value would differ as soon as a lease is taken: the body is not written then."""
    upgrade(url)
    store = SqlStore.open(url, StillClock(), "c")
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    store.write(make_record("c", operation=SCALE_UP), lease)
    store.close()
    engine = make_engine(parse(url))
    with transaction(engine) as connection:
        body = connection.execute(sa.select(state.c.body)).scalar_one()
    engine.dispose()
    assert body
    assert {"pk", "rev", "lockOwner", "lockUntilEpoch", "lockToken"}.isdisjoint(body)
