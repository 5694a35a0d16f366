"""What the steps of a policy say. Elsewhere they are asked for the phase, what is wanted, and the times."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.scale_to_zero.activity import ActivityLook, listen
from ebbtide.core.scale_to_zero.eta import why_wake
from ebbtide.core.scale_to_zero.idle import evaluate
from ebbtide.core.scale_to_zero.node_first import NeededByWakes
from ebbtide.core.scale_to_zero.rules import describe, rule_key, scale_for
from ebbtide.core.scale_to_zero.wake import guard, may_not_release, may_not_take_over, ready
from ebbtide.model.idle import IdleState, Phase, WakeTime
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Operator, Rule
from ebbtide.model.snapshot import Reading
from tests.builders import NOW
from tests.memory_services import make_service
from tests.policy_harness import BY_QUERY, DEFAULTS, QUERY, make_policy, make_state, make_workload
from tests.unit.scaling.test_ahead import EIGHT, HOLD, MIDNIGHT, mornings

IDLE = make_state(Phase.IDLE, idle_since=NOW - 2100)
STEPS: list[tuple[IdleState, dict[str, Any], str]] = [
    (IDLE, {}, "idle for 30 min and quiet for 5 min more: scaling to zero"),
    (replace(IDLE, checked_at=NOW - 301), {}, "nobody looked for 5 min 1 s"),
    (replace(IDLE, paused=True), {}, "the policy is paused"),
    (replace(IDLE, keep_up_until=NOW + 60), {}, "it is kept up until 22:14 UTC"),
    (
        IDLE,
        {"workloads": (make_workload(autoscaler="web-hpa"),)},
        "HorizontalPodAutoscaler web-hpa scales Deployment default/web",
    ),
    (
        make_state(Phase.WAKING, last_wake_at=NOW - 30, last_scaled_at=NOW - 29),
        {"workloads": (make_workload(replicas=0),)},
        "somebody scaled Deployment default/web to 0",
    ),
]


@pytest.mark.parametrize(("state", "look", "says"), STEPS, ids=[says for _, _, says in STEPS])
def test_a_step_says_what_it_found(state: IdleState, look: dict[str, Any], says: str) -> None:
    seen = ActivityLook({QUERY: Reading(0.0, NOW)}, **{"workloads": (make_workload(),), **look})
    assert says in evaluate(make_policy(signals=(BY_QUERY,)), state, seen, DEFAULTS, NOW).why.says


def test_a_fall_that_is_given_up_says_why() -> None:
    off = make_policy(enabled=False)
    seen = ActivityLook({QUERY: Reading(0.0, NOW)}, workloads=(make_workload(),))
    done = evaluate(off, make_state(Phase.FALLING, idle_since=None), seen, DEFAULTS, NOW)
    assert done.why.says == "scaling to zero was cancelled: the policy is not enabled"


def test_a_wake_says_how_long_it_took_and_what_of_that_was_for_a_node() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 40, scaled_to_zero_at=NOW - 7240)
    assert ready(make_policy(), state, NOW + 0.25, 25.0, DEFAULTS).why.says == (
        "ready after 40.2 s, including 25.0 s for a node"
    )
    assert ready(make_policy(), state, NOW, 0.0, DEFAULTS).why.says == "ready after 40.0 s"


SIGNALS: list[tuple[Reading, str]] = [
    (Reading(problem="nobody knows"), "promql_rate is unknown: nobody knows"),
    (Reading(problem="it is gone", failed=True), "promql_rate is failing: it is gone"),
    (Reading(9.0, NOW), "promql_rate is 9, above 0"),
    (Reading(0.0, NOW), "no signal shows activity"),
]


@pytest.mark.parametrize(("reading", "says"), SIGNALS, ids=[says for _, says in SIGNALS])
def test_what_the_signals_show_is_said(reading: Reading, says: str) -> None:
    policy = make_policy(signals=(BY_QUERY,))
    assert listen(policy, make_state(), ActivityLook({QUERY: reading}), DEFAULTS, NOW)[1].says == says


def test_the_key_of_a_timer_stays_as_it_was_stored_whatever_people_read() -> None:
    half_an_hour = Rule("queue", Operator.GT, 10, duration_seconds=1800, scale_by=2)
    assert describe(half_an_hour) == "queue gt 10 for 30 min: +2"
    assert rule_key(0, half_an_hour) == "0: queue gt 10 for 1800 s: +2"


WEB = make_workload(replicas=2)
RULES: list[tuple[Workload, dict[str, Any], dict[str, Any], str]] = [
    (WEB, {}, {}, "rule queue gt 10 for 60 s: +2: Deployment default/web from 2 to 4"),
    (
        WEB,
        {},
        {"last_scaled_at": NOW - 60},
        "rule queue gt 10 for 60 s: +2: cooling down until 22:17:20 UTC",
    ),
    (
        make_workload(replicas=15),
        {},
        {},
        "rule queue gt 10 for 60 s: +2: not moved, Deployment default/web has 15 and max_replicas is 10",
    ),
    (
        make_workload(replicas=0),
        {},
        {},
        "rule queue gt 10 for 60 s: +2: Deployment default/web has no replicas that a rule could change",
    ),
    (
        make_workload(autoscaler="hpa"),
        {},
        {},
        "rule queue gt 10 for 60 s: +2: left alone, "
        "HorizontalPodAutoscaler hpa scales Deployment default/web",
    ),
    (
        WEB,
        {"max_hourly_cost": Decimal(1)},
        {},
        "rule queue gt 10 for 60 s: +2: its price is not known in EUR and max_hourly_cost is 1 EUR",
    ),
    (
        WEB,
        {"max_hourly_cost": Decimal("0.03"), "hourly_cost": Decimal("0.02")},
        {},
        "rule queue gt 10 for 60 s: +2: Deployment default/web from 2 to 3; "
        "4 replicas would cost 0.0400 EUR an hour, max_hourly_cost is 0.03 EUR",
    ),
]


@pytest.mark.parametrize(("seen", "policy", "state", "says"), RULES, ids=[case[-1][31:] for case in RULES])
def test_a_rule_says_what_it_moves_or_why_it_moves_nothing(
    seen: Workload, policy: dict[str, Any], state: dict[str, Any], says: str
) -> None:
    rule = Rule("queue", Operator.GT, 10, 60, 2)
    done = scale_for(make_policy(**policy), make_state(**state), rule, [seen], None, NOW)
    assert done.why.says == says


@pytest.mark.parametrize(
    ("wakes", "says"),
    [
        (
            [WakeTime(NOW - 60, 40, slept_seconds=30)],
            "waking cost 40 s in a day and sleeping saved 30 s: the keep-alive window grows to 40 min",
        ),
        (
            [WakeTime(NOW - 60, 40, slept_seconds=3600)],
            "sleeping pays again: the keep-alive window shrinks to 12 min 30 s",
        ),
        ([], "no wake for a day: the keep-alive window is as configured again"),
    ],
)
def test_the_flap_guard_says_how_the_window_changes(wakes: list[WakeTime], says: str) -> None:
    state = make_state(wakes=tuple(wakes), extra_keep_alive_seconds=900)
    assert guard(make_policy(), state, DEFAULTS, NOW)[1].says == says


@pytest.mark.parametrize(
    ("service", "says"),
    [
        (
            {"external": True},
            "Service default/web is an ExternalName: it has no endpoints that a gate could stand in for",
        ),
        (
            {"headless": True},
            "Service default/web is headless: its clients ask DNS for pods and connect to them directly",
        ),
        ({"selects": False}, "Service default/web has no selector: its endpoints are written by hand"),
        ({"ports": ()}, "Service default/web has no TCP port"),
        ({}, "no gate is ready to stand in for Service default/web"),
    ],
)
def test_a_service_that_cannot_be_taken_over_says_why(service: dict[str, Any], says: str) -> None:
    assert may_not_take_over(make_service(**service), ()).says == says


def test_a_service_that_is_not_given_back_yet_says_why() -> None:
    states = make_state(Phase.ZERO), make_state(Phase.WAKING, last_scaled_at=0), make_state()
    assert [may_not_release(make_service(), state).says for state in states] == [
        "its policy is zero",
        "the calls of its wake are not answered yet",
        "Service default/web has no pod that is ready",
    ]


def test_a_wake_ahead_of_use_says_what_it_is_better_than() -> None:
    used = mornings(14) + mornings(1)[: EIGHT - 1]
    assert why_wake(used, HOLD, MIDNIGHT + (EIGHT - 1) * 900).says == (
        "ahead of 08:00 UTC, in use then a week and two weeks ago; over the last week this leaves 0 users "
        "waiting, a longer keep-alive window of equal cost 7"
    )


def test_what_is_being_woken_and_needs_nodes_is_said() -> None:
    assert NeededByWakes().says == ""
    assert NeededByWakes((("b", 2),), "default/web-7d-x").says == (
        "pool b is being woken and lacks 2; default/web-7d-x is being woken and needs a node"
    )
