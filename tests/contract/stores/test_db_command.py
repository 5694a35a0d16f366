"""`ebbtide db create`, `upgrade`, `check` and `prune`: one sentence each, exit code 2 with the next step."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.entrypoints.cli.db import days_asked
from ebbtide.errors import Usage
from tests.contract.stores.examples import make_entry
from tests.contract.stores.hammer import SystemClock
from tests.servers.dynamodb import DynamoServer, free_port
from tests.servers.postgres import PostgresServer

COMMAND = "from ebbtide.entrypoints.cli import main; main()"


@pytest.fixture(params=["sqlite", "postgresql", "dynamodb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'a.db'}"
    elif request.param == "dynamodb":
        dynamodb: DynamoServer = request.getfixturevalue("dynamodb")
        yield dynamodb.url("cli-state", "cli-logs")
    else:
        postgres: PostgresServer = request.getfixturevalue("postgres")
        postgres.run("CREATE DATABASE cli")
        yield postgres.url("cli")
        postgres.run("DROP DATABASE cli WITH (FORCE)")


def ebbtide_db(url: str, command: str, folder: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "db", command, *options],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "STORE_URL": url, "NO_COLOR": "1", "COLUMNS": "400"},
        timeout=100,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_store_is_made_once_and_then_ready(url: str, tmp_path: Path) -> None:
    code, says = ebbtide_db(url, "check", tmp_path)
    assert code == 2
    assert "run `ebbtide db" in says
    assert ebbtide_db(url, "create", tmp_path)[0] == 0
    code, says = ebbtide_db(url, "check", tmp_path)
    assert code == 0
    assert " is ready" in says
    code, says = ebbtide_db(url, "upgrade", tmp_path)
    assert code == 0
    assert "already" in says or "need no upgrade" in says


def test_old_entries_are_removed_and_counted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    assert ebbtide_db(url, "prune", tmp_path) == (0, "There is no store yet, so nothing to remove.")
    assert list(tmp_path.iterdir()) == []
    with closing(SqlStore.open(url, SystemClock())) as store:
        ages = {"1": 100, "2": 50, "3": 1}
        now = int(time.time())
        store.append([replace(make_entry(name), at=now - days * 86_400) for name, days in ages.items()])
        code, says = ebbtide_db(url, "prune", tmp_path)
        assert (code, says.split(" older than ")[0]) == (0, "1 entry")
        code, says = ebbtide_db(url, "prune", tmp_path, "--older-than", "30d")
        assert (code, says.split(" older than ")[0]) == (0, "1 entry")
        assert says.endswith("removed from the log of 'cluster'.")
        assert [entry.id for entry in store.read_log()] == ["3"]


def test_how_old_is_what_was_asked_or_else_what_is_configured() -> None:
    assert [days_asked("30d", 90), days_asked("", 90), days_asked("7d", 0)] == [30, 90, 7]
    with pytest.raises(Usage, match="keeps the log forever; nothing was removed"):
        days_asked("", 0)


@pytest.mark.parametrize("asked", ["0d", "90", "soon", "-3d", "1h"])
def test_an_age_that_is_none_removes_nothing(asked: str) -> None:
    with pytest.raises(Usage, match="is not a number of days; nothing was removed"):
        days_asked(asked, 90)


@pytest.mark.parametrize("command", ["check", "upgrade", "create"])
def test_a_server_that_is_not_there_is_exit_code_two(
    dynamodb: DynamoServer, command: str, tmp_path: Path
) -> None:
    code, says = ebbtide_db(f"postgresql://u:secret@127.0.0.1:{free_port()}/x", command, tmp_path)
    assert (code, says.count("\n")) == (2, 0)
    assert "see that the server runs and store.url is right" in says
    assert "secret" not in says
