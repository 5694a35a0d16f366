"""Each kind of event does what it says, seen in what the engine does or says next."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ebbtide.simulator.story.parse import parse_story
from ebbtide.simulator.story.play import Player
from ebbtide.simulator.world.inventory import Inventory
from tests.stories.playing import NODES, POOLS, acts, said, settings, text_of, told, web

QUIET = {"cpu_down": 0.0}
"""Nothing is scaled down: for stories about something else."""


def expect(*expected: dict[str, Any], **keys: Any) -> None:
    result = told(expect=list(expected), **keys)
    assert result.ok, [*result.failed, *result.violations, said(result)]


def test_cpu_is_what_the_story_says_until_it_is_measured_again() -> None:
    result = told(
        settings=settings(**QUIET),
        events=[{"at": 601, "cpu": 0.95}, {"at": 610, "cpu": None}, {"at": 1200, "cpu": 0.95}],
        until=1500,
    )
    assert {act.at for act in acts(result, "launch")} == {1200}


def test_a_cordon_by_a_person_is_left_and_uncordon_lets_pods_in() -> None:
    expect(
        {"never": "uncordon"},
        {"at": 500, "running": {"web": 1}},
        {"at": 700, "running": {"web": 2}},
        {"at_end": {"cordoned": 0}},
        settings=settings(**QUIET, pending_up_sec=3600),
        nodes=[{"name": "a1", "zone": "a", "type": "cpx32"}, {"name": "b1", "zone": "b"}],
        workloads=web(1, cpu="3", anti_affinity="host"),
        events=[
            {"at": 60, "cordon": "b1"},
            {"at": 120, "replicas": {"web": 2}},
            {"at": 600, "uncordon": "b1"},
        ],
    )


def test_a_node_that_is_cordoned_from_the_start_takes_no_pods() -> None:
    expect(
        {"at": 60, "running": {"web": 1}},
        {"at_end": {"waiting": 1, "cordoned": 1}},
        until=120,
        nodes=[{**NODES[0], "cordoned_by": "person"}, NODES[1]],
        workloads=web(2, cpu="3"),
    )


def test_a_node_that_dies_keeps_its_instance_and_loses_its_pods() -> None:
    result = told(
        settings=settings(**QUIET),
        workloads=web(1, on=["a1"]),
        events=[{"at": 100, "node_dies": "a1"}],
        expect=[{"at": 130, "running": {"web": 1}}, {"at": 150, "running": {"web": 0}}],
        until=160,
    )
    assert result.ok, result.failed
    assert result.node_hours == pytest.approx(2 * 160 / 3600, abs=0.001)


def test_an_instance_that_is_gone_is_replaced() -> None:
    expect(
        {"happens": "delete_node", "node": "a1", "after": 60},
        {"happens": "launch", "after": 60},
        {"at_end": {"workers": 2, "open_operations": 0}},
        events=[{"at": 60, "instance_gone": "a1"}],
        until=3600,
    )


@pytest.mark.parametrize("runner", ["daemon", "lambda"])
def test_a_spot_notice_is_answered_at_once(runner: str) -> None:
    expect(
        {"happens": "evict", "pod": "web-1", "node": "a1", "after": 100, "before": 130},
        {"happens": "launch", "after": 100, "before": 130},
        {"never": "terminate"},
        {"at": 1800, "running": {"web": 1}},
        {"at_end": {"workers": 2, "open_operations": 0}},
        runner=runner,
        settings=settings(**QUIET, pools=[{**POOLS[0], "market": "spot"}]),
        workloads=web(1, on=["a1"]),
        events=[{"at": 100, "spot_notice": "a1"}],
    )


def test_a_rebalance_recommendation_is_taken_in() -> None:
    result = told(
        settings=settings(**QUIET, pools=[{**POOLS[0], "market": "spot"}], budget_fraction=1.0),
        events=[{"at": 100, "rebalance": "a1"}],
    )
    assert "rebalance" in said(result)


def test_without_metrics_nothing_is_scaled_down() -> None:
    expect(
        {"never": "cordon"},
        {"says": "CPU is unknown", "after": 60},
        nodes=[{"name": "a", "zone": "a", "count": 4}],
        events=[{"at": 0, "metrics": "gone"}],
        until=3600,
    )


def test_what_cannot_be_read_is_left_alone() -> None:
    for part in ("api_server", "cloud"):
        result = told(
            nodes=[{"name": "a", "zone": "a", "count": 4}],
            workloads=web(4),
            events=[{"at": 0, part: "gone"}, {"at": 1800, part: "back"}],
            until=3600,
            expect=[{"never": "cordon", "before": 1800}, {"happens": "cordon", "after": 1800}],
        )
        assert result.ok, [*result.failed, *result.violations, said(result)]
        assert "does not answer" in said(result)


def test_capacity_that_is_gone_is_looked_for_elsewhere() -> None:
    result = told(
        settings=settings(**QUIET),
        events=[{"at": 0, "capacity": {"zone": "a", "type": "cpx32", "left": 0}}, {"at": 60, "cpu": 0.95}],
        until=300,
    )
    assert [act.zone for act in acts(result, "launch")] == ["b"]


def test_the_next_instances_never_join() -> None:
    result = told(
        settings=settings(**QUIET),
        events=[{"at": 0, "never_join": 1}, {"at": 60, "cpu": 0.95}, {"at": 120, "cpu": 0.5}],
        until=1800,
    )
    assert [act.node for act in acts(result, "launch")] == ["new-1"]
    reclaimed = acts(result, "terminate")
    assert [(act.instance, act.at > 600) for act in reclaimed] == [(acts(result, "launch")[0].instance, True)]


def test_what_the_cloud_refuses_to_terminate_is_no_act() -> None:
    for keys in (
        {"nodes": [{"name": "a", "zone": "a", "count": 3, "protected": True}]},
        {"nodes": [{"name": "a", "zone": "a", "count": 3}], "events": [{"at": 0, "refuse": "terminate"}]},
    ):
        result = told(**keys, until=2400)
        assert not acts(result, "terminate")
        assert result.removed == 0
        assert "the cloud refused to terminate" in said(result)


def test_terminating_is_allowed_again() -> None:
    expect(
        {"never": "terminate", "before": 1500},
        {"happens": "terminate", "after": 1500},
        nodes=[{"name": "a", "zone": "a", "count": 3}],
        events=[{"at": 0, "refuse": "terminate"}, {"at": 1500, "allow": "terminate"}],
        until=7200,
    )


@pytest.mark.parametrize("runner", ["daemon", "lambda"])
@pytest.mark.parametrize("crash", ["next-effect", "next-write"])
def test_a_runner_that_crashes_is_followed_by_another(runner: str, crash: str) -> None:
    result = told(
        runner=runner,
        nodes=[{"name": "a", "zone": "a", "count": 3}],
        workloads=web(3),
        events=[{"at": 0, "crash": crash}],
        expect=[
            {"happens": "terminate", "at_least": 1, "at_most": 1},
            {"at_end": {"workers": 2, "cordoned": 0, "open_operations": 0}},
        ],
        until=7200,
    )
    assert result.ok, [*result.failed, *result.violations, said(result)]
    assert result.crashes == 1
    assert f"{runner}-" in said(result)
    assert "crashed after" in said(result)


def test_a_pause_holds_removals_until_it_ends() -> None:
    expect(
        {"never": "cordon", "before": 3000},
        {"happens": "terminate", "after": 3000},
        {"says": "paused"},
        nodes=[{"name": "a", "zone": "a", "count": 3}],
        events=[{"at": 0, "pause": True}, {"at": 3000, "pause": False}],
        until=5400,
    )


def test_a_new_configuration_is_laid_over_the_old_one() -> None:
    expect(
        {"never": "launch", "before": 600},
        {"happens": "launch", "after": 600, "before": 660},
        {"at_end": {"workers": 3}},
        settings=settings(**QUIET, max_workers=2),
        events=[{"at": 60, "cpu": 0.95}, {"at": 600, "settings": {"max_workers": 3}}],
    )


def test_players_reach_the_pod_that_has_them() -> None:
    server = {
        "name": "mc",
        "kind": "StatefulSet",
        "cpu": "500m",
        "memory": "2Gi",
        "on": ["a1"],
        "annotations": {"ebbtide.dev/plan": "balanced", "ebbtide.dev/players": 0},
    }
    saw: list[str | None] = []
    events = [{"at": 60, "players": {"mc-0": 3}}, {"at": 120, "players": {"mc-0": None}}]
    player = Player(parse_story(text_of(workloads=[server], events=events, until=180)))
    inventory = player.stage.world.inventory
    for at in (30, 90, 150):
        player.clock.plan(player.clock.now() + at, lambda: saw.append(_players_of(inventory, "mc-0")))
    player.run()
    assert saw == ["0", "3", None]


def _players_of(inventory: Inventory, name: str) -> str | None:
    pod = next(pod for pod in inventory.pods.values() if pod.name == name)
    return dict(pod.annotations).get("ebbtide.dev/players")


def test_the_same_file_prints_the_same_bytes() -> None:
    keys: dict[str, Any] = {
        "workloads": web(4),
        "events": [
            {"at": 60, "cpu": 0.9},
            {"at": 300, "spot_notice": "a1"},
            {"at": 400, "crash": "next-write"},
        ],
        "until": 3600,
    }
    first, second = told(**keys).to_json(), told(**keys).to_json()
    assert first == second
    assert json.loads(first)["acts"]


def test_a_daemon_ticks_at_once_for_a_pod_that_no_node_takes_and_a_lambda_does_not() -> None:
    keys: dict[str, Any] = {
        "settings": settings(**QUIET, pending_up_sec=0),
        "workloads": web(2, cpu="3"),
        "events": [{"at": 310, "replicas": {"web": 3}}],
        "until": 600,
    }
    daemon, function = told(**keys), told(**keys, runner="lambda")
    assert [act.at for act in acts(daemon, "launch")] == [313], said(daemon)
    assert [act.at for act in acts(function, "launch")] == [360]


def test_a_notice_between_two_ticks_is_answered_in_its_second() -> None:
    result = told(
        settings=settings(**QUIET, pools=[{**POOLS[0], "market": "spot"}]),
        workloads=web(2),
        events=[{"at": 137, "spot_notice": "a1"}],
        until=200,
    )
    assert 137 in {act.at for act in acts(result, "cordon")}, said(result)
