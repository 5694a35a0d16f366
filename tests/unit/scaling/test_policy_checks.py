"""A policy beside the others and the pools: what does not fit is named by its field."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.policy_checks import check_policy
from ebbtide.model.policy import Policy, Schedule, Target
from tests.yard import make_policy, make_ref, policy_id

POOLS = ("workers", "gpu")


def found(policy: Policy, *others: Policy, pools: tuple[str, ...] = POOLS) -> list[tuple[str, bool]]:
    return [(problem.field, problem.taken) for problem in check_policy(policy, others, pools)]


def pool(name: str, **overrides: Any) -> Policy:
    return make_policy(f"p-{name}", id=policy_id(9), target=Target(pool=name), **overrides)


def test_what_fits_is_left_alone() -> None:
    assert found(make_policy(), make_policy("other"), pool("gpu")) == []
    assert found(pool("gpu"), pool("workers"), make_policy()) == []


def test_a_pool_must_be_configured_where_any_is() -> None:
    assert found(pool("gone")) == [("target.pool", False)]
    assert found(pool("gone"), pools=()) == []


def test_a_schedule_to_zero_needs_scale_to_zero() -> None:
    schedules = (Schedule("@daily", replicas=1), Schedule("@hourly", replicas=0))
    assert found(make_policy(schedules=schedules)) == []
    awake = make_policy(schedules=schedules, scale_to_zero=False)
    assert found(awake) == [("schedules[1].replicas", False)]


@pytest.mark.parametrize(
    ("policy", "other", "field"),
    [
        (pool("gpu"), pool("gpu"), "target.pool"),
        (
            make_policy("shop", make_ref("a"), make_ref("b")),
            make_policy("old", make_ref("b")),
            "target.workloads[1]",
        ),
    ],
)
def test_a_target_has_one_policy_that_is_at_work(policy: Policy, other: Policy, field: str) -> None:
    assert found(policy, other) == [(field, True)]
    (problem,) = check_policy(policy, [other], POOLS)
    assert f"is the target of policy {other.name} already" in problem.says


def test_a_policy_that_is_switched_off_has_no_claim() -> None:
    assert found(make_policy("new", make_ref("web"), enabled=False), make_policy()) == []
    assert found(make_policy("new", make_ref("web")), make_policy(enabled=False)) == []
