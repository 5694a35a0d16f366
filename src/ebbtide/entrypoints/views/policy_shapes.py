"""Policies, wakes and savings in the shapes of the API. Pure: values in, shapes out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from decimal import Decimal

from ebbtide.config.policies import keys_of
from ebbtide.core.scale_to_zero.activity import idle_threshold, not_watched
from ebbtide.core.scale_to_zero.eta import LearnedEta
from ebbtide.core.scale_to_zero.savings import Saved, SavingsDay, SavingsReport
from ebbtide.core.scale_to_zero.wake import keep_alive
from ebbtide.engine.scale_to_zero.scaling import Summary, Woken
from ebbtide.entrypoints.views.policy_schemas import (
    DayShape,
    EtaShape,
    PolicySavings,
    PolicyShape,
    SavingsShape,
    StateShape,
    SummaryShape,
    TotalsShape,
    WakeTimeShape,
    WokenShape,
)
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.policy import Policy, ZeroDefaults

EUROS = "EUR"
NOTHING = Saved("", "")
COLUMNS = (
    "date",
    "idle_hours",
    "scaled_to_zero_hours",
    "potential",
    "realised",
    "net",
    "wakes",
    "unpriced_seconds",
)


def policy_shape(
    policy: Policy, state: IdleState, defaults: ZeroDefaults, now: int, eta: LearnedEta
) -> PolicyShape:
    return PolicyShape(
        id=policy.id,
        name=policy.name,
        version=policy.version,
        created_at=policy.created_at,
        updated_at=policy.updated_at,
        target_says=str(policy.target),
        policy=keys_of(policy),
        state=state_shape(policy, state, defaults, now, eta),
    )


def state_shape(
    policy: Policy, state: IdleState, defaults: ZeroDefaults, now: int, eta: LearnedEta
) -> StateShape:
    quiet = keep_alive(policy, defaults) + state.extra_keep_alive_seconds
    why = why_awake(policy, state, now)
    zero_at = None
    if state.phase is Phase.IDLE and state.idle_since is not None and not why:
        zero_at = state.idle_since + idle_threshold(policy, defaults) + quiet
    return StateShape(
        phase=state.phase,
        last_activity_at=state.last_activity_at,
        idle_since=state.idle_since,
        scaled_to_zero_at=state.scaled_to_zero_at,
        last_wake_at=state.last_wake_at,
        wake_reason=state.wake_reason,
        is_scaled_to_zero=state.is_scaled_to_zero,
        wake_count=state.wake_count,
        keep_up_until=state.keep_up_until,
        paused=state.paused,
        left_alone=state.left_alone,
        left_alone_cause=state.left_alone_cause,
        rule_held=state.rule_held,
        rule_held_cause=state.rule_held_cause,
        zero_at=zero_at,
        why_awake=why,
        keep_alive_seconds=quiet,
        estimated_ready_seconds=eta.seconds,
        wakes=[
            WakeTimeShape(
                at=wake.at, reason=wake.reason, seconds=wake.seconds, node_seconds=wake.node_seconds
            )
            for wake in state.wakes
        ],
        eta=eta_shape(eta) if state.phase in (Phase.FALLING, Phase.ZERO, Phase.WAKING) else None,
    )


def eta_shape(eta: LearnedEta) -> EtaShape:
    first, node = eta.first, eta.node
    return EtaShape(
        seconds=eta.seconds,
        pod_seconds=eta.pods.seconds,
        pods_from=eta.pods.learned,
        node_first=first.need if first is not None else "unknown",
        node_pool=first.pool if first is not None else "",
        node_seconds=node.seconds if node is not None else 0.0,
        node_from=node.learned if node is not None else "",
        late=eta.late,
        says=eta.says,
    )


def why_awake(policy: Policy, state: IdleState, now: int) -> str:
    """Why it will not sleep, however idle it is."""
    if why := not_watched(policy):
        return why.says
    if state.paused:
        return "the policy is paused"
    if state.keep_up_until > now:
        return "it is kept up"
    if state.left_alone:
        return f"left alone: {state.left_alone}"
    return "it is in use" if state.phase is Phase.ACTIVE else ""


def woken_shape(woken: Woken) -> WokenShape:
    return WokenShape(
        policy_id=woken.policy_id,
        previous_replicas=woken.previous_replicas,
        target_replicas=woken.target_replicas,
        wake_reason=woken.wake_reason,
        message=woken.message,
        estimated_ready_seconds=woken.estimated_ready_seconds,
        wake_id=woken.wake_id,
        status=woken.status,
        ready=woken.ready,
        node_wait=woken.node_wait,
    )


def savings_shape(report: SavingsReport, period: str, yesterday: str) -> SavingsShape:
    currency, money = main_currency(report)
    return SavingsShape(
        policy_id=report.policy_id,
        period=period,
        first=report.first,
        last=report.last,
        yesterday=yesterday,
        currency=currency,
        total_idle_hours=hours(report.total.idle_seconds),
        total_scaled_to_zero_hours=hours(report.total.scaled_to_zero_seconds),
        estimated_savings_euros=euros(report.total),
        totals=totals(money, report.total),
        sources=sorted({saved.source for day in report.days for saved in day.money}),
        daily_breakdown=[day_shape(day, currency) for day in reversed(report.days)],
    )


def summary_shape(summary: Summary, period: str, yesterday: str) -> SummaryShape:
    shape = savings_shape(summary.total, period, yesterday)
    currency = shape.currency
    policies = [
        PolicySavings(
            policy_id=each.policy_id,
            estimated_savings_euros=euros(each.total),
            totals=totals(in_currency(each.total.money, currency), each.total),
        )
        for each in summary.policies
    ]
    return SummaryShape(**shape.model_dump(), policies=policies)


def main_currency(report: SavingsReport) -> tuple[str, Saved]:
    """Money of two currencies is not added up; what is shown is euros where there are any, else the first
    currency by name, and the table of days has the same."""
    names = [saved.currency for saved in report.total.money]
    name = EUROS if EUROS in names or not names else names[0]
    return name, in_currency(report.total.money, name)


def in_currency(money: Sequence[Saved], currency: str) -> Saved:
    return next((saved for saved in money if saved.currency == currency), NOTHING)


def day_shape(day: SavingsDay, currency: str) -> DayShape:
    money = in_currency(day.money, currency)
    return DayShape(
        date=day.date,
        idle_hours=hours(day.idle_seconds),
        scaled_to_zero_hours=hours(day.scaled_to_zero_seconds),
        savings_euros=euros(day),
        potential=str(money.potential),
        realised=str(money.realised),
        net=str(money.net),
        wakes=day.wakes,
        unpriced_seconds=day.unpriced_seconds,
    )


def totals(money: Saved, total: SavingsDay) -> TotalsShape:
    return TotalsShape(
        potential=str(money.potential),
        realised=str(money.realised),
        wake_cost=str(money.wake_cost),
        net=str(money.net),
        missed=str(money.missed),
        unpriced_seconds=total.unpriced_seconds,
    )


def euros(day: SavingsDay) -> float | None:
    """Potential savings; none where there is money of other currencies alone."""
    if day.money and all(saved.currency != EUROS for saved in day.money):
        return None
    return float(in_currency(day.money, EUROS).potential)


def hours(seconds: int) -> float:
    return float(Decimal(seconds) / 3600)


def csv_text(shape: SavingsShape) -> str:
    """A line for each day, oldest first."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, "currency"])
    for day in reversed(shape.daily_breakdown):
        writer.writerow([*(getattr(day, name) for name in COLUMNS), shape.currency])
    return out.getvalue()
