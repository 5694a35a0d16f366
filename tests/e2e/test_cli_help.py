"""Help and completion: commands in groups, flags without a type, 80 columns, JSON for all that reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.cli_reference import commands
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
