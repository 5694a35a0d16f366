"""Budgets as `ebbtide status` shows them: what holds now, until when, and how much of it is used."""

from __future__ import annotations

from ebbtide.entrypoints.views.decisions import budget_lines, budget_text
from ebbtide.model.pool import CronWindow, RemovalBudget
from tests.builders import make_pool, make_record, make_removal, make_scale_down, make_settings

NOON = 1_780_315_200
"""2026-06-01, a Monday, 12:00 UTC."""
OPEN = CronWindow("0 9 * * mon-fri", "UTC", 8 * 3600)
SHUT = CronWindow("0 22 * * *", "UTC", 3600)
GOING = make_record(
    worker_count=30, operation=make_scale_down(make_removal("a1"), make_removal("b1", pool="gpu"))
)


def test_each_budget_is_told_with_its_scope_its_use_and_when_it_changes() -> None:
    pools = (make_pool("gpu", budgets=(RemovalBudget(10, percent=True), RemovalBudget(0, window=SHUT))),)
    settings = make_settings(pools=pools, budgets=(RemovalBudget(20, percent=True, window=OPEN),))
    lines = budget_lines(settings, GOING, NOON)
    assert [budget_text(line, NOON).plain for line in lines] == [
        "10% of the workers, or 1; 2 of 3 leaving",
        "20% from '0 9 * * mon-fri' in UTC for 8h; 2 of 6 leaving, for another 5 h",
        "pool gpu: 10%; 1 leaving",
        "pool gpu: 0 nodes from '0 22 * * *' in UTC for 1h; not now, begins in 10 h",
    ]
