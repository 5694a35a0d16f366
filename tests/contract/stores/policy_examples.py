"""Policies, states and days for the contract of policy stores: plain ones, and ones with every field set."""

from __future__ import annotations

import uuid
from dataclasses import replace
from decimal import Decimal

from ebbtide.model.idle import (
    IdleState,
    LedgerDay,
    Phase,
    PolicyCause,
    Rate,
    Remembered,
    RuleTimer,
    WakeReason,
    WakeTime,
)
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Operator, Policy, Rule, Schedule, Signal, SignalKind, Target

AT = 1_730_000_300
WEB = WorkloadRef(WorkloadKind.DEPLOYMENT, "shop", "web")
DATA = WorkloadRef(WorkloadKind.STATEFUL_SET, "shop", "data")


def policy_id(number: int) -> str:
    return str(uuid.UUID(int=number))


def make_policy(number: int = 1, name: str = "") -> Policy:
    """Each has a workload of its own; that of the first is `WEB`."""
    web = WEB if number == 1 else replace(WEB, name=f"web-{number}")
    return Policy(
        policy_id(number), name or f"policy-{number:03d}", Target((web,)), created_at=AT, updated_at=AT
    )


FULL_POLICY = Policy(
    id=policy_id(7),
    name="Büro – “nights” ☂",
    target=Target((WEB, DATA), pool=""),
    min_replicas=2,
    max_replicas=20,
    cooldown_seconds=60,
    max_hourly_cost=Decimal("12.3400000000000000000000000001"),
    scale_to_zero=True,
    enabled=False,
    rules=(
        Rule('avg(rate(http_requests_total{job="web"}[5m]))', Operator.GTE, 0.1, 60, 2),
        Rule("up", Operator.EQ, -1e-9, 0, -1),
    ),
    schedules=(
        Schedule("0 8 * * 1-5", "Europe/Berlin", 2, ("2026-12-25", "2027-01-01")),
        Schedule("@daily", wake=True, written_at=AT),
    ),
    signals=(Signal(SignalKind.PROMQL_RATE, "rate(x[1m])", 0.5), Signal(SignalKind.CPU, "cpu", 1e300)),
    idle_threshold_seconds=0,
    keep_alive_window_seconds=86_400,
    cold_start_timeout_seconds=5,
    grace_seconds=0,
    hourly_cost=Decimal("1E-7"),
    currency="USD",
    zone="Asia/Kathmandu",
    created_at=AT,
    updated_at=AT + 1,
)

POLICIES = {
    "plain": make_policy(),
    "with every field": FULL_POLICY,
    "of a pool": replace(make_policy(), target=Target(pool="gpu")),
    "with a long name": make_policy(1, "n" * 253),
}


def full_state(state: IdleState) -> IdleState:
    """The same state with every field set."""
    return replace(
        state,
        phase=Phase.ZERO,
        last_activity_at=AT + 1,
        idle_since=AT + 2,
        scaled_to_zero_at=AT + 3,
        last_wake_at=AT + 4,
        wake_reason=WakeReason.WEBHOOK,
        wake_count=17,
        remembered=(Remembered(WEB, 3), Remembered(DATA, 1)),
        wakes=(WakeTime(AT, 12.5, 0.1, WakeReason.SCHEDULED), WakeTime(AT + 9, 1e-3)),
        keep_up_until=AT + 5,
        paused=True,
        extra_keep_alive_seconds=600,
        last_scaled_at=AT + 6,
        timers=(RuleTimer("0:up", AT),),
        scheduled_until=AT + 7,
        checked_at=AT + 8,
        rate=Rate(Decimal("0.01680000000000000000000000000000001"), "EUR", "hetzner cpx32"),
        stretch_since=AT + 9,
        left_alone="an HPA – “web” – has it\n",
        left_alone_cause=PolicyCause.AUTOSCALER,
        rule_held="at max_replicas",
        rule_held_cause=PolicyCause.BOUND,
    )


def make_day(
    number: int = 1, date: str = "2026-01-30", currency: str = "EUR", price: str = "0.0168"
) -> LedgerDay:
    """An hour idle and two at zero, at this price."""
    per_hour = Decimal(price)
    return LedgerDay(
        policy_id(number),
        date,
        currency,
        "price book",
        idle_seconds=3600,
        scaled_to_zero_seconds=7200,
        idle_price_seconds=per_hour * 3600,
        zero_price_seconds=per_hour * 7200,
        wakes=1,
        wake_price_seconds=per_hour * 30,
        realised_price_seconds=per_hour * 60,
        unpriced_seconds=0,
    )
