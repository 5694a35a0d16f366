"""What the steps of a policy say. Elsewhere they are asked for the phase, what is wanted, and the times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.scale_to_zero.activity import ActivityLook
from ebbtide.core.scale_to_zero.idle import evaluate
from ebbtide.core.scale_to_zero.wake import ready
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.snapshot import Reading
from tests.builders import NOW
from tests.policy_harness import BY_QUERY, DEFAULTS, QUERY, make_policy, make_state, make_workload

IDLE = make_state(Phase.IDLE, idle_since=NOW - 2100)
STEPS: list[tuple[IdleState, dict[str, Any], str]] = [
    (IDLE, {}, "idle for 30 min and quiet for 5 min more: going to zero"),
    (replace(IDLE, checked_at=NOW - 301), {}, "nobody looked for 5 min 1 s"),
    (replace(IDLE, paused=True), {}, "the policy is paused"),
    (replace(IDLE, keep_up_until=NOW + 60), {}, "it is kept up for another 60 s"),
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
    assert says in evaluate(make_policy(signals=(BY_QUERY,)), state, seen, DEFAULTS, NOW).says


def test_a_fall_that_is_given_up_says_why() -> None:
    off = make_policy(enabled=False)
    seen = ActivityLook({QUERY: Reading(0.0, NOW)}, workloads=(make_workload(),))
    done = evaluate(off, make_state(Phase.FALLING, idle_since=None), seen, DEFAULTS, NOW)
    assert done.says == "going to zero was given up: the policy is not enabled"


def test_a_wake_says_how_long_it_took_and_what_of_that_was_for_a_node() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 40, scaled_to_zero_at=NOW - 7240)
    assert ready(make_policy(), state, NOW + 0.25, 25.0, DEFAULTS).says == (
        "ready after 40.2 s, 25.0 s of them for a node"
    )
    assert ready(make_policy(), state, NOW, 0.0, DEFAULTS).says == "ready after 40.0 s"
