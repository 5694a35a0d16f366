"""Budgets for `ebbtide status`: which hold now, until when, and how much of them is used. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ebbtide.core.nodes.budgets import described, is_active, limit_of
from ebbtide.core.nodes.gates import in_disruption
from ebbtide.core.schedule import last_fire, next_fire
from ebbtide.model.budget import RemovalBudget
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings


@dataclass(frozen=True, slots=True)
class BudgetLine:
    of: str
    """`cluster`, or the name of the pool."""
    says: str
    active: bool
    changes_at: int | None
    """When it ceases to hold or begins to; none where it always holds, or never again."""
    limit: int | None
    """None for a share of a pool: how large a pool is, the record does not know."""
    leaving: int


def budget_lines(settings: Settings, record: Record, now: int) -> tuple[BudgetLine, ...]:
    return tuple(_lines(settings, record, now))


def _lines(settings: Settings, record: Record, now: int) -> Iterator[BudgetLine]:
    going = in_disruption(record)
    usual = f"{settings.budget_fraction:.0%} of the workers, or 1"
    most = max(1, int(settings.budget_fraction * record.worker_count))
    yield BudgetLine("cluster", usual, True, None, most, len(going))
    for budget in settings.budgets:
        yield _line("cluster", budget, record.worker_count, len(going), now)
    for pool in settings.pools:
        of_pool = sum(1 for one in going if one.pool == pool.name)
        for budget in pool.budgets:
            yield _line(pool.name, budget, None, of_pool, now)


def _line(of: str, budget: RemovalBudget, workers: int | None, going: int, now: int) -> BudgetLine:
    active, window = is_active(budget, now), budget.window
    changes_at = None
    if window is not None and active:
        changes_at = (last_fire(window.cron, window.zone, now) or now) + window.duration_seconds
    elif window is not None:
        changes_at = next_fire(window.cron, window.zone, now)
    known = workers is not None or not budget.percent
    return BudgetLine(
        of, described(budget), active, changes_at, limit_of(budget, workers or 0) if known else None, going
    )


def as_data(line: BudgetLine) -> dict[str, Any]:
    return {
        "of": line.of,
        "budget": line.says,
        "active": line.active,
        "changesEpoch": line.changes_at,
        "limit": line.limit,
        "leaving": line.leaving,
    }
