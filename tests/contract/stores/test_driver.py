"""How the SQL stores use connections: lent to one at a time, kept while sound, dropped after a failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ebbtide.adapters.stores.codec.record import log_rows
from ebbtide.adapters.stores.sql.engine import Driver, Lent
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.errors import Conflict, EbbtideError
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import StoreLab

THREADS = 6


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, cluster: str) -> Iterator[SqlStore]:
    lab: StoreLab = request.getfixturevalue(f"{request.param}_lab")
    opened = lab.open(cluster)
    assert isinstance(opened, SqlStore)
    yield opened
    opened.close()


@pytest.fixture
def driver(store: SqlStore) -> Driver:
    return store._driver


def connection_of(driver: Driver) -> object:
    return driver.ask(lambda lent: lent.connection)


def written_then(store: SqlStore, error: BaseException) -> None:
    """An entry is written in a transaction that then ends with this error."""

    def write(lent: Lent) -> None:
        lent.run_each(store._sql.append, log_rows(store._cluster, [make_entry("1")]))
        raise error

    store._driver.ask_as_one(write)


def test_one_connection_serves_all_calls_in_turn(store: SqlStore, driver: Driver) -> None:
    first = connection_of(driver)
    store.append([make_entry("1")])
    store.load()
    assert connection_of(driver) is first


def test_a_refusal_undoes_the_transaction_and_keeps_the_connection(store: SqlStore, driver: Driver) -> None:
    first = connection_of(driver)
    with pytest.raises(Conflict):
        written_then(store, Conflict("somebody else wrote first"))
    assert store.find_entry("1") is None
    assert connection_of(driver) is first


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError()])
def test_an_interruption_undoes_the_transaction_and_drops_the_connection(
    store: SqlStore, driver: Driver, error: BaseException
) -> None:
    first = connection_of(driver)
    with pytest.raises(type(error)):
        written_then(store, error)
    assert store.find_entry("1") is None
    assert connection_of(driver) is not first


def test_an_error_of_the_database_drops_the_connection(driver: Driver) -> None:
    first = connection_of(driver)
    with pytest.raises(EbbtideError):
        driver.ask(lambda lent: lent.say("SELECT nonsense FROM nowhere"))
    assert connection_of(driver) is not first


def test_threads_that_ask_at_once_have_a_connection_each(store: SqlStore, driver: Driver) -> None:
    together = threading.Barrier(THREADS)

    def lent_at_once(number: int) -> int:
        def meet(lent: Lent) -> int:
            together.wait(timeout=30)
            return id(lent.connection)

        met = driver.ask(meet)
        store.append([make_entry(f"{number}-{each}") for each in range(5)])
        return met

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(lent_at_once, range(THREADS)))) == THREADS
    assert len(store.read_log()) == THREADS * 5
