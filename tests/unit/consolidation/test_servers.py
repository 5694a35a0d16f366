"""Which game servers may move: the tiers, plans, players and statuses of the policy."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS, STATUS, TIER, tier_of, why_not_movable
from ebbtide.model.pod import PodPhase
from tests.builders import make_pod

SERVER = {PLAN: "payperplay", PLAYERS: "0"}


def why(
    memory_mib: int = 2048, counted: int | None = None, phase: PodPhase = PodPhase.RUNNING, **labels: str
) -> str:
    given = {f"ebbtide.dev/{key}": value for key, value in labels.items()}
    server = make_pod("server", 500, memory_mib, labels=tuple(sorted((SERVER | given).items())), phase=phase)
    return why_not_movable(server, {} if counted is None else {"default/server": counted})


@pytest.mark.parametrize("memory_mib", [2048, 4096, 8192])
@pytest.mark.parametrize("plan", ["payperplay", "balanced"])
def test_small_empty_running_servers_move(memory_mib: int, plan: str) -> None:
    assert why(memory_mib, plan=plan) == ""


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"memory_mib": 16384}, "is of tier large; only micro, small, medium are moved"),
        ({"memory_mib": 32768}, "is of tier xlarge; only micro, small, medium are moved"),
        ({"memory_mib": 3000}, "is of tier custom; only micro, small, medium are moved"),
        ({"tier": "custom"}, "is of tier custom; only micro, small, medium are moved"),
        (
            {"tier": "mega"},
            "has the tier 'mega', which is none of micro, small, medium, large, xlarge, custom",
        ),
        ({"tier": "micro", "memory_mib": 9000}, "asks for 9000 MiB; at most 8192 MiB are moved"),
        ({"plan": "reserved"}, "is on plan reserved; only payperplay and balanced are moved"),
        ({"plan": "gold"}, "has the plan 'gold'; only payperplay and balanced are moved"),
        ({"plan": ""}, "has no plan; only payperplay and balanced are moved"),
        ({"status": "starting"}, "is starting; only what is running is moved"),
        ({"status": "stopping"}, "is stopping; only what is running is moved"),
        ({"phase": PodPhase.PENDING}, "is Pending; only what is running is moved"),
        ({"players": "1"}, "has 1 players; only servers with 0 players are moved"),
        ({"players": "many"}, "has 'many' players, which is not a number"),
        ({"plan": "balanced", "status": "running", "tier": "small"}, ""),
    ],
)
def test_each_reason_against_moving_is_said(given: dict[str, Any], says: str) -> None:
    assert why(**given) == says


def test_players_that_metrics_know_count_as_well() -> None:
    assert why(counted=3) == "has 3 players; only servers with 0 players are moved"
    assert why(counted=0) == ""
    assert why(counted=-1) == "has players that cannot be counted now; only servers with 0 players are moved"


def test_metrics_alone_are_enough_to_know_the_players() -> None:
    server = make_pod("server", 500, 2048, labels=((PLAN, "balanced"),))
    assert why_not_movable(server, {"default/server": 0}) == ""
    says = "does not say how many players it has; only servers with 0 players are moved"
    assert why_not_movable(server, {}) == says


def test_an_annotation_wins_over_a_label() -> None:
    labels = ((PLAN, "balanced"), (PLAYERS, "5"), (STATUS, "running"))
    server = make_pod("server", 500, 2048, labels=labels, annotations=((PLAYERS, "0"),))
    assert why_not_movable(server, {}) == ""


def test_a_general_pod_is_judged_by_other_rules() -> None:
    assert why_not_movable(make_pod("web", 500, 60_000), {}) == ""
    assert why_not_movable(make_pod("web", 500, 2048), {"default/web": 0}) != ""


def test_the_tier_is_named_or_follows_from_memory() -> None:
    assert tier_of(make_pod("s", 500, 4096)) == "small"
    assert tier_of(make_pod("s", 500, 4096, labels=((TIER, "medium"),))) == "medium"
