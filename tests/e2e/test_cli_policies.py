"""Policies, wakes and savings on the command line: a real store, the simulated cluster, in one process."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from ebbtide.config import Config
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.core.scale_to_zero.machine import TargetStep
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.entrypoints.cli import main
from ebbtide.entrypoints.cli.policies import book_of, in_the_store
from ebbtide.model.idle import IdleState, NodeFirst, NodeNeed, Phase, Rate, Stretch
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy
from tests.e2e.shell import Outcome

WEB = """
name: web
target: {workloads: [{name: web}]}
scale_to_zero: true
signals: [{kind: reported}]
hourly_cost: 0.36
"""
TWO = WEB + "---\n---\nname: jobs\ntarget: {workloads: [{kind: StatefulSet, name: jobs}]}\n"
Ask = Callable[..., Outcome]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """`ebbtide` in an empty folder: what it prints, and its exit code."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def ask(*arguments: str, code: int = 0, text: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        try:
            main(arguments)
            found = 0
        except SystemExit as ended:
            found = int(ended.code or 0)
        told = capsys.readouterr()
        assert found == code, told
        return Outcome(found, told.out, told.err)

    return ask


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("wake web", 1),
        ("wake --all", 0),
        ("policy show web", 1),
        ("policy list", 0),
        ("policy delete web --yes", 1),
        ("policy pause web", 1),
        ("policy resume web", 1),
        ("policy keep-up web --for 3h", 1),
        ("resume", 0),
    ],
)
def test_a_command_about_what_is_not_there_leaves_no_file_behind(
    ask: Ask, tmp_path: Path, command: str, code: int
) -> None:
    told = ask(*command.split(), code=code)
    assert list(tmp_path.iterdir()) == []
    assert not told.err or "there is no policy 'web'" in told.err


def config() -> Config:
    return build_config(Read(), {})


def write(policy_name: str, *stretches: Stretch, **changes: object) -> Policy:
    """Bring the state of a policy to this, as the engine would write it."""
    with in_the_store(config()) as scaling:
        policy = book_of(scaling).find(policy_name)
        state = scaling.ports.policies.find_state(policy.id) or IdleState(policy.id)
        mine = [replace(stretch, policy_id=policy.id) for stretch in stretches]
        after = replace(state, **changes)  # type: ignore[arg-type]
        PolicyContext(scaling.ports, scaling.defaults, config().settings).save(
            policy, TargetStep(after, stretches=tuple(mine))
        )
        return policy


