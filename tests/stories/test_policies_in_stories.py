"""Policies in a story go through the real engine of scaling to zero, in the same run as the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories.playing import acts, said, settings, told, web

TARGET = {"workloads": [{"name": "web"}]}
NIGHT = {"cron": "0 1 * * *", "replicas": 0}
DEV = {"name": "dev", "target": TARGET, "scale_to_zero": True, "grace_seconds": 0}
WATCHED = {"signals": [{"kind": "reported"}]}
SLEEPY = {**DEV, **WATCHED, "idle_threshold_seconds": 600, "keep_alive_window_seconds": 0}


def scaled(result: Any) -> list[tuple[float, str]]:
    return [(act.at, act.workload) for act in acts(result, "scale")]


@pytest.mark.parametrize("runner", ["daemon", "lambda"])
def test_a_policy_of_the_settings_puts_its_target_to_sleep_and_a_wake_restores_it(runner: str) -> None:
    result = told(
        runner=runner,
        settings=settings(policies=[SLEEPY]),
        workloads=web(3),
        events=[{"at": 3000, "wake": "dev"}],
        expect=[
            {"at": 300, "replicas": {"web": 3}},
            {"happens": "scale", "workload": "web", "before": 3000},
            {"at": 2990, "replicas": {"web": 0}},
            {"at": 2990, "running": {"web": 0}},
            {"at": 3000, "replicas": {"web": 3}},
            {"at": 3060, "running": {"web": 3}},
        ],
        until=3300,
    )
    assert result.ok, [*result.failed, *result.violations, said(result)]


def test_activity_keeps_it_awake() -> None:
    active = [{"at": at, "activity": "dev"} for at in range(300, 3600, 300)]
    result = told(settings=settings(policies=[SLEEPY]), workloads=web(3), events=active, until=3600)
    assert not scaled(result), said(result)


def test_an_event_creates_and_replaces_a_policy() -> None:
    awake = {**SLEEPY, "scale_to_zero": False}
    result = told(
        workloads=web(3),
        events=[{"at": 60, "policy": SLEEPY}, {"at": 120, "policy": awake}, {"at": 1500, "policy": SLEEPY}],
        until=4800,
    )
    assert len(scaled(result)) == 1
    assert scaled(result)[0][0] > 1500
    assert "policy dev: created" in said(result)
    assert "policy dev: changed" in said(result)


def test_a_policy_that_is_refused_is_an_answer_and_not_the_end() -> None:
    other = {**SLEEPY, "name": "other"}
    result = told(
        settings=settings(policies=[SLEEPY]), workloads=web(3), events=[{"at": 60, "policy": other}]
    )
    assert "policy was refused: policy other" in said(result)
    assert "nothing was changed (409)" in said(result)


def test_time_0_is_what_the_story_says() -> None:
    result = told(
        start="2026-03-01T00:30:00Z",
        settings=settings(policies=[{**DEV, "schedules": [NIGHT]}]),
        workloads=web(3),
        until=3600,
    )
    assert scaled(result) == [(1800, "web")], said(result)


def test_a_wake_while_the_api_server_is_gone_is_remembered() -> None:
    result = told(
        settings=settings(policies=[SLEEPY]),
        workloads=web(2),
        events=[
            {"at": 2400, "api_server": "gone"},
            {"at": 2410, "wake": "dev"},
            {"at": 2700, "api_server": "back"},
        ],
        expect=[{"at": 2690, "replicas": {"web": 0}}, {"at": 2800, "replicas": {"web": 2}}],
        until=3000,
    )
    assert result.ok, [*result.failed, *result.violations, said(result)]
