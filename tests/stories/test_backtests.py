"""Backtests: a recording with other settings, next to what was recorded."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from ebbtide.entrypoints.views.foresight import backtest_fact, backtest_json, backtest_lines, calibration
from ebbtide.errors import ConfigError, Usage
from ebbtide.simulator.backtest.runs import (
    AS_RECORDED,
    Results,
    Run,
    Work,
    candidates,
    percentile,
    play_work,
    story_for,
    with_today,
)
from ebbtide.simulator.backtest.sweep import Agreement, agreements, rows_of
from ebbtide.simulator.recording.file import VERSION, Recorded, write_recording
from tests.e2e.shell import COMMAND, Shell, clean_environment
from tests.stories.playing import POOLS
from tests.stories.test_recording_files import recording

SETTINGS = {"pools": POOLS, "consolidation": {"enabled": False, "cooldown_sec": 60}}


def run(candidate: str = AS_RECORDED, seed: int = 1, **values: Any) -> Run:
    return Run(
        **{
            "candidate": candidate, "seed": seed, "cost": "10.00", "currency": "EUR", "node_hours": 100.0,
            "pending_pod_seconds": 600, "wait_p95": 60.0, "wait_p99": 90.0, "pods_that_waited": 10,
            "evictions": 5, "launched": 3, "removed": 2, "interruptions": 0, "hours_asleep": 0.0, "wakes": 0,
            **values,
        }
    )  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_each_file_and_profile_is_a_candidate_and_all_keys_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("max_workers: 7\nstore: {url: 'sqlite:///secret.db'}\n")
    changes = ["max_workers=20", "consolidation.enabled=true"]
    found = candidates(SETTINGS, [tmp_path / "a.yaml"], ["eager"], changes)
    assert [one.name for one in found] == [
        AS_RECORDED, "a.yaml", "profile eager", "max_workers=20, consolidation.enabled=true",
    ]  # fmt: skip
    assert found[1].settings == {"max_workers": 7}
    assert found[2].settings["profile"] == "eager"
    assert found[3].settings["consolidation"] == {"enabled": True, "cooldown_sec": 60}


def test_files_of_the_same_name_are_rows_of_their_own_and_a_file_twice_is_one(tmp_path: Path) -> None:
    """They were one row, with the mean of both."""
    paths = [tmp_path / folder / "ebbtide.yaml" for folder in ("a", "b")]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(f"max_workers: {7 + number}\n")
    found = candidates(SETTINGS, [*paths, paths[0]], [], [])
    assert [one.name for one in found] == [AS_RECORDED, *map(str, paths)]
    assert [one.settings["max_workers"] for one in found[1:]] == [7, 8]


def test_a_wrong_key_is_said_in_the_words_of_who_typed_it() -> None:
    """It named line 1 of a story that nobody wrote."""
    with pytest.raises(Usage) as error:
        candidates(SETTINGS, [], [], ["pendig_up_sec=3"])
    assert str(error.value).splitlines() == [
        "pendig_up_sec=3 does not fit the settings of the recording; nothing ran.",
        "  pendig_up_sec: unknown key; did you mean pending_up_sec?",
        "Correct --set or --profile. `ebbtide config show` prints all keys.",
    ]


def test_a_page_that_could_not_be_written_is_refused_before_anything_runs(shell: Shell) -> None:
    shell.write("trace.csv", "seconds,web\n0,2\n600,9\n")
    shell.run("record", "--csv", "trace.csv", "--cpu", "500m", "--memory", "512Mi", "-o", "month.ebb")
    told = shell.run("backtest", "month.ebb", "--html", "missing/page.html", code=2).err
    assert "folder missing" in told
    assert "nothing ran" in told
    assert shell.files() == ["month.ebb", "trace.csv"]


@pytest.mark.parametrize("change", ["max_workers", "=3", ".a=3", "a=[1", "a=2026-13-01"])
def test_a_change_that_is_none_is_refused(change: str) -> None:
    with pytest.raises(Usage, match="nothing ran"):
        candidates(SETTINGS, [], [], [change])


def test_a_profile_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Usage, match="Allowed: classic, balanced, eager"):
        candidates(SETTINGS, [], ["fast"], [])


def test_a_run_ticks_as_often_as_its_settings_say_and_gives_the_same_each_time() -> None:
    found = candidates(recording().story["settings"], [], ["balanced"], [])
    work = Work(recording(), "month.ebb", found[1], 3)
    assert story_for(work).keys.tick_sec == 15
    played = play_work(work)
    assert played == play_work(work)
    assert (played.candidate, played.seed, played.violations) == ("profile balanced", 3, ())
    assert played.launched > 0
    assert played.wait_p95 <= played.wait_p99


def test_a_finished_run_is_not_played_again_and_a_line_cut_off_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "month.ebb.runs"
    work = Work(recording(), "month.ebb", candidates(SETTINGS, [], [], [])[0], 1)
    Results(path).keep(work, run())
    with path.open("ab") as file:
        file.write(b'{"key": "cut o')
    assert Results(path).find(work) == run()
    other = msgspec.structs.replace(recording(), recorded=Recorded(source="another"))
    assert Results(path).find(Work(other, "month.ebb", work.candidate, 1)) is None
    assert Results(None).find(work) is None
    kept = Results(tmp_path / "folder")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="with --keep"):
        kept.keep(work, run())


def test_after_a_line_that_was_cut_off_the_next_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "month.ebb.runs"
    first, second = (Work(recording(), "month.ebb", candidates(SETTINGS, [], [], [])[0], n) for n in (1, 2))
    Results(path).keep(first, run())
    with path.open("ab") as file:
        file.write(b'{"key":"cut o')
    later = Results(path)
    later.keep(second, run())
    later.keep(first, run())
    found = Results(path)
    assert (found.find(first), found.find(second), found.kept) == (run(), run(), 2)


def test_a_file_of_finished_runs_that_is_cut_off_at_any_byte_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "month.ebb.runs"
    work = Work(recording(), "month.ebb", candidates(SETTINGS, [], [], [])[0], 1)
    Results(path).keep(work, run())
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        Results(path).keep(work, run())
        assert Results(path).find(work) == run(), length


def test_rows_are_means_with_their_spread_and_the_front_is_marked() -> None:
    runs = [
        run(seed=1, cost="10.00"), run(seed=2, cost="12.00", pending_pod_seconds=800),
        run("cheap", cost="5.00", pending_pod_seconds=5000), run("worse", cost="11.50", evictions=6),
    ]  # fmt: skip
    first, cheap, worse = rows_of(runs)
    assert (first.cost, first.cost_low, first.cost_high) == (
        Decimal("11.00"),
        Decimal("10.00"),
        Decimal("12.00"),
    )
    assert (first.pending_pod_seconds, first.pending_low, first.pending_high) == (700, 600, 800)
    assert (first.best, cheap.best) == (True, True)
    assert worse.best  # it waits less than the mean of the first
    assert not rows_of([run(), run("worse", evictions=6)])[1].best


def test_the_first_line_says_how_far_the_simulation_is_off() -> None:
    recorded = Recorded(node_hours=105.0, pending_pod_seconds=1000.0)
    found = agreements(recorded, rows_of([run()]))
    assert [(one.what, round(one.off, 3), one.doubtful) for one in found] == [
        ("node-hours", -0.048, False), ("waiting", -0.4, True),
    ]  # fmt: skip
    assert calibration(found).endswith("more than 10% off in waiting: take the rows with care")
    assert "+0.0%" in calibration([Agreement("waiting", 0, 0)])
    assert "nothing to compare with" in calibration([Agreement("waiting", 0, 9)])
    assert calibration(()).startswith("calibration: not possible")
    assert "--prometheus or --log" in calibration(())


def test_what_is_shown_has_a_row_for_what_happened_and_names_violations() -> None:
    recorded = Recorded(
        node_hours=105.0, pending_pod_seconds=1000.0, cost="11.20", currency="EUR", evictions=7
    )
    violation = "at 60: a node too many"
    rows = rows_of([run(), run(seed=2, cost="10.04", violations=(violation,))])
    found = agreements(recorded, rows)
    text = [str(line) for line in backtest_lines(rows, found, recorded)]
    assert any(line.startswith("what happened") and "11.20 EUR" in line for line in text)
    assert any(
        line.startswith("as recorded, simulated *") and "10.02 (10.00-10.04) EUR" in line for line in text
    )
    assert [line for line in text if line.endswith(f"as recorded: {violation}")] != []
    told = backtest_json(rows, found, recorded)
    assert told["candidates"][0]["cost"] == "10.02"
    assert " 10.00 EUR" in str(backtest_lines(rows_of([run(), run(seed=2)]), found, recorded)[3])
    assert [one["doubtful"] for one in told["calibration"]] == [False, True]


def test_percentiles_are_the_waits_of_pods() -> None:
    assert percentile([], 95) == 0
    assert percentile([1.0, 2.0, 3.0], 95) == 3
    assert percentile(list(map(float, range(1, 101))), 95) == 95


def test_the_command_compares_resumes_and_writes_a_page(shell: Shell) -> None:
    write_recording(shell.folder / "month.ebb", recording())
    ask = ("backtest", "month.ebb", "--set", "pending_up_sec=30", "--seeds", "2", "--json")
    first = shell.run(*ask, "--html", "page.html").out
    assert first == shell.run(*ask).out
    told = json.loads(first)
    names = [one["name"] for one in told["candidates"]]
    assert names == [AS_RECORDED, "pending_up_sec=30"]
    assert told["candidates"][1]["pending_pod_seconds"] < told["candidates"][0]["pending_pod_seconds"]
    assert len((shell.folder / "month.ebb.runs").read_text().splitlines()) == 4
    page = (shell.folder / "page.html").read_text()
    assert "<svg" in page
    assert "<script" not in page
    assert "pending_up_sec=30" in page
    assert "calibration: node-hours" in shell.run("backtest", "month.ebb").out


@pytest.mark.parametrize("command", ["backtest", "tune"])
def test_a_folder_for_results_that_is_not_there_is_refused_before_anything_runs(
    shell: Shell, command: str
) -> None:
    """It was said after the first run, which was then lost."""
    write_recording(shell.folder / "month.ebb", recording(until=4 * 3600))
    refused = shell.run(command, "month.ebb", "--keep", "missing/month.runs", code=2).err
    assert "nothing ran" in refused
    assert "--keep" in refused
    assert shell.files() == ["month.ebb"]


@pytest.mark.parametrize("command", ["backtest", "tune"])
@pytest.mark.parametrize("name", ["folder", "month.ebb"])
def test_what_is_no_file_of_finished_runs_is_refused_before_anything_runs(
    shell: Shell, command: str, name: str
) -> None:
    """A folder was refused after the first run, and to the recording itself runs were added."""
    write_recording(shell.folder / "month.ebb", recording(until=4 * 3600))
    before = (shell.folder / "month.ebb").read_bytes()
    (shell.folder / "folder").mkdir()
    refused = shell.run(command, "month.ebb", "--keep", name, code=2).err
    assert f"{name} " in refused or f"{name}:" in refused
    assert "nothing ran" in refused
    assert "--keep" in refused
    assert shell.files() == ["folder", "month.ebb"]
    assert (shell.folder / "month.ebb").read_bytes() == before


def test_ctrl_c_keeps_what_is_finished_and_says_so_and_the_same_command_continues(shell: Shell) -> None:
    write_recording(shell.folder / "month.ebb", recording())
    ask = ("backtest", "month.ebb", "--seeds", "300")
    kept = shell.folder / "month.ebb.runs"
    with subprocess.Popen(
        [COMMAND, *ask], cwd=shell.folder, env=clean_environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not (kept.exists() and kept.read_bytes().count(b"\n") > 1):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    before = kept.read_text().splitlines()
    assert process.returncode == 130
    assert f"{len(before)} finished runs" in told
    assert "Traceback" not in told
    shell.run("backtest", "month.ebb", "--seeds", str(len(before)))
    assert kept.read_text().splitlines() == before


@pytest.mark.parametrize("command", ["simulate", "backtest", "tune", "forecast"])
def test_a_recording_of_a_newer_version_is_refused_by_every_command(shell: Shell, command: str) -> None:
    newer = msgspec.structs.replace(recording(), ebb=VERSION + 1)
    write_recording(shell.folder / "month.ebb", newer)
    refused = shell.run(command, "month.ebb", code=2).err
    assert f"has version {VERSION + 1}" in refused
    assert "nothing ran" in refused
    assert shell.files() == ["month.ebb"]


def test_a_wrong_setting_is_refused_before_anything_runs(shell: Shell) -> None:
    write_recording(shell.folder / "month.ebb", recording())
    refused = shell.run("backtest", "month.ebb", "--set", "max_workers=-1", code=2)
    assert "max_workers" in refused.err
    assert shell.files() == ["month.ebb"]


def test_todays_settings_are_tried_as_well_unless_a_candidate_has_them(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text("max_workers: 7\nstore: {url: 'sqlite:///secret.db'}\n")
    tried, today = with_today(candidates({"max_workers": 7}, [], ["eager"], []), path)
    assert ([one.name for one in tried], today) == ([AS_RECORDED, "profile eager"], AS_RECORDED)
    tried, today = with_today(candidates(SETTINGS, [], [], []), path)
    assert [one.name for one in tried] == [AS_RECORDED, "today (ebbtide.yaml)"]
    assert (tried[1].settings, today) == ({"max_workers": 7}, "today (ebbtide.yaml)")


def test_what_is_published_has_today_and_the_front_first_and_no_more_than_an_entry_holds() -> None:
    runs = [run(f"worse {n}", cost=f"{20 + n}.00", evictions=9) for n in range(80)]
    runs += [run(cost="12.00"), run("x" * 300, cost="5.00", pending_pod_seconds=5000)]
    fact = backtest_fact("month.ebb", 3600.0, rows_of(runs), (), AS_RECORDED)
    assert len(fact.tried) == 60
    assert [(one.name[:8], one.today, one.front) for one in fact.tried[:3]] == [
        ("as recor", True, True), ("x" * 8, False, True), ("worse 0", False, False),
    ]  # fmt: skip
    assert (len(fact.tried[1].name), fact.tried[1].name[-4:]) == (200, "x...")
    assert (fact.currency, fact.tried[1].cost, fact.tried[1].pending_seconds) == ("EUR", "5.00", 5000)


def test_a_backtest_is_published_to_the_store_of_a_configuration(shell: Shell) -> None:
    keys = {**recording().story["settings"], "store": {"url": "sqlite:///ebb.db"}}
    shell.write("ebbtide.yaml", yaml.safe_dump(keys))
    trace = shell.write("trace.csv", "seconds,web\n0,2\n600,9\n1200,2\n1800,2\n")
    shell.run("record", "--csv", trace.name, "--cpu", "500m", "--memory", "512Mi", "-o", "month.ebb")
    trace.unlink()
    ask = ("backtest", "month.ebb", "--set", "pending_up_sec=30", "--publish", "ebbtide.yaml")
    refused = shell.run(*ask, code=2)
    assert "nothing ran" in refused.err
    assert shell.files() == ["ebbtide.yaml", "month.ebb"]
    shell.run("db", "upgrade")
    assert "the Money page shows it" in shell.run(*ask).err
    entries = json.loads(shell.run("log", "--kind", "switch", "--json").out)
    published = [one for one in entries if one["subject"] == "backtest"]
    assert [one["says"] for one in published] == ["backtest of month.ebb published: 2 settings compared"]
    tried = published[0]["data"]["tried"]
    assert [(one["name"], one["today"]) for one in tried] == [
        (AS_RECORDED, True), ("pending_up_sec=30", False),
    ]  # fmt: skip
