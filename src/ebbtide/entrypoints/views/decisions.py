"""Records, operations, decisions, budgets and reports on consolidation in words, for a terminal and for
programs. Pure: values in, lines out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, assert_never

from rich.table import Table
from rich.text import Text

from ebbtide.core.consolidation.evaluate import CENT, HOURS_PER_MONTH, evaluation_fact
from ebbtide.core.consolidation.pace import evicted_lately, wait_seconds
from ebbtide.core.nodes.drain import described, is_active, limit_of
from ebbtide.core.nodes.gates import REPLACED, in_disruption
from ebbtide.core.operations.facts import Part, parts
from ebbtide.core.schedule import last_fire, next_fire
from ebbtide.core.words import a_price, names_of
from ebbtide.entrypoints.views.headline import lease_says
from ebbtide.entrypoints.views.terminal import BAD, GOOD, QUIET, STRONG, ago, moment, rows, span
from ebbtide.model import operation as ops
from ebbtide.model.check import Check, Gate
from ebbtide.model.consolidation import (
    ConsolidationPlan,
    ConsolidationReport,
    ConsolidationSettings,
    NodeAnalysis,
)
from ebbtide.model.decision import Action, Decision, Verdict
from ebbtide.model.pool import HeadroomSeen, RemovalBudget
from ebbtide.model.record import Record, Refused
from ebbtide.model.settings import Settings

DONE = (ops.SlotState.READY, ops.RemovalState.GONE, ops.SourceState.EMPTIED, ops.MoveState.MOVED)
UNDONE = (ops.SlotState.RECLAIMED, ops.SlotState.FAILED, ops.RemovalState.RELEASED, ops.MoveState.LEFT)

READING_ORDER = (
    Action.SCALE_UP,
    Action.SCALE_DOWN,
    Action.CONSOLIDATE,
    Action.REPLACE,
    Action.REPAIR,
    Action.FORGET,
    Action.ADOPT,
    Action.RELEASE,
    Action.RETRY,
    Action.NOTHING,
)
FAULTS = (Gate.COMPLETE, Gate.PLAUSIBLE, Gate.HEALTHY, Gate.CPU_KNOWN, Gate.WORKERS_MATCHED)
"""Checks that fail because something is wrong, not because there is nothing to do."""


def spoken(action: Action) -> str:
    return action.value.replace("_", "-")


def operation_title(operation: ops.Operation, now: float) -> str:
    match operation:
        case ops.ScaleUp():
            kind = f"scale-up by {operation.requested}"
        case ops.ScaleDown():
            name = "scale-down" if operation.cause not in REPLACED else f"replacement ({operation.cause})"
            kind = f"{name} (aborting)" if operation.abort_reason else name
        case ops.Consolidate():
            kind = "consolidation (aborting)" if operation.abort_reason else "consolidation"
        case _:
            assert_never(operation)
    return f"{kind} {operation.id}, begun {ago(operation.started_at, now)}"


def operation_lines(operation: ops.Operation, now: float) -> list[Text]:
    lines = [Text(operation_title(operation, now), STRONG)]
    why = "" if isinstance(operation, ops.ScaleUp) else operation.abort_reason
    lines += [Text(f"  {said}", QUIET) for said in (operation.reason, why) if said]
    return lines + [Text("  ") + part_line(part, now) for part in parts(operation)]


def part_line(part: Part, now: float) -> Text:
    """One node or pod of an operation: what it is, how far it is, since when."""
    if isinstance(part, ops.Move):
        name = f"{part.pod_name} from {part.from_node} to {part.to_node}"
    else:
        name = part.node_name or part.instance_id
    if isinstance(part, ops.Slot):
        name = name or f"{part.instance_type} in {part.zone}"
    style = GOOD if part.state in DONE else BAD if part.state in UNDONE else "yellow"
    line = Text.assemble(f"{name}  ", (part.state.value, style))
    if part.since:
        # The clock of a launch runs until the node is ready, and is not set again in between.
        joined = isinstance(part, ops.Slot) and part.state is ops.SlotState.JOINED
        lasting = span(now - part.since)
        line.append(f", launched {lasting} ago" if joined else f"  for {lasting}", QUIET)
    if isinstance(part, ops.Removal) and part.attempts:
        line.append(f", {part.attempts} drain{'s' if part.attempts > 1 else ''} begun", QUIET)
    if part.reason:
        line.append(f": {part.reason}", QUIET)
    return line


def spot_line(spot: ops.Spot, now: float) -> Text:
    left = f"{span(spot.deadline - now)} left" if spot.deadline > now else "its time is up"
    line = Text(f"{spot.kind} of {spot.instance_id}, {left}")
    if spot.removal is not None:
        line.append(f"; removal {spot.removal.state}")
    if spot.slot is not None:
        line.append(f"; replacement {spot.slot.state}")
    elif not spot.replace:
        line.append("; no replacement")
    return line


def decision_lines(decision: Decision) -> Iterator[Text]:
    yield Text.assemble(("decision ", QUIET), (decision.id, STRONG), (f"  {moment(decision.at)}", QUIET))
    yield Text.assemble((spoken(decision.action), STRONG), f": {decision.reason}")
    for slot in decision.slots:
        yield Text(f"  launch {slot.instance_type} ({slot.market}) in {slot.zone}, pool {slot.pool}")
    plan = decision.consolidation.plan if decision.consolidation is not None else None
    for move in plan.moves if plan is not None else ():
        yield Text(f"  move {move.pod_name} from {move.from_node} to {move.to_node}")
    for removal in decision.removals:
        yield Text(
            f"  remove {removal.node_name or removal.instance_id} in {removal.zone}, pool {removal.pool}"
        )
    for verdict in by_interest(decision.verdicts):
        yield Text()
        yield from verdict_lines(verdict)


def by_interest(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """First what is done, then what readers ask about most: not the order in which the engine asks."""
    return sorted(verdicts, key=lambda one: (one.failed is not None, READING_ORDER.index(one.action)))


def verdict_lines(verdict: Verdict) -> Iterator[Text]:
    failed = verdict.failed
    yield Text.assemble((spoken(verdict.action), STRONG), ("  no", QUIET) if failed else ("  yes", GOOD))
    width = max((len(check.name) for check in verdict.checks), default=0)
    for check in verdict.checks:
        yield Text.assemble("  ", _mark(check), f" {check.name:<{width}}  {check.says}")
    if verdict.refusals:
        yield Text("  skipped:", QUIET)
        width = max(len(refusal.node_name) for refusal in verdict.refusals)
        for refusal in verdict.refusals:
            yield Text(f"    {refusal.node_name:<{width}}  {refusal.reason}")


def _mark(check: Check) -> tuple[str, str]:
    """A cross is for what is wrong. That something is not needed now is no fault."""
    if check.passed:
        return "✓", GOOD
    return ("✗", BAD) if check.name in FAULTS else ("–", QUIET)


def budget_text(line: BudgetLine, now: float) -> Text:
    whose = "" if line.of == "cluster" else f"pool {line.of}: "
    used = f"{line.leaving} leaving" if line.limit is None else f"{line.leaving} of {line.limit} leaving"
    held = f", for another {span(line.changes_at - now)}" if line.changes_at is not None else ""
    if line.active:
        return Text(f"{whose}{line.says}; {used}{held}")
    begins = f", begins in {span(line.changes_at - now)}" if line.changes_at is not None else ""
    return Text(f"{whose}{line.says}; not now{begins}", QUIET)


def record_lines(record: Record, settings: Settings, now: float) -> list[Text]:
    lines = rows(_record_pairs(record, settings, now))
    for operation in record.operations:
        lines += [Text(), *operation_lines(operation, now)]
    for aside in record.all_set_aside:
        lines += [Text(), Text("set aside, until `ebbtide resume`:", BAD)]
        lines += operation_lines(aside, now)
    return lines


def headroom_text(one: HeadroomSeen) -> Text:
    if not one.wanted:
        return Text(f"{one.says}; not now", QUIET)
    missing = f", {one.missing} missing" if one.missing else ""
    return Text(f"{one.says}: room for {one.there} of {one.wanted}{missing}", "yellow" if missing else "")


def refused_line(one: Refused, now: float) -> Text:
    """A node that cannot be removed and is not given back either."""
    name, left = one.removal.node_name or one.removal.instance_id, one.retry_at - now
    again = f"tried again in {span(left)}" if left > 0 else "tried again with the next tick"
    return Text(f"{name} ({one.removal.instance_id}), cordoned: {one.removal.reason}; {again}", BAD)


def _consolidation_pairs(
    record: Record, rules: ConsolidationSettings, now: float
) -> Iterator[tuple[str, Text | str]]:
    yield "last consolidation", ago(record.last_consolidation_at, now)
    left = record.last_consolidation_at + wait_seconds(record, rules) - now
    if record.consolidations_in_vain and left > 0 and not record.operations and not record.leaving:
        vain = f"{record.consolidations_in_vain} without result"
        yield "back-off", Text(f"consolidation for another {span(left)}, after {vain}", "yellow")
    done = evicted_lately(record, int(now))
    if done:
        yield "pods moved", f"{done} in the last hour, {rules.moves_per_hour} allowed"


def _record_pairs(record: Record, settings: Settings, now: float) -> Iterator[tuple[str, Text | str]]:
    yield "last tick", ago(record.ticked_at, now)
    yield "lease", lease_says(record, int(now))
    limits = f"{settings.min_workers} to {settings.max_workers} allowed"
    yield "workers", f"{record.worker_count} ({limits}), {record.pod_count} pods on them"
    yield from (("headroom", headroom_text(seen)) for seen in record.headroom)
    yield "last scaling", ago(record.last_scale_at, now)
    for name, since in (("some pod pending", record.pending_since), ("idle", record.idle_since)):
        if since:
            yield name, f"for {span(now - since)}"
    of = f" of {names_of(record.launch_backoff_offers)}" if record.launch_backoff_offers else ""
    for what, failures, until in (
        (f"launches{of}", record.launch_failures, record.launch_backoff_until),
        ("removals", record.removal_failures, record.removal_backoff_until),
    ):
        if until > now:
            text = f"{what} for another {span(until - now)}, after {failures} failures in a row"
            yield "back-off", Text(text, "yellow")
    if record.shrunk_since:
        yield "doubt", Text(f"the cluster has looked too small for {span(now - record.shrunk_since)}", BAD)
    why = f" ({record.pause_reason})" if record.pause_reason else ""
    yield "removals", Text(f"paused{why}", BAD) if record.paused else "allowed"
    for rest in record.skipped:
        yield "left alone", f"{rest.instance_id} for another {span(rest.until - now)}: {rest.reason}"
    if record.last_consolidation_at:
        yield from _consolidation_pairs(record, settings.consolidation, now)
    for one in record.leaving:
        yield "leaving", f"{one.node_name}, for another {span(one.until - now)} at most"
    for spot in record.spots:
        yield "spot", spot_line(spot, now)
    for refused in record.refused:
        yield "set aside", refused_line(refused, now)
    for unfit in record.unfit:
        yield unfit.reason.value, Text(f"{unfit.node_name}: {unfit.says}")
    if not record.operations:
        yield "operation", "none"


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


def consolidation_data(report: ConsolidationReport, rules: ConsolidationSettings) -> dict[str, Any]:
    plan = report.candidate
    return {
        "allowed": report.plan is not None,
        "entry": asdict(evaluation_fact(report, rules)),
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
