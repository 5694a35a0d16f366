"""Help and completion: commands in groups, flags without a type, 80 columns, JSON for all that reads."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ebbtide.entrypoints.cli import main
from scripts.cli_reference import commands
from tests.dumps import DUMPS
from tests.e2e.shell import COMMAND, Shell, clean_environment

WRITES = {
    ("adopt",),
    ("db", "create"),
    ("db", "prune"),
    ("db", "upgrade"),
    ("demo",),
    ("gate",),
    ("gate", "release"),
    ("init",),
    ("once",),
    ("pause",),
    ("policy", "apply"),
    ("policy", "delete"),
    ("policy", "keep-up"),
    ("policy", "pause"),
    ("policy", "resume"),
    ("prices", "update"),
    ("record",),
    ("report",),
    ("resume",),
    ("run",),
    ("serve",),
    ("token", "new"),
    ("wake",),
}
"""Commands that do something or write a file; all others only read."""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_every_command_that_only_reads_prints_json() -> None:
    reading = {words: command for words, command in commands() if words not in WRITES}
    lacking = [
        words for words, command in reading.items() if not any("--json" in p.opts for p in command.params)
    ]
    assert lacking == []
    assert len(reading) > 10


def test_help_shows_groups_in_80_columns_and_no_type_for_a_flag(shell: Shell) -> None:
    told = shell.run("--help", environ={"COLUMNS": "80"}).out
    for group in ("Start", "Run", "Look, and change nothing", "Scale to zero", "Costs and simulation"):
        assert f" {group} " in told
    helps = [told, *(shell.run(*words, "--help", environ={"COLUMNS": "80"}).out for words in ALL_KINDS)]
    for text in helps:
        assert "<bool>" not in text
        assert max(map(len, text.splitlines())) <= 80


ALL_KINDS = (["db"], ["db", "check"], ["plan"], ["policy", "list"])


def test_what_is_read_as_json_is_json(shell: Shell) -> None:
    assert json.loads(shell.run("config", "check", "--json").out)["ok"] is True
    shell.run("once", environ={"PENDING_UP_SEC": "0", "MIN_WORKERS": "3"})
    assert json.loads(shell.run("db", "check", "--json").out)["ok"] is True
    told = json.loads(shell.run("replay", "last", "--json").out)
    assert told["equal"] is True
    assert told["stored"] == told["again"]


READING = {
    "assess": "dump.json",
    "backtest": "",
    "config check": "",
    "config show": "",
    "consolidate": "--dry-run",
    "db check": "",
    "doctor": "",
    "explain": "last",
    "forecast": "",
    "log": "",
    "pack": "--pods pods.csv --types types.csv",
    "plan": "",
    "policy list": "",
    "policy show": "nights",
    "prices show": "",
    "replay": "last",
    "savings": "",
    "simulate": "--scenario never-join",
    "status": "",
    "tune": "",
}
"""What each needs. `backtest`, `forecast` and `tune` need a recording: tests/stories asks them for JSON."""
NEEDS_A_RECORDING = {"backtest", "forecast", "tune"}
COLUMN = re.compile(r"\S {2,}\S")
"""A line of a table; a sentence has one space between its words and is wrapped by the terminal."""


def test_every_reading_command_prints_json_and_tables_that_fit_80_columns(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading = {" ".join(words) for words, _ in commands() if words not in WRITES}
    assert reading == set(READING)
    for name in clean_environment().keys() ^ os.environ.keys():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(shell.folder)
    shell.write("ebbtide.yaml", ALL_POOLS)
    shell.write("policies.yaml", NIGHTS)
    (shell.folder / "dump.json").write_bytes(DUMPS["eks"]())
    shell.write("pods.csv", "name,cpu_milli,memory_mib\nweb-1,500,512\n")
    shell.write("types.csv", "name,cpu_milli,memory_mib,pods,price\ncpx32,4000,8192,110,0.0168\n")
    said(["once"], capsys)
    said(["policy", "apply", "-f", "policies.yaml"], capsys)
    for name in sorted(reading - NEEDS_A_RECORDING):
        asked = [*name.split(), *READING[name].split()]
        wide = [line for line in said(asked, capsys).splitlines() if COLUMN.search(line) and len(line) > 80]
        assert wide == [] or name in SENTENCES, f"{asked}: {wide}"
        json.loads(said([*asked, "--json"], capsys))


SENTENCES = {"consolidate", "doctor", "explain", "log", "plan", "simulate", "status"}
"""Their last column is a sentence, which the terminal wraps."""
ALL_POOLS = """\
cluster: {name: shop}
pools:
  - {name: general-purpose, types: [m7i.large, m7i.xlarge], zones: [eu-central-1a]}
  - {name: batch, market: spot, types: [c7i.xlarge], zones: [eu-central-1a]}
api: {hosts: [localhost, 127.0.0.1, ebbtide.internal.example.com, ebbtide.example.com, another.example.com]}
"""
NIGHTS = """\
name: nights
target: {workloads: [{name: web}]}
scale_to_zero: true
signals: [{kind: reported}]
"""


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code: object = 0
    try:
        main(arguments)
    except SystemExit as ended:
        code = ended.code
    told = capsys.readouterr()
    assert code in {None, 0, 1 if arguments[0] == "doctor" else 0}, (arguments, told)
    return told.out


def test_help_names_the_columns_of_every_csv(shell: Shell) -> None:
    from ebbtide.entrypoints.pack import _POD_COLUMNS, _TYPE_COLUMNS
    from ebbtide.entrypoints.views.policy_shapes import COLUMNS

    told = shell.run("pack", "--help", environ={"COLUMNS": "200"}).out
    assert ",".join(_POD_COLUMNS) in told
    assert ",".join(_TYPE_COLUMNS) in told
    told = shell.run("savings", "--help", environ={"COLUMNS": "300"}).out
    assert ", ".join([*COLUMNS, "currency"]) in told
    assert "seconds in the first column" in shell.run("record", "--help", environ={"COLUMNS": "200"}).out


def complete(shell: str, typed: str) -> str:
    words = {"_EBBTIDE_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": typed, "COMP_WORDS": typed}
    more = {"COMP_CWORD": str(len(typed.split(" ")) - 1), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [COMMAND],
        env=clean_environment({**words, **more}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell_name: str) -> None:
    assert "plan" in complete(shell_name, "ebbtide pl")
    assert "--dry-run" in complete(shell_name, "ebbtide adopt --dr")
    assert "upgrade" in complete(shell_name, "ebbtide db up")


def test_bash_takes_the_script_that_is_printed(shell: Shell) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    typed = f'eval "$({COMMAND} --show-completion bash)"; complete -p ebbtide'
    done = subprocess.run(
        [bash, "-c", typed],
        env=clean_environment({"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "-F _ebbtide_completion ebbtide" in done.stdout, done.stderr
