"""Every command as a person would type it, in an empty folder, as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide import __version__
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock
from ebbtide.model.log import LogKind
from tests.e2e.shell import COMMAND, Shell, clean_environment

GROW = {"MIN_WORKERS": "3", "PENDING_UP_SEC": "0"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_the_version_and_the_help_are_told(shell: Shell) -> None:
    assert shell.run("--version").out == f"ebbtide {__version__}\n"
    told = shell.run("--help").out
    for command in (
        "demo",
        "run",
        "once",
        "status",
        "plan",
        "explain",
        "replay",
        "simulate",
        "pause",
        "resume",
    ):
        assert command in told


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from ebbtide.entrypoints.cli.app import app\n"
        "print([m for m in ('sqlalchemy', 'alembic', 'boto3', 'numpy', 'highspy',"
        " 'ebbtide.simulator.world.world') if m in sys.modules])"
    )
    python = COMMAND.with_name("python")
    found = subprocess.run([python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_looking_leaves_an_empty_folder_empty(shell: Shell) -> None:
    assert "No record yet" in shell.run("status").out
    assert json.loads(shell.run("status", "--json").out)["record"] is None
    assert "The next tick would do: nothing" in shell.run("plan").out
    assert shell.run("log").out == "The log is empty.\n"
    assert shell.run("config", "check").out.startswith("The configuration is valid (no file")
    assert shell.files() == []


def test_a_simulated_cluster_is_not_taken_for_the_own_one(shell: Shell) -> None:
    told = shell.run("plan").out
    assert "! Nothing is configured, so the cluster is simulated and nothing real is touched." in told
    assert "`ebbtide init` writes a configuration for yours" in " ".join(told.split())
    assert "ebbtide adopt" not in told, "nobody can adopt a node of a simulated cluster"
    assert shell.run("once").err.startswith("ebbtide: Nothing is configured, so the cluster is simulated")
    assert "Next: `ebbtide init` writes a configuration" in " ".join(shell.run("doctor").out.split())
    assert "does not set cluster.kind" not in told
    shell.write("own.yaml", "cluster: {name: shop}\n")
    refused = shell.run("-c", "own.yaml", "adopt", code=2).err
    assert "the configured cluster is simulated; nothing was changed" in refused
    told = shell.run("-c", "own.yaml", "plan").out
    assert "simulated, since own.yaml does not set cluster.kind to kubernetes" in " ".join(told.split())


def test_one_tick_is_told_in_a_sentence_and_kept(shell: Shell) -> None:
    assert "nothing to do: no scale-up: CPU" in shell.run("once").out
    status = json.loads(shell.run("status", "--json").out)
    assert status["record"]["pk"] == "cluster"
    assert status["record"]["scalingInProgress"] is False
    assert status["record"]["workerCount"] == 2
    assert status["lastDecision"]["says"].startswith("nothing: no scale-up")
    told = shell.run("status").out
    assert "workers" in told
    assert "2 (2 to 10 allowed)" in told


def test_a_decision_is_explained_and_replayed(shell: Shell) -> None:
    once = json.loads(shell.run("once", "--json").out)
    name = once["decision"]["id"]
    told = shell.run("explain", name).out
    assert f"decision {name}" in told
    assert "– idle long enough" in told
    assert "idle_down_sec is 10 min" in told
    assert shell.run("explain", "last").out == told
    assert json.loads(shell.run("explain", name, "--json").out)["id"] == name
    assert shell.run("replay", name).out.startswith(f"equal: decision {name} gives the same result")
    listed = shell.run("log", "--kind", "decision").out
    assert name in listed


def test_a_replay_that_differs_ends_with_code_1(shell: Shell) -> None:
    shell.run("once")
    store = SqlStore.open(f"sqlite:///{shell.folder}/ebbtide.db", SystemClock())
    (entry,) = store.read_log([LogKind.DECISION])
    decision = {**dict(entry.data["decision"]), "reason": "made up"}  # type: ignore[call-overload]
    store.append([replace(entry, id="zz", data={**entry.data, "decision": decision})])
    store.close()
    result = shell.run("replay", "zz", code=1)
    assert result.out.startswith("different: decision")
    assert "made up" in result.out


def test_an_open_operation_is_shown_and_planned(shell: Shell) -> None:
    shell.run("once")
    assert "launch" in shell.run("once", environ=GROW).out
    assert "scale-up by 1" in shell.run("status").out
    record = json.loads(shell.run("status", "--json").out)["record"]
    assert record["scalingInProgress"] is True
    assert record["scaleUpRequested"] == 1
    before = shell.contents()
    told = shell.run("plan", environ=GROW).out
    assert "would continue the operations in progress" in told
    plan = json.loads(shell.run("plan", "--json", environ=GROW).out)
    assert plan["action"] == "continue"
    assert shell.contents() == before


def test_a_scale_up_chooses_by_the_price_file_next_to_the_configuration(shell: Shell) -> None:
    shell.run("once")
    text = "currency: EUR\nas_of: 2026-01-01\nprices: {cpx32: 9, cpx22: 0.001}"
    assert "launch cpx32" in shell.run("plan", environ=GROW).out, "otherwise the file changes nothing"
    shell.write("ebbtide-prices.yaml", text)
    done = shell.run("once", environ=GROW)
    assert "launch cpx22" in done.out
    assert "days old" in done.err
    status = json.loads(shell.run("status", "--json").out)
    assert {(row["type"], row["per hour"], row["source"], row["as of"]) for row in status["prices"]} == {
        ("cpx32", "9", "ebbtide-prices.yaml", "2026-01-01"),
        ("cpx22", "0.001", "ebbtide-prices.yaml", "2026-01-01"),
    }


def test_the_budgets_and_the_prices_are_shown(shell: Shell) -> None:
    budget = {"BUDGETS": "[{nodes: 0, reasons: [idle], schedule: '* * * * *', duration: 1h}]"}
    shell.run("once")
    told = shell.run("status", environ=budget).out
    assert "budget  10% of the workers, or 1; 0 of 1 leaving\n" in told
    assert "budget  0 nodes for idle from '* * * * *' in UTC for 1h; 0 of 0 leaving, for another " in told
    assert "prices  2 of 2 known (Ebbtide built-in list, 2026-11-15)" in told
    shown = json.loads(shell.run("status", "--json", environ=budget).out)["budgets"]
    assert [(line["of"], line["active"], line["limit"]) for line in shown] == [
        ("cluster", True, 1),
        ("cluster", True, 0),
    ]


def test_a_price_file_that_is_named_and_missing_is_refused_before_anything_is_touched(shell: Shell) -> None:
    refused = shell.run("once", environ={"PRICES_FILE": "none.yaml"}, code=2)
    assert "PRICES_FILE: the price file none.yaml cannot be read: No such file or directory" in refused.err
    assert shell.files() == []


def test_removals_are_paused_and_resumed(shell: Shell) -> None:
    assert "Removals are paused (upgrade)" in shell.run("pause", "--reason", "upgrade").out
    assert "paused (upgrade)" in shell.run("status").out
    assert "– not paused" in shell.run("plan").out
    assert "Removals are allowed again." in shell.run("resume").out
    assert "Removals were not paused." in shell.run("resume").out
    switches = json.loads(shell.run("log", "--kind", "switch", "--json").out)
    assert switches[0]["says"] == "removals paused by a person (upgrade)"


def test_a_simulation_prints_the_same_json_for_the_same_seed(shell: Shell) -> None:
    asked = ("simulate", "--scenario", "burst", "--seed", "3", "--faults", "crash,lost-reply", "--json")
    first = shell.run(*asked).out
    assert shell.run(*asked).out == first
    result = json.loads(first)
    wanted = {
        "ticks",
        "launched",
        "removed",
        "node_hours",
        "cost",
        "pending_pod_seconds",
        "crashes",
        "violations",
    }
    assert wanted <= result.keys()
    assert result["violations"] == []


def test_a_simulation_is_also_told_to_people(shell: Shell) -> None:
    told = shell.run("simulate", "--scenario", "burst").out
    counts = json.loads(shell.run("simulate", "--scenario", "burst", "--json").out)
    lines = {line.split()[0]: line for line in told.splitlines()}
    assert told.startswith("burst, seed 1\n")
    assert lines["nodes"].split()[1:5] == [
        f"{counts['launched']}",
        "launched,",
        f"{counts['removed']}",
        "removed,",
    ]
    assert lines["cost"].split()[1:] == [counts["cost"], counts["currency"]]
    assert "No safety rule was violated." in told


def test_a_comparison_says_what_consolidation_saved(shell: Shell) -> None:
    command = ("simulate", "--scenario", "consolidation", "--seed", "2", "--compare")
    counts = json.loads(shell.run(*command, "--json").out)
    told = shell.run(*command).out
    assert counts["cost"] in told
    assert counts["without_consolidation"]["cost"] in told
    assert f"Consolidation saved {counts['saved']} EUR ({counts['saved_percent']:.1f}%)." in told


def test_the_demo_prints_plain_lines_without_a_terminal(shell: Shell) -> None:
    told = shell.run("demo", "--terminal", "--speed", "0").out
    assert "; another takes over" in told
    assert "interruption of" in told
    assert "launch m7i.xlarge" in told
    assert "cpx" not in told, "Hetzner sells no spot"
    assert " USD" in told
    assert "removed" in told
    assert told.endswith("No safety rule was violated.\n")
    assert shell.files() == []


def test_the_configuration_is_shown_with_where_it_came_from(shell: Shell) -> None:
    shell.write("ebbtide.yaml", "min_workers: 3\nstore: {url: 'postgresql+psycopg://ebb:hunter2@db/ebb'}\n")
    told = shell.run("config", "show", environ={"CPU_UP": "0.8"}).out
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in told.splitlines()}
    assert rows["min_workers"] == ["3", "file ebbtide.yaml line 1"]
    assert rows["cpu_up"] == ["0.8", "environment CPU_UP"]
    assert rows["cpu_down"] == ["0.3", "default"]
    assert "hunter2" not in told
    shown = json.loads(shell.run("config", "show", "--json").out)
    assert shown["min_workers"] == {"value": 3, "from": "file ebbtide.yaml line 1"}


def test_the_configuration_file_may_be_named_before_or_after_the_command(shell: Shell) -> None:
    shell.write("other.yaml", "cluster: {name: stall}\n")
    assert shell.run("-c", "other.yaml", "status").out.startswith("stall")
    assert shell.run("status", "--config", "other.yaml").out.startswith("stall")
    assert shell.run("status", environ={"EBBTIDE_CONFIG": "other.yaml"}).out.startswith("stall")


def test_the_store_is_made_and_checked(shell: Shell) -> None:
    assert "does not exist" in shell.run("db", "check", code=2).err
    assert "ebbtide.db" in shell.run("db", "upgrade").out
    assert "ebbtide.db is ready" in shell.run("db", "check").out


def test_pods_are_packed_from_files(shell: Shell) -> None:
    shell.write("pods.csv", "name,cpu_milli,memory_mib\na,500,512\nb,500,512\n")
    shell.write("types.csv", "name,cpu_milli,memory_mib,pods,price\ncpx22,2000,4096,110,0.0096\n")
    told = shell.run("pack", "--pods", "pods.csv", "--types", "types.csv", "--json").out
    assert [node["type"] for node in json.loads(told)["nodes"]] == ["cpx22"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_autoscaler_ends_gracefully(shell: Shell, number: signal.Signals) -> None:
    shell.write("ebbtide.yaml", "interval_sec: 1\nmetrics_addr: 127.0.0.1:0\n")
    process = subprocess.Popen(
        [COMMAND, "run"],
        cwd=shell.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(
            "The cluster is simulated, since ebbtide.yaml does not set"
        )
        assert process.stdout.readline().startswith(f"ebbtide {__version__}: cluster 'cluster' (simulator)")
        address = process.stdout.readline().removeprefix("Metrics: ").strip()
        assert "nothing to do" in process.stdout.readline()
        for page in ("metrics", "healthz", "readyz"):
            with urllib.request.urlopen(address.replace("metrics", page), timeout=10) as answer:
                assert answer.status == 200
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert out.endswith("Stopped: the lease is released, and open operations are in the record.\n")
    record = json.loads(shell.run("status", "--json").out)["record"]
    assert record["lockUntilEpoch"] <= time.time()


def test_ctrl_c_in_the_terminal_ends_the_demo_without_a_word_of_its_runners(shell: Shell) -> None:
    """It goes to all processes of the terminal: both runners printed the error that it is for them."""
    process = subprocess.Popen(
        [COMMAND, "demo", "--no-browser"],
        cwd=shell.folder,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(3)]
        assert "/#/now?token=" in told[1]
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert rest == "Stopped; nothing is left behind.\n"
    assert process.returncode == 0


def test_the_doctor_works_without_a_configuration(shell: Shell) -> None:
    told = shell.run("doctor")
    assert "are simulated, since nothing is configured" in told.out
    assert "the first run makes it" in told.out
    assert shell.files() == [], "nothing is changed"
    shell.run("once")
    assert "the record can be read and may be written" in shell.run("doctor").out


def test_python_m_ebbtide_is_the_same_as_ebbtide(shell: Shell) -> None:
    command = [sys.executable, "-m", "ebbtide", "--help"]
    done = subprocess.run(
        command, cwd=shell.folder, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, shell.run("--help").out)


def test_status_shows_the_headroom_that_is_wanted_there_and_missing(shell: Shell) -> None:
    shell.write(
        "ebbtide.yaml",
        """
        max_workers: 3
        headroom:
          - {cpu: 1500m, memory: 1Gi, count: 99}
          - {cpu: 500m, memory: 1Gi, schedule: {cron: "0 0 29 2 *", duration: 1h}}
        """,
    )
    shell.run("once")
    told = shell.run("status").out
    assert "99 pods of 1500m CPU and 1024 MiB: room for" in told
    assert "missing" in told
    assert "for 1 h; not now" in told
    first, second = json.loads(shell.run("status", "--json").out)["headroom"]
    assert (first["wanted"], first["there"] + first["missing"]) == (99, 99)
    assert (second["wanted"], second["there"], second["missing"]) == (0, 0, 0)
