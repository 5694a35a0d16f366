"""`ebbtide forecast`: demand after a recording, per workload and of nodes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ebbtide.errors import Usage
from ebbtide.simulator.recording.demand import NODES, demand_of, regular
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series, write_recording
from tests.e2e.shell import Shell
from tests.stories.playing import POOLS

HOUR = 3600


def days(count: int) -> Recording:
    """Four replicas at night and twelve in the working hours."""
    at = [float(day * 24 * HOUR + hour * HOUR) for day in range(count) for hour in (0, 8, 18)]
    series = Series(at, [4, 12, 4] * count)
    story = {
        "name": "recorded",
        "until": count * 24 * HOUR,
        "start": "2026-03-02T00:00:00Z",
        "settings": {"pools": POOLS},
        "workloads": [{"name": "web", "cpu": "1", "memory": "512Mi"}],
    }
    return Recording(VERSION, story, {"default/web": series}, Recorded())


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_a_series_is_averaged_over_steps() -> None:
    series = Series([0.0, 450.0, 1800.0], [2, 4, 8])
    assert regular(series, 2700).tolist() == [3.0, 4.0, 8.0]
    assert regular(Series([900.0], [5]), 1800).tolist() == [0.0, 5.0]


def test_nodes_are_what_all_workloads_need_together() -> None:
    found = demand_of(days(2), "month.ebb")
    assert found["default/web"].max() == 12
    assert set(np.unique(found[NODES])) == {2.0, 4.0}


def test_a_recording_without_demand_is_refused() -> None:
    with pytest.raises(Usage, match="holds no demand"):
        demand_of(Recording(VERSION, days(2).story), "month.ebb")


def test_the_command_says_what_to_expect_and_how_good_that_was(shell: Shell) -> None:
    write_recording(shell.folder / "month.ebb", days(10))
    text = shell.run("forecast", "month.ebb").out
    web = next(line for line in text.splitlines() if line.startswith("default/web"))
    assert "2026-03-12 08:00" in web
    assert any(line.startswith("nodes") for line in text.splitlines())
    told = json.loads(shell.run("forecast", "month.ebb", "--horizon", "6h", "--json").out)
    first = told["series"][0]
    assert (told["begins"], told["step_seconds"], len(first["p95"])) == ("2026-03-12T00:00:00Z", 900, 24)
    assert first["p50"] == [4.0] * 24
    assert set(first["errors"]) == {"forecast", "seasonal naive", "last value"}


def test_ten_days_are_enough_to_look_a_week_ahead(shell: Shell) -> None:
    """The command failed with an error of its own."""
    write_recording(shell.folder / "month.ebb", days(10))
    told = json.loads(shell.run("forecast", "month.ebb", "--horizon", "7d", "--json").out)
    expected = np.array(told["series"][0]["p50"])
    assert len(expected) == 7 * 96
    assert (expected.min(), expected.max()) == (4.0, 12.0)


@pytest.mark.parametrize("command", ["backtest", "forecast"])
def test_every_command_that_uses_a_recording_says_its_gaps(shell: Shell, command: str) -> None:
    """They were said only to the person who recorded it."""
    gaps = msgspec.structs.replace(days(5), recorded=Recorded(coverage={"demand": 0.625}))
    write_recording(shell.folder / "gaps.ebb", gaps)
    write_recording(shell.folder / "whole.ebb", days(5))
    assert "62.5%" in shell.run(command, "gaps.ebb").err
    assert not shell.run(command, "whole.ebb").err


def test_an_error_beyond_measure_is_shown_as_such(shell: Shell) -> None:
    """Each day repeats the one before exactly: the error to compare with is zero."""
    write_recording(shell.folder / "month.ebb", days(6))
    lines = shell.run("forecast", "month.ebb").out.splitlines()
    web = next(line for line in lines if line.startswith("default/web")).split()
    assert web[-4:] == ["0.00", "0.00", ">999", "100.0%"]


@pytest.mark.parametrize(
    ("horizon", "says"),
    [("24", "is not a duration"), ("1m", "Allowed: 15 min to 7 days"), ("9d", "Allowed: 15 min to 7 days")],
)
def test_a_wrong_horizon_is_refused(shell: Shell, horizon: str, says: str) -> None:
    write_recording(shell.folder / "month.ebb", days(5))
    assert says in shell.run("forecast", "month.ebb", "--horizon", horizon, code=2).err


def test_a_recording_that_is_too_short_says_how_long_it_must_be(shell: Shell) -> None:
    write_recording(shell.folder / "month.ebb", days(2))
    refused = shell.run("forecast", "month.ebb", code=2).err
    assert "the recording holds 2 days; nothing was forecast" in refused
    assert "record at least 4 days" in refused
    write_recording(shell.folder / "month.ebb", days(4))
    assert " - " in shell.run("forecast", "month.ebb").out