def test_policies_are_applied_listed_shown_and_deleted(ask: Ask, tmp_path: Path) -> None:
    assert ask("policy", "list").out.startswith("There is no policy yet")
    assert list(tmp_path.iterdir()) == []
    assert ask("policy", "apply", "-f", "-", text=TWO).out == "policy web: created\npolicy jobs: created\n"
    (tmp_path / "web.yaml").write_text(WEB)
    assert ask("policy", "apply", "-f", "web.yaml").out == "policy web: unchanged\n"
    (tmp_path / "web.yaml").write_text(WEB.replace("0.36", "0.72"))
    assert ask("policy", "apply", "-f", "web.yaml").out == "policy web: changed\n"
    lines = ask("policy", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["jobs", "web"]
    assert "Deployment default/web" in lines[1]
    listed = json.loads(ask("policy", "list", "--json").out)
    assert [(each["name"], each["version"]) for each in listed] == [("jobs", 1), ("web", 2)]
    shown = ask("policy", "show", "web").out
    assert "# active: last used" in shown
    (tmp_path / "again.yaml").write_text(shown)
    assert ask("policy", "apply", "-f", "again.yaml").out == "policy web: unchanged\n"
    assert json.loads(ask("policy", "show", "web", "--json").out)["policy"]["hourly_cost"] == "0.72"
    assert "Add --yes" in ask("policy", "delete", "web", code=2).err
    assert ask("policy", "delete", "web", "--yes").out == "policy web: deleted.\n"
    assert "there is no policy 'web'" in ask("policy", "show", "web", code=1).err


def test_what_is_wrong_with_any_policy_is_said_with_its_place_and_none_is_written(
    ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "bad.yaml").write_text(
        f"{WEB}---\nname: Jobs\ntarget: {{pool: none}}\nmax_replica: 3\n---\n"
        "target: {pool: workers}\nschedules:\n  - cron: 61 * * * *\n"
    )
    said = ask("policy", "apply", "-f", "bad.yaml", code=2).err
    assert said.startswith("ebbtide: the policies have 4 problems; nothing was touched.\n")
    assert 'bad.yaml line 8, name: "Jobs" is not allowed; allowed: small letters' in said
    assert "bad.yaml line 10, max_replica: unknown key; did you mean max_replicas?" in said
    assert "bad.yaml line 12, name: is missing" in said
    assert "bad.yaml line 14, schedules[0].cron: " in said
    (tmp_path / "bad.yaml").write_text(f"{WEB}---{WEB}")
    said = ask("policy", "apply", "-f", "bad.yaml", code=2).err
    assert 'bad.yaml line 8, name: "web" is used twice' in said
    for text, why in (
        ("name: [", "standard input line 1, column 8, is not valid YAML"),
        ("- web", "standard input must hold keys with values, such as `name: web`"),
        ("# nothing", "there is no policy in what was given"),
        ("name: web\nname: web", "standard input line 2, name: the key stands twice"),
        ("a: \x07", "is not valid YAML"),
    ):
        assert why in ask("policy", "apply", "-f", "-", text=text, code=2).err
    assert "none.yaml cannot be read" in ask("policy", "apply", "-f", "none.yaml", code=2).err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.yaml"]


def test_policies_that_do_not_fit_next_to_those_in_the_store_are_not_written(ask: Ask) -> None:
    ask("policy", "apply", "-f", "-", text=WEB)
    other = "name: other\ntarget: {workloads: [{name: other}]}\n---"
    said = ask(
        "policy", "apply", "-f", "-", text=other + WEB.replace("name: web\n", "name: twin\n"), code=2
    ).err
    assert "nothing was touched.\n  policy twin, target.workloads[0]: Deployment default/web is the" in said
    assert [each["name"] for each in json.loads(ask("policy", "list", "--json").out)] == ["web"]


def test_one_that_has_left_the_configuration_is_said_until_somebody_takes_it_over(
    ask: Ask, tmp_path: Path
) -> None:
    (tmp_path / "ebbtide.yaml").write_text("policies:\n  - {name: web, target: {workloads: [{name: web}]}}\n")
    assert "ebbtide: policy web: created, as ebbtide.yaml says" in ask("once").err
    (tmp_path / "ebbtide.yaml").write_text("policies: []\n")
    assert "ebbtide: policy web: no longer in ebbtide.yaml" in ask("once").err
    ask("policy", "apply", "-f", "-", text=ask("policy", "show", "web").out)
    assert "policy web" not in ask("once").err


def test_a_policy_that_the_configuration_has_too_is_said(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "ebbtide.yaml").write_text("policies:\n  - {name: web, target: {workloads: [{name: web}]}}\n")
    told = ask("policy", "apply", "-f", "-", text=WEB)
    assert "policy web is also in ebbtide.yaml: the next start brings it back to that" in told.err
    assert "the next start creates it again" in ask("policy", "delete", "web", "--yes").err


def test_a_policy_is_paused_resumed_and_kept_up(ask: Ask) -> None:
    ask("policy", "apply", "-f", "-", text=WEB)
    ask("policy", "pause", "web")
    assert json.loads(ask("policy", "show", "web", "--json").out)["state"]["paused"] is True
    assert "# paused" in ask("policy", "show", "web").out
    ask("policy", "resume", "web")
    assert "web is kept up until" in ask("policy", "keep-up", "web", "--for", "3h").out
    state = json.loads(ask("policy", "show", "web", "--json").out)["state"]
    assert (state["paused"], state["why_awake"]) == (False, "it is kept up")
    assert abs(state["keep_up_until"] - time.time() - 10_800) < 600
    assert "no longer kept up" in ask("policy", "keep-up", "web", "--for", "0").out
    assert (
        "--for: '3 hours' is not a duration"
        in ask("policy", "keep-up", "web", "--for", "3 hours", code=2).err
    )
    for command in ("pause", "resume", "show"):
        assert "there is no policy 'none'" in ask("policy", command, "none", code=1).err


def test_a_sleeping_policy_is_woken_by_name_or_with_all(ask: Ask) -> None:
    ask("policy", "apply", "-f", "-", text=WEB)
    slept = int(time.time()) - 600
    policy = write("web", phase=Phase.ZERO, scaled_to_zero_at=slept, idle_since=slept)
    said = ask("policy", "list").out
    assert "asleep for 10 min" in said
    assert "a wake takes about 30 s" in said
    told = "a wake takes about 30 s (assumed, no wake has been timed yet)"
    assert told in " ".join(ask("status").out.split())
    assert json.loads(ask("status", "--json").out)["asleep"] == [
        {
            "policy": "web",
            "phase": "zero",
            "estimated_ready_seconds": 30,
            "node_first": "unknown",
            "says": told,
        }
    ]
    write("web", node_first=NodeFirst(NodeNeed.LAUNCH, "workers"))
    assert "a wake takes about 2 min 30 s, with a new node" in ask("policy", "list").out
    assert "including 2 min until a new node of pool workers is Ready" in " ".join(
        ask("policy", "show", "web").out.replace("#", "").split()
    )
    write("web", node_first=NodeFirst(NodeNeed.NEVER, why="needs 9000m CPU, 4000m free"))
    assert "; no node that may be launched would take it" in ask("policy", "list").out
    write("web", node_first=NodeFirst(NodeNeed.COMING, "workers", int(time.time())))
    assert "with a node that is on its way" in ask("policy", "list").out
    write("web", node_first=None)
    left = ask("policy", "delete", "web", code=2).err
    assert "Deployment default/web stays at zero; `ebbtide wake web` first wakes it." in left
    woken = json.loads(ask("wake", "web", "--reason", "webhook", "--json").out)
    assert [(each["policy_id"], each["status"], each["wake_reason"]) for each in woken] == [
        (policy.id, "waking", "webhook")
    ]
    assert ask("wake", "web", "--wait").out.startswith("web  Ready, ")
    assert json.loads(ask("policy", "show", "web", "--json").out)["state"]["phase"] == "active"
    assert ask("wake", "--all").out == "None sleeps.\n"
    write("web", phase=Phase.ZERO, scaled_to_zero_at=slept, idle_since=slept)
    assert ask("wake", "--all").out.startswith("web  Wake initiated: ")
    for arguments in (("wake",), ("wake", "web", "--all")):
        assert "name the policies to wake, or give --all" in ask(*arguments, code=2).err
    assert "there is no policy 'none'" in ask("wake", "web", "none", code=1).err


def test_a_wait_that_times_out_ends_with_code_1(ask: Ask) -> None:
    gone = WEB.replace("name: web}", "name: gone}") + "cold_start_timeout_seconds: 1\n"
    ask("policy", "apply", "-f", "-", text=gone)
    write("web", phase=Phase.ZERO, scaled_to_zero_at=1, remembered=())
    assert "there is no Deployment default/gone" in ask("wake", "web", "--wait", code=1).err


def test_savings_have_a_bar_for_each_day_and_can_be_rebuilt(ask: Ask) -> None:
    assert ask("savings").out == "Nothing has run here yet, so nothing has been saved.\n"
    ask("policy", "apply", "-f", "-", text=TWO)
    assert ask("savings").out.startswith("Nothing slept and nothing was idle from ")
    midnight = int(datetime(2026, 3, 10, tzinfo=UTC).timestamp())
    rate = Rate(Decimal("0.36"), "EUR", "policy", Decimal("0.10"))
    idle = Stretch("", "UTC", Phase.IDLE, midnight, midnight + 6 * 3600, rate)
    zero = Stretch("", "UTC", Phase.ZERO, midnight + 6 * 3600, midnight + 30 * 3600, rate, 1)
    policy = write("web", idle, zero)
    asked = ("--from", "2026-03-01", "--to", "2026-03-31")
    for name in ((), ("web",)):
        told = ask("savings", *name, *asked).out.splitlines()
        assert told[0].startswith(
            "2026-03-10  ██████████████████░░░░░░    18.0 h at zero    24.0 h idle  6.4800"
        )
        assert told[1].startswith("2026-03-11  ██████··················     6.0 h at zero")
        assert "1 wake" in told[1]
        assert any(line.startswith("saved     8.6400 EUR") for line in told)
    shape = json.loads(ask("savings", "web", "--json", *asked).out)
    assert (shape["policy_id"], shape["total_scaled_to_zero_hours"]) == (policy.id, 24.0)
    assert ask("savings", "web", "--csv", *asked).out.splitlines()[1:] == [
        "2026-03-10,24.0,18.0,6.4800,1.8000,1.8000,0,0,EUR",
        "2026-03-11,6.0,6.0,2.1600,0.6000,0.6000,1,0,EUR",
    ]
    assert "web   2 days from 2 entries of the log; as it was" in ask("savings", "rebuild").out
    with in_the_store(config()) as scaling:
        scaling.ports.policies.replace_days(policy.id, [])
        assert len(scaling.ports.store.read_log([LogKind.STRETCH])) == 2
    assert "the ledger was wrong and is corrected" in ask("savings", "rebuild", "web").out
    assert json.loads(ask("savings", "web", "--json", *asked).out) == shape
    ask("policy", "delete", "web", "--yes")
    assert json.loads(ask("savings", policy.id, "--json", *asked).out) == shape


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--from", "2026-13-01"), "--from: '2026-13-01' is not a day"),
        (("--from", "2026-02-02", "--to", "2026-02-01"), "--from: 2026-02-02 is after 2026-02-01"),
        (("--json", "--csv"), "use either --json or --csv"),
        (("web", "jobs"), "one policy at a time"),
    ],
)
def test_savings_that_cannot_be_asked_for_so_are_refused(
    ask: Ask, arguments: tuple[str, ...], why: str
) -> None:
    assert why in ask("savings", *arguments, code=2).err
