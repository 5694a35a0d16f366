"""A policy next to the others and the pools: what does not fit is named by its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.scale_to_zero.policy_checks import check_policy, stamped, stranded
from ebbtide.model.idle import Phase, Remembered
from ebbtide.model.policy import Policy, Schedule, Target
from tests.memory_services import gate_of
from tests.policy_harness import make_policy, make_ref, make_state, policy_id

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


def test_a_schedule_to_zero_needs_no_other_switch() -> None:
    schedules = (Schedule("@daily", replicas=1), Schedule("@hourly", replicas=0))
    assert found(make_policy(schedules=schedules, scale_to_zero=False, signals=())) == []


@pytest.mark.parametrize("target", [Target((make_ref("web"), make_ref("db"))), Target(pool="gpu")])
def test_a_number_in_a_schedule_is_for_one_workload_alone(target: Target) -> None:
    schedules = (
        Schedule("@daily", replicas=0),
        Schedule("@daily", replicas=2),
        Schedule("@daily", wake=True),
        Schedule("@daily"),
    )
    assert found(make_policy(target=target, schedules=schedules)) == [
        ("schedules[1].replicas", False),
        ("schedules[3].replicas", False),
    ]


@pytest.mark.parametrize("phase", [Phase.FALLING, Phase.ZERO, Phase.WAKING])
def test_what_sleeps_would_be_stranded_by_another_target(phase: Phase) -> None:
    (problem,) = stranded(make_policy(), make_state(phase))
    assert (problem.field, problem.taken) == ("target", True)
    assert "wake it first" in problem.says


def test_a_member_that_still_sleeps_would_be_stranded_too() -> None:
    state = make_state(remembered=(Remembered(make_ref("db"), 1), Remembered(make_ref("old"), 0)))
    assert list(stranded(make_policy("web", make_ref("web"), make_ref("db")), state)) == []
    (problem,) = stranded(make_policy("web"), state)
    assert "Deployment default/db was put to sleep by it" in problem.says


def test_a_schedule_counts_from_when_it_was_written() -> None:
    old, other = Schedule("@daily", written_at=5), Schedule("@hourly", written_at=6)
    twice = stamped((Schedule("@hourly"), Schedule("@daily"), Schedule("@daily")), (old, other), 9)
    assert [each.written_at for each in twice] == [6, 5, 9]
    changed = stamped((Schedule("@daily", replicas=2), Schedule("@daily", wake=True)), (old,), 9)
    assert [each.written_at for each in changed] == [9, 9]


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
def test_a_target_has_one_policy_that_is_active(policy: Policy, other: Policy, field: str) -> None:
    assert found(policy, other) == [(field, True)]
    (problem,) = check_policy(policy, [other], POOLS)
    assert f"is the target of policy {other.name} already" in problem.says


def test_a_policy_that_is_switched_off_has_no_claim() -> None:
    assert found(make_policy("new", make_ref("web"), enabled=False), make_policy()) == []
    assert found(make_policy("new", make_ref("web")), make_policy(enabled=False)) == []


def test_a_gate_is_for_workloads_and_a_service_for_one_policy() -> None:
    web, old = gate_of("web"), gate_of("old", "web")
    assert found(pool("gpu", gate=web)) == [("gate", False)]
    other = make_policy("other", make_ref("other"), id=policy_id(2), gate=old)
    assert found(make_policy(gate=web), other) == [("gate.services[0]", True)]
    assert found(make_policy(gate=web), replace(other, enabled=False)) == []
    assert found(make_policy(gate=gate_of("new")), other) == []
