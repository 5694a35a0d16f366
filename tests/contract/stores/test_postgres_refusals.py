"""A PostgreSQL that cannot be used is refused in one sentence with the next step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from ebbtide.adapters.stores.sql.migrate import check, upgrade
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import Retryable, StoreCause, Unanswered
from ebbtide.model.record import CLUSTER_LEASE
from tests.contract.stores.examples import make_entry, make_record
from tests.contract.stores.hammer import SystemClock
from tests.contract.stores.lab import StillClock, cause_of
from tests.servers.dynamodb import free_port
from tests.servers.lossy import lossy_forwarder, to_unix
from tests.servers.postgres import PostgresServer


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    postgres.run("CREATE DATABASE refusals")
    yield "refusals"
    postgres.run("DROP DATABASE refusals WITH (FORCE)")
    postgres.run("DROP ROLE IF EXISTS reader")


def open_store(url: str) -> SqlStore:
    return SqlStore.open(url, StillClock())


def refusal(url: str, attempt: Callable[[str], object] = open_store, names: str = "") -> StoreCause:
    return cause_of(lambda: attempt(url), names)


def test_a_database_without_tables_asks_for_the_upgrade(postgres: PostgresServer, database: str) -> None:
    for attempt in (open_store, check):
        assert refusal(postgres.url(database), attempt) is StoreCause.NOT_MADE


def test_a_database_that_does_not_exist_is_named(postgres: PostgresServer) -> None:
    for attempt in (open_store, check, upgrade):
        assert refusal(postgres.url("nowhere"), attempt, "'nowhere'") is StoreCause.NO_SUCH_DATABASE


def test_a_user_that_does_not_exist_is_refused(postgres: PostgresServer, database: str) -> None:
    assert refusal(postgres.url(database, user="stranger")) is StoreCause.NO_SUCH_DATABASE


def test_a_host_that_does_not_exist_is_refused() -> None:
    assert refusal("postgresql://u:secret@no-such-host.invalid/x") is StoreCause.UNKNOWN_HOST


def test_a_server_that_is_not_there_may_be_there_later() -> None:
    with pytest.raises(Retryable, match="see that the server runs") as refused:
        open_store(f"postgresql://u:secret@127.0.0.1:{free_port()}/x")
    assert "secret" not in str(refused.value)


def test_a_user_without_rights_is_told_which(postgres: PostgresServer, database: str) -> None:
    upgrade(postgres.url(database))
    postgres.run("CREATE ROLE reader LOGIN")
    postgres.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", database)
    url = postgres.url(database, user="reader")
    assert refusal(url, check, "INSERT ebbtide_state") is StoreCause.NO_RIGHTS
    store = open_store(url)
    lacks = refusal(url, lambda _: store.write(make_record("cluster"), None, [make_entry("1")]))
    assert lacks is StoreCause.NO_RIGHTS
    store.close()
    postgres.run("DROP OWNED BY reader", database)


def test_a_read_only_database_is_said(postgres: PostgresServer, database: str) -> None:
    upgrade(postgres.url(database))
    postgres.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    assert refusal(postgres.url(database), check) is StoreCause.READ_ONLY
    store = open_store(postgres.url(database))
    assert refusal("", lambda _: store.acquire(CLUSTER_LEASE, "a", 30)) is StoreCause.READ_ONLY
    store.close()


def test_tables_that_vanish_under_a_running_store_are_said(postgres: PostgresServer, database: str) -> None:
    upgrade(postgres.url(database))
    store = open_store(postgres.url(database))
    postgres.run("DROP TABLE ebbtide_state", database)
    assert refusal("", lambda _: store.load()) is StoreCause.NOT_MADE
    store.close()


def test_connections_that_the_server_ended_are_made_again(postgres: PostgresServer, database: str) -> None:
    upgrade(postgres.url(database))
    store = open_store(postgres.url(database))
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.load()
    for _ in range(3):
        postgres.run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}' "
            "AND pid <> pg_backend_pid()"
        )
        record = store.write(record, lease, [make_entry(str(record.rev))])
    assert store.load().rev == record.rev == 3
    assert len(store.read_log()) == 3
    store.close()


def test_a_server_that_goes_away_permanently_leaves_the_write_unanswered(
    postgres: PostgresServer, database: str
) -> None:
    upgrade(postgres.url(database))

    with lossy_forwarder(to_unix(str(postgres.socket))) as forwarder:
        store = open_store(postgres.url(database, forwarder.port))
        lease = store.acquire(CLUSTER_LEASE, "a", 30)
        record = store.load()
        forwarder.lose_reply_to(b"UPDATE ebbtide_state SET rev")
        forwarder.stop()
        with pytest.raises(Unanswered):
            store.write(replace(record, worker_count=9), lease)
        store.close()
    seen = open_store(postgres.url(database))
    assert seen.load().worker_count == 9
    seen.close()


def test_leases_run_on_the_time_of_the_server(postgres: PostgresServer, database: str) -> None:
    upgrade(postgres.url(database))
    slow, fast = (
        SqlStore.open(postgres.url(database), StillClock(now), "cluster") for now in (1_000, 9_000_000_000)
    )
    lease = slow.acquire(CLUSTER_LEASE, "a", 30)
    assert abs(lease.until - 30 - time.time()) < 20
    with pytest.raises(Exception, match="held by a"):
        fast.acquire(CLUSTER_LEASE, "b", 30)
    slow.close()
    fast.close()


def test_a_row_held_by_a_frozen_runner_is_given_up_in_bounded_time(
    postgres: PostgresServer, database: str
) -> None:
    upgrade(postgres.url(database))
    url = postgres.url(database, options="-clock_timeout=300")
    store = SqlStore.open(url, SystemClock())
    record = store.write(store.load(), None)
    with psycopg.connect(host=str(postgres.socket_folder), dbname=database, user="postgres") as frozen:
        frozen.execute("UPDATE ebbtide_state SET rev = rev")
        with pytest.raises(Retryable, match="locked for too long"):
            store.write(record, None)
    assert store.write(record, None).rev == 2
    store.close()
