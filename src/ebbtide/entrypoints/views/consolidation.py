"""A report on consolidation, for the eye and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from rich.table import Table

from ebbtide.core.consolidation.summary import CENT, HOURS_PER_MONTH, evaluated
from ebbtide.core.words import a_price
from ebbtide.entrypoints.cli.writing import span
from ebbtide.model.consolidation import (
    ConsolidationPlan,
    ConsolidationReport,
    ConsolidationSettings,
    NodeAnalysis,
)

COLUMNS = ("node", "type", "age", "idle", "pods", "cost/h", "fate")
NUMERIC = range(2, 6)
POINTS_SHOWN = 12


def node_table(report: ConsolidationReport) -> Table:
    table = Table()
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="right" if number in NUMERIC else "left", overflow="fold")
    for node in report.nodes:
        table.add_row(*_cells(node))
    return table


def _cells(node: NodeAnalysis) -> tuple[str, ...]:
    return (
        node.node_name,
        node.instance_type or "-",
        span(node.age_seconds),
        span(node.idle_seconds) if node.idle_seconds else "-",
        str(node.pods),
        "unknown" if node.cost_per_hour is None else a_price(node.cost_per_hour),
        "kept" if node.kept else "removed",
    )


def said(report: ConsolidationReport) -> Iterator[str]:
    """What was found, in sentences; the table of nodes stands before it."""
    for node in report.nodes:
        yield f"{node.node_name} is {'kept' if node.kept else 'removed'}: {node.why or 'nothing cheaper'}"
    for move in report.candidate.moves if report.candidate else ():
        yield f"move {move.pod_name}: {move.from_node} -> {move.to_node}"
    for slot in report.candidate.slots if report.candidate else ():
        yield f"launch {slot.instance_type} in {slot.zone} (pool {slot.pool}) as {slot.key}"
    if report.candidate is not None:
        yield from _sums(report.candidate)
    failed = report.failed
    if failed is not None:
        yield f"Nothing would be done: {failed.says} ({failed.name})."
        for check in report.checks:
            if not check.passed and check is not failed:
                yield f"Other checks that fail: {check.says} ({check.name})."
    elif report.plan is not None:
        yield "Every check passed: with consolidation on, the next tick would begin this."
    yield "Nothing was touched."


def _sums(plan: ConsolidationPlan) -> Iterator[str]:
    yield (
        f"{_money(plan.cost_before, plan)} are paid; {_money(plan.cost_after, plan)} would be, which saves "
        f"{_money(plan.savings_per_hour, plan)} ({_month(plan.savings_per_hour)} a month) with "
        f"{len(plan.moves)} moves."
    )
    yield f"No set of nodes costs less than {_money(plan.bound, plan)}{_gap(plan)}."
    points = plan.frontier
    step = max(1, -(-len(points) // POINTS_SHOWN))
    shown = [*points[:-1:step], points[-1]]
    texts = ", ".join(f"{point.pods_moved} moves: {a_price(point.cost_per_hour)}" for point in shown)
    yield f"For more moves it could cost less: {texts}."


def _gap(plan: ConsolidationPlan) -> str:
    if not plan.bound:
        return ""
    return f", which this is {float(plan.cost_after / plan.bound - 1):.1%} above"


def _money(amount: Decimal, plan: ConsolidationPlan) -> str:
    return f"{a_price(amount)} {plan.currency}/h"


def _month(amount: Decimal) -> str:
    return str((amount * HOURS_PER_MONTH).quantize(CENT))


def as_data(report: ConsolidationReport, rules: ConsolidationSettings) -> dict[str, Any]:
    plan = report.candidate
    return {
        "allowed": report.plan is not None,
        "entry": asdict(evaluated(report, rules)),
        "checks": [{"name": c.name, "passed": c.passed, "says": c.says} for c in report.checks],
        "nodes": [_node_data(node) for node in report.nodes],
        "leftOut": [{"node": refusal.node_name, "reason": refusal.reason} for refusal in report.refusals],
        "plan": None if plan is None else _plan_data(plan),
    }


def _node_data(node: NodeAnalysis) -> dict[str, Any]:
    return {
        "name": node.node_name,
        "type": node.instance_type,
        "ageSeconds": node.age_seconds,
        "idleSeconds": node.idle_seconds,
        "pods": node.pods,
        "costPerHour": None if node.cost_per_hour is None else str(node.cost_per_hour),
        "kept": node.kept,
        "why": node.why,
    }


def _plan_data(plan: ConsolidationPlan) -> dict[str, Any]:
    return {
        "empties": [removal.node_name for removal in plan.empties],
        "sources": [removal.node_name for removal in plan.sources],
        "moves": [{"pod": m.pod_name, "from": m.from_node, "to": m.to_node} for m in plan.moves],
        "launches": [
            {"key": s.key, "pool": s.pool, "zone": s.zone, "type": s.instance_type} for s in plan.slots
        ],
        "costBefore": str(plan.cost_before),
        "costAfter": str(plan.cost_after),
        "savingsPerHour": str(plan.savings_per_hour),
        "savingsPerMonth": _month(plan.savings_per_hour),
        "bound": str(plan.bound),
        "currency": plan.currency,
        "frontier": [
            {"podsMoved": point.pods_moved, "costPerHour": str(point.cost_per_hour)}
            for point in plan.frontier
        ],
    }
