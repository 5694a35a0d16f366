"""The servers of the store contract, the same cases for every store, and the count of them at the end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.lab import (
    KINDS,
    DynamoLab,
    MemoryLab,
    PostgresLab,
    SqliteLab,
    StoreLab,
    policies_of,
)
from tests.servers.dynamodb import CREDENTIALS, DynamoServer, dynamodb_server
from tests.servers.lossy import lossy_forwarder, to_port, to_unix
from tests.servers.postgres import PostgresServer, postgres_server

STANDING_IN = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb(request: pytest.FixtureRequest) -> Iterator[DynamoServer]:
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    try:
        with dynamodb_server() as server:
            request.config.stash[STANDING_IN] = server.standing_in
            yield server
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def memory_lab() -> MemoryLab:
    return MemoryLab()


@pytest.fixture(scope="session")
def sqlite_lab(tmp_path_factory: pytest.TempPathFactory) -> SqliteLab:
    folder: Path = tmp_path_factory.mktemp("sqlite")
    return SqliteLab(folder / "ebbtide.db")


@pytest.fixture(scope="session")
def postgresql_lab(postgres: PostgresServer) -> Iterator[PostgresLab]:
    postgres.run("CREATE DATABASE contract")
    upgrade(postgres.url("contract"))
    with lossy_forwarder(to_unix(str(postgres.socket))) as forwarder:
        lab = PostgresLab(postgres, "contract", forwarder)
        lab.prepare()
        yield lab


@pytest.fixture(scope="session")
def dynamodb_lab(dynamodb: DynamoServer) -> Iterator[DynamoLab]:
    create_tables(dynamodb.url("contract-state", "contract-logs"))
    with lossy_forwarder(to_port(dynamodb.port)) as forwarder:
        yield DynamoLab(dynamodb, ("contract-state", "contract-logs"), forwarder)


@pytest.fixture(params=KINDS)
def lab(request: pytest.FixtureRequest) -> StoreLab:
    request.node.user_properties.append(("store", request.param))
    found: StoreLab = request.getfixturevalue(f"{request.param}_lab")
    return found


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> str:
    """Each test has a cluster of its own in a database that all share."""
    return f"c{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def store(lab: StoreLab, cluster: str) -> Iterator[Store]:
    opened = lab.open(cluster)
    yield opened
    opened.close()


@pytest.fixture
def policies(store: Store) -> PolicyStore:
    return policies_of(store)


@pytest.fixture
def lossy_store(lab: StoreLab, cluster: str) -> Iterator[Store]:
    opened = lab.open_lossy(cluster)
    yield opened
    opened.close()
    assert lab.still_to_lose == 0, "a reply that was to be lost was not"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    cases = Counter(
        str(value)
        for report in reports
        if report.when == "call"
        for name, value in report.user_properties
        if name == "store"
    )
    if cases:
        terminalreporter.section("store contract")
        for kind, number in sorted(cases.items()):
            terminalreporter.write_line(f"{kind}: {number} cases")
    if config.stash.get(STANDING_IN, ""):
        terminalreporter.write_line(
            f"DynamoDB: moto's server stood in for DynamoDB Local, because {config.stash[STANDING_IN]}"
        )
