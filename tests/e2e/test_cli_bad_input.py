"""Wrong things typed into it: one clear message, exit code 2, and nothing touched byte for byte."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.shell import Shell

POOL = "pools: [{{name: a, types: [{types}], zones: [z]}}]\n"


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu_upp: 0.5\n", "ebbtide.yaml line 1, cpu_upp: unknown key; did you mean cpu_up?"),
        ("min_workers: 12\n", "min_workers: 12 is above max_workers (10); allowed: 0 to 10"),
        ("idle_down_sec: -5\n", "idle_down_sec: -5 is not allowed; allowed: a whole number of seconds"),
        (POOL.format(types=""), "pools[0].types: is empty; allowed: cpx12, cpx22"),
        ("cpu_up: [\n", "is not valid YAML"),
    ],
)
def test_a_wrong_configuration_stops_every_command_that_reads_it(shell: Shell, text: str, says: str) -> None:
    shell.write("ebbtide.yaml", text)
    before = shell.contents()
    for command in (["run"], ["once"], ["status"], ["config", "check"]):
        result = shell.run(*command, code=2)
        assert says in result.err
        assert "nothing was touched" in result.err
        assert "Traceback" not in result.err
        assert result.out == ""
    assert shell.contents() == before


def test_a_wrong_variable_is_named(shell: Shell) -> None:
    result = shell.run("once", code=2, environ={"MIN_WORKERS": "two"})
    assert 'environment variable MIN_WORKERS: "two" is not allowed; allowed: a whole number' in result.err
    assert shell.files() == []


def _text(path: Path) -> None:
    path.write_text("this is no database\n" * 50)


def _broken_pages(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[4096 : 4096 + 2048] = b"\xa5" * 2048
    path.write_bytes(whole)


def _cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize("damage", [_text, _broken_pages, _cut_short])
def test_a_corrupt_store_is_left_as_it_is(shell: Shell, damage: Callable[[Path], None]) -> None:
    shell.run("pause")
    database = shell.folder / "ebbtide.db"
    damage(database)
    before = database.read_bytes()
    for command in ("run", "once", "status"):
        result = shell.run(command, code=2)
        assert "ebbtide.db" in result.err
        assert "it was left as it is" in result.err
        assert "Traceback" not in result.err
    assert database.read_bytes() == before
    assert "ebbtide-simulated.json" not in shell.files()


def test_a_record_of_a_newer_version_is_left_as_it_is(shell: Shell) -> None:
    shell.run("pause")
    database = shell.folder / "ebbtide.db"
    with sqlite3.connect(database) as connection:
        ((body,),) = connection.execute("select body from ebbtide_state where pk = 'cluster'")
        newer = json.dumps({**json.loads(body), "formatVersion": 99})
        connection.execute("update ebbtide_state set body = ? where pk = 'cluster'", (newer,))
    connection.close()
    before = database.read_bytes()
    for command in ("run", "once", "plan", "status", "resume"):
        result = shell.run(command, code=2)
        assert "has format 99" in result.err
        assert "run the newer version, or upgrade this one" in result.err
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["status", "--jsn"], "No such option: --jsn"),
        (["explain"], "Missing argument 'ID'"),
        (["explain", "last"], "there is no decision yet"),
        (["replay", "nope"], "there is no decision yet"),
        (["simulate", "--seed", "-1"], "'--seed'"),
        (["simulate", "--scenario", "nope"], "unknown scenario 'nope'; choose from day, burst"),
        (["simulate", "--faults", "crsh"], "unknown fault 'crsh'; choose from crash"),
        (["demo", "--scenario", "nope"], "unknown scenario 'nope'"),
        (["log", "--kind", "foo"], "'foo' is not one of 'decision'"),
        (["log", "--limit", "0"], "'--limit'"),
        (["status", "-c", "absent.yaml"], "absent.yaml cannot be read (No such file or directory)"),
        (["pack", "--pods", "absent.csv", "--types", "absent.csv"], "absent.csv"),
    ],
)
def test_wrong_arguments_end_with_code_2(shell: Shell, arguments: list[str], says: str) -> None:
    result = shell.run(*arguments, code=2)
    assert says in result.err
    assert "Traceback" not in result.err
    assert shell.files() == []


def test_a_price_file_of_an_option_is_refused_by_its_own_name(shell: Shell) -> None:
    """The error named a variable of the environment that nobody had set."""
    for command in (["prices", "show", "--file", "nope.yaml"], ["assess", "-", "--prices", "nope.yaml"]):
        result = shell.run(*command, code=2)
        assert "nope.yaml" in result.err
        assert "PRICES_FILE" not in result.err


def test_debug_shows_where_an_error_happened(shell: Shell) -> None:
    result = shell.run("status", "--debug", code=1, environ={"MIN_WORKERS": "two"})
    assert "Traceback" in result.err
    assert "ConfigProblems" in result.err


def test_a_folder_that_cannot_hold_the_store_is_named(shell: Shell) -> None:
    result = shell.run("once", code=2, environ={"STORE_URL": "sqlite:///absent/ebbtide.db"})
    assert "absent" in result.err
    assert shell.files() == []
