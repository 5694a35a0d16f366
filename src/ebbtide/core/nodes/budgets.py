"""What budgets allow at a given time. Of those that apply, the most restrictive counts.

A budget applies to a removal of one of its reasons while its window is open. All removals in
progress count against it, whatever their reason.
"""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.core.schedule import is_open
from ebbtide.model.budget import Allowance, RemovalBudget, RemovalReason

HOUR, MINUTE = 3600, 60


def allowed(
    budgets: Iterable[RemovalBudget],
    pool: str,
    reason: RemovalReason,
    worker_count: int,
    leaving_count: int,
    now: int,
) -> Allowance:
    """How many more of `worker_count` workers may go, where `leaving_count` are on their way already.

    `pool` names whose budgets these are; empty for those of the whole cluster.
    """
    whose = f"pool {pool}" if pool else "the cluster"
    applying = [budget for budget in budgets if applies(budget, reason, now)]
    if not applying:
        return Allowance(max(0, worker_count - leaving_count), f"no budget of {whose} limits it now")
    tightest = min(applying, key=lambda budget: limit_of(budget, worker_count))
    limit = min(limit_of(tightest, worker_count), worker_count)
    says = f"{leaving_count} of at most {limit} are leaving; budget of {whose}: {described(tightest)}"
    return Allowance(max(0, limit - leaving_count), says)


def applies(budget: RemovalBudget, reason: RemovalReason, now: int) -> bool:
    return (not budget.reasons or reason in budget.reasons) and is_active(budget, now)


def is_active(budget: RemovalBudget, now: int) -> bool:
    return budget.window is None or is_open(budget.window, now)


def limit_of(budget: RemovalBudget, worker_count: int) -> int:
    return -(-budget.nodes * worker_count // 100) if budget.percent else budget.nodes


def described(budget: RemovalBudget) -> str:
    """The budget in words, as it was configured."""
    parts = [f"{budget.nodes}%" if budget.percent else f"{budget.nodes} nodes"]
    if budget.reasons:
        parts.append(f"for {', '.join(budget.reasons)}")
    if window := budget.window:
        parts.append(f"from {window.cron!r} in {window.zone} for {_span(window.duration_seconds)}")
    return " ".join(parts)


def _span(seconds: int) -> str:
    hours, rest = divmod(seconds, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    parts = [f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if n]
    return "".join(parts)
