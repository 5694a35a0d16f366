"""Scale to zero by environment and YAML, with times as Go writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.config import load
from ebbtide.config.scale_to_zero import read_duration, write_duration
from ebbtide.errors import ConfigError
from ebbtide.model.policy import SignalKind, ZeroDefaults

YAML = """
scale_to_zero:
  idle_threshold: 45m
  max_keep_alive: 2h
policies:
  - name: web
    target: {workloads: [{name: web}]}
    scale_to_zero: true
    signals: [{kind: cpu, query: "sum(rate(cpu[5m]))", threshold: 0.05}]
    schedules: [{cron: "0 8 * * 1-5", zone: Europe/Berlin, replicas: 2}]
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("1.5h", 5400), ("0", 0), ("0s", 0), ("2000ms", 2),
     ("1h0m0s", 3600), (".5m", 30), ("1000000us", 1), ("1000000000ns", 1), ("1m1m", 120)],
)  # fmt: skip
def test_durations_are_read_as_go_reads_them(text: str, seconds: int) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "-5m", "30 m", "1d", "500ms", "9000h", "1h-3m", "٣m"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        read_duration(text)


@given(st.integers(0, 31_536_000))
def test_a_duration_is_written_as_it_is_read(seconds: int) -> None:
    assert read_duration(write_duration(seconds)) == seconds


def test_the_defaults_are_those_of_the_document() -> None:
    assert load(None, {}).zero == ZeroDefaults(1800, 300, 120, 60, True, 14_400)


def test_every_default_has_its_variable() -> None:
    environ = {
        "SCALE_TO_ZERO_IDLE_THRESHOLD": "1h",
        "SCALE_TO_ZERO_KEEP_ALIVE": "10m",
        "SCALE_TO_ZERO_COLD_START_TIMEOUT": "3m",
        "SCALE_TO_ZERO_CHECK_INTERVAL": "30s",
        "SCALE_TO_ZERO_COST_TRACKING": "false",
        "SCALE_TO_ZERO_MAX_KEEP_ALIVE": "6h",
    }
    assert load(None, environ).zero == ZeroDefaults(3600, 600, 180, 30, False, 21_600)


def test_the_file_says_it_too_and_the_environment_wins(tmp_path: Path) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(YAML)
    config = load(path, {"SCALE_TO_ZERO_MAX_KEEP_ALIVE": "3h"})
    assert config.zero == replace(ZeroDefaults(), idle_threshold_seconds=2700, max_keep_alive_seconds=10_800)
    (keys,) = config.policies
    policy = keys.policy("id", 0, 0, 0)
    assert (policy.name, policy.signals[0].kind, policy.schedules[0].zone) == (
        "web",
        SignalKind.CPU,
        "Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (
            "45m",
            "45",
            "scale_to_zero.idle_threshold: 45 is not allowed; allowed: a duration such as",
        ),
        ("45m", "soon", '"soon" is not a duration; allowed: a duration such as 90s, 30m'),
        ("Europe/Berlin", "Europe/Atlantis", "'Europe/Atlantis' is not a time zone"),
        ("0 8 * * 1-5", "0 25 * * *", "the hour of '0 25 * * *' is '25'"),
        ("replicas: 2", "replicas: -1", "-1 is not allowed"),
        (
            "scale_to_zero: true",
            "scale_to_zero: true\n    min_replicas: 5\n    max_replicas: 4",
            "below min_replicas",
        ),
        ("[{name: web}]", "[]", "either workloads, at least one, or a pool"),
        ("scale_to_zero: true", "scale_to_nil: true", "did you mean scale_to_zero?"),
        ("replicas: 2", "replicas: 0}, {cron: '@daily', replicas: 0", ""),
        ("scale_to_zero: true\n", "scale_to_zero: false\n", ""),
    ],
)
def test_bad_values_are_refused_with_their_place(tmp_path: Path, before: str, after: str, says: str) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(YAML.replace(before, after))
    if not says:
        load(path, {})
        return
    with pytest.raises(ConfigError) as refused:
        load(path, {})
    assert says in str(refused.value)
    assert "line" in str(refused.value)


def test_a_name_twice_a_pool_that_is_not_there_and_a_target_that_is_taken_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ebbtide.yaml"
    path.write_text(
        "pools: [{name: workers, types: [cpx22], zones: [a]}]\n"
        "policies:\n"
        "  - {name: web, target: {workloads: [{name: web}]}, schedules: [{cron: '@daily', replicas: 0}]}\n"
        "  - {name: web, target: {pool: gone}}\n"
        "  - {name: twin, target: {workloads: [{name: shop}, {name: web}]}}\n"
    )
    with pytest.raises(ConfigError) as refused:
        load(path, {})
    for says in (
        '"web" is used twice',
        '"gone" is not a configured pool',
        "line 5, policies[2].target.workloads[1]: Deployment default/web is the target of policy web already",
    ):
        assert says in str(refused.value)
