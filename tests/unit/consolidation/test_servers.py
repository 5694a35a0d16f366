"""Which game servers may move: the tiers, plans, players and statuses of the policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.core.consolidation.game_servers import (
    PLAN,
    PLAYERS,
    STATUS,
    TIER,
    ServerCause,
    Stays,
    tier_of,
    why_not_movable,
)
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from tests.builders import NOW, make_pod
from tests.unit.consolidation.builders import cluster, node, pod, report_on, settings_with

SERVER = {PLAN: "payperplay", PLAYERS: "0"}


def why(
    memory_mib: int = 2048, counted: int | None = None, phase: PodPhase = PodPhase.RUNNING, **labels: str
) -> Stays | None:
    given = {f"ebbtide.dev/{key}": value for key, value in labels.items()}
    server = make_pod("server", 500, memory_mib, labels=tuple(sorted((SERVER | given).items())), phase=phase)
    return why_not_movable(server, {} if counted is None else {"default/server": counted})


def cause_of(stays: Stays | None) -> ServerCause | None:
    return stays.cause if stays else None


@pytest.mark.parametrize("memory_mib", [2048, 4096, 8192])
@pytest.mark.parametrize("plan", ["payperplay", "balanced"])
def test_small_empty_running_servers_move(memory_mib: int, plan: str) -> None:
    assert why(memory_mib, plan=plan) is None


@pytest.mark.parametrize(
    ("given", "cause", "says"),
    [
        ({"memory_mib": 16384}, ServerCause.TIER, "is of tier large; only micro, small, medium are moved"),
        ({"memory_mib": 32768}, ServerCause.TIER, "is of tier xlarge; only micro, small, medium are moved"),
        ({"memory_mib": 3000}, ServerCause.TIER, "is of tier custom; only micro, small, medium are moved"),
        ({"tier": "custom"}, ServerCause.TIER, "is of tier custom; only micro, small, medium are moved"),
        (
            {"tier": "mega"},
            ServerCause.NO_SUCH_TIER,
            "has the tier 'mega', which is none of micro, small, medium, large, xlarge, custom",
        ),
        (
            {"tier": "micro", "memory_mib": 9000},
            ServerCause.MEMORY,
            "asks for 9000 MiB; at most 8192 MiB are moved",
        ),
        (
            {"plan": "reserved"},
            ServerCause.PLAN,
            "is on plan reserved; only payperplay and balanced are moved",
        ),
        ({"plan": "gold"}, ServerCause.PLAN, "has the plan 'gold'; only payperplay and balanced are moved"),
        ({"plan": ""}, ServerCause.PLAN, "has no plan; only payperplay and balanced are moved"),
        ({"status": "starting"}, ServerCause.STATUS, "is starting; only what is running is moved"),
        ({"status": "stopping"}, ServerCause.STATUS, "is stopping; only what is running is moved"),
        ({"phase": PodPhase.PENDING}, ServerCause.STATUS, "is Pending; only what is running is moved"),
        ({"players": "1"}, ServerCause.PLAYERS, "has 1 players; only servers with 0 players are moved"),
        ({"players": "many"}, ServerCause.PLAYERS_NO_NUMBER, "has 'many' players, which is not a number"),
    ],
)
def test_each_reason_against_moving_is_said(given: dict[str, Any], cause: ServerCause, says: str) -> None:
    assert why(**given) == Stays(cause, says)


def test_what_a_server_says_of_itself_may_allow_to_move_it() -> None:
    assert why(plan="balanced", status="running", tier="small") is None


def test_players_that_metrics_know_count_as_well() -> None:
    assert cause_of(why(counted=3)) is ServerCause.PLAYERS
    assert why(counted=0) is None
    assert cause_of(why(counted=-1)) is ServerCause.PLAYERS_UNCOUNTED


def test_players_of_the_snapshot_count_where_no_others_are_handed_in() -> None:
    """The pages asked without them: of a server that the metrics count, they said that nobody knows."""
    nodes = [node("a1"), node("a2")]
    server = pod("arena", nodes[0], memory_mib=2048, labels=((PLAN, "balanced"),))
    seen = replace(cluster(nodes, [server]), players=(("default/arena", 7),))
    asked = evaluate(seen, Record(), settings_with(), NOW, "op")
    assert asked == report_on(seen, arena=7)
    assert asked != report_on(seen)


def test_metrics_alone_are_enough_to_know_the_players() -> None:
    server = make_pod("server", 500, 2048, labels=((PLAN, "balanced"),))
    assert why_not_movable(server, {"default/server": 0}) is None
    assert cause_of(why_not_movable(server, {})) is ServerCause.PLAYERS_UNSAID


def test_an_annotation_wins_over_a_label() -> None:
    labels = ((PLAN, "balanced"), (PLAYERS, "5"), (STATUS, "running"))
    server = make_pod("server", 500, 2048, labels=labels, annotations=((PLAYERS, "0"),))
    assert why_not_movable(server, {}) is None


def test_a_general_pod_is_judged_by_other_rules() -> None:
    assert why_not_movable(make_pod("web", 500, 60_000), {}) is None
    assert why_not_movable(make_pod("web", 500, 2048), {"default/web": 0}) is not None


def test_the_tier_is_named_or_follows_from_memory() -> None:
    assert tier_of(make_pod("s", 500, 4096)) == "small"
    assert tier_of(make_pod("s", 500, 4096, labels=((TIER, "medium"),))) == "medium"
