"""Whether to consolidate now, and with what: the last strategy of a decision.

Nodes that are leaving by an earlier plan come first; as long as there are any, no other plan is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from ebbtide.core.consolidation.emptied_nodes import choose_leaving, note_leaving, stable
from ebbtide.core.consolidation.evaluate import evaluated
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.budgets import allowed
from ebbtide.core.nodes.question import Answer, Question, backed_off, no_operation
from ebbtide.core.words import a_price, count_of, names_of, short_id, two_prices
from ebbtide.model.budget import RemovalReason
from ebbtide.model.check import Check, Refusal, Values
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport


def consolidate(q: Question, answer: Answer) -> Iterator[Check]:
    enabled = q.settings.consolidation.enabled
    yield Check("consolidation on", enabled, f"consolidation is {'on' if enabled else 'off'}")
    yield no_operation(q)
    yield from _go_on(q, answer) if q.record.leaving else _begin(q, answer)


def _go_on(q: Question, answer: Answer) -> Iterator[Check]:
    """What was decided before, and waited for the idle time or for a budget."""
    yield from stable(q.snapshot, q.record, q.settings)
    yield backed_off(q.record.removal_failures, q.record.removal_backoff_until, q.now)
    removals, answer.refusals = choose_leaving(q.snapshot, q.record, q.settings, q.now)
    yield _some_can_go("a node that leaves can go", len(removals), answer.refusals)
    answer.removals = removals
    names = names_of([removal.node_name for removal in removals])
    operation = short_id(q.record.leaving[0].operation_id)
    answer.reason = f"remove {names}: emptied by consolidation (operation {operation})"


def _begin(q: Question, answer: Answer) -> Iterator[Check]:
    report = evaluated(q, q.snapshot.players_of)
    answer.refusals, answer.consolidation = report.refusals, report
    yield from report.checks
    if report.plan is None:
        return
    yield backed_off(q.record.removal_failures, q.record.removal_backoff_until, q.now)
    if report.plan.sources:
        yield from _empty(q, answer, report, report.plan)
    else:
        yield from _remove(q, answer, report.plan)


def _remove(q: Question, answer: Answer, plan: ConsolidationPlan) -> Iterator[Check]:
    """The first path: what is empty goes, as many as may go at once; the others leave after them."""
    record = note_leaving(q.record, plan.empties, q.operation_id, q.settings, q.now)
    removals, refusals = choose_leaving(q.snapshot, record, q.settings, q.now)
    answer.refusals += refusals
    yield _some_can_go("an empty node can go", len(removals), refusals)
    answer.removals, answer.reason = removals, _in_words(plan)


def _empty(
    q: Question, answer: Answer, report: ConsolidationReport, plan: ConsolidationPlan
) -> Iterator[Check]:
    """The second path: pods are moved first."""
    plan, over = _within_budgets(q, report, plan)
    asked = len(plan.sources)
    says = f"{count_of(asked, 'node')} may be emptied" + (f", no more: {over}" if over else "")
    yield Check("within budget", asked > 0, says, Values(asked, 1))
    least = q.settings.consolidation.least_savings(plan.cost_before)
    saved, required = two_prices(plan.savings_per_hour, least)
    says = f"{saved} {plan.currency}/h are saved within the budgets, {required} are required"
    yield Check(
        "still worth it",
        plan.savings_per_hour >= least,
        says,
        Values(float(plan.savings_per_hour), float(least)),
    )
    answer.consolidation = replace(report, plan=plan)
    answer.slots, answer.reason = plan.slots, _in_words(plan)


def _within_budgets(
    q: Question, report: ConsolidationReport, plan: ConsolidationPlan
) -> tuple[ConsolidationPlan, str]:
    """The plan with as many sources as the budgets let go, and the budget that keeps back the rest: what is
    emptied is on its way out. A plan that launches nodes is taken as a whole or not at all. How many may
    be removed at the same time is another matter, and asked when each of them is."""
    kept: set[str] = set()
    over = ""
    budgets = _Budgets(q)
    for source in plan.sources:
        why = budgets.why_over(source.pool)
        if not why:
            kept.add(source.node_name)
        over = over or why
    if not over:
        return plan, ""
    if plan.slots:
        kept.clear()
    costs = {node.node_name: node.cost_per_hour for node in report.nodes}
    stays = [costs.get(one.node_name) or Decimal(0) for one in plan.sources if one.node_name not in kept]
    trimmed = replace(
        plan,
        sources=tuple(source for source in plan.sources if source.node_name in kept),
        moves=tuple(move for move in plan.moves if move.from_node in kept),
        cost_after=plan.cost_after + sum(stays),
    )
    return trimmed, over


class _Budgets:
    """How many more nodes may be emptied now, by the budgets of the cluster and of each pool. Counted down:
    on a large cluster each of thousands of nodes is asked for."""

    def __init__(self, q: Question) -> None:
        workers, going = q.snapshot.cluster.workers, gates.in_disruption(q.record)
        there = Counter(node.pool for node in workers)
        leaving = Counter(one.pool for one in going)
        reason = RemovalReason.UNDERUTILISED
        self._cluster = allowed(q.settings.budgets, "", reason, len(workers), len(going), q.now)
        self._pools = {
            pool.name: allowed(pool.budgets, pool.name, reason, there[pool.name], leaving[pool.name], q.now)
            for pool in q.settings.pools
        }
        self._taken: Counter[str] = Counter()

    def why_over(self, pool: str) -> str:
        """The budget that does not let one more node of this pool go; empty where one may, which then counts
        as taken."""
        if self._taken.total() >= self._cluster.count:
            return self._cluster.says
        room = self._pools.get(pool)
        if room is not None and self._taken[pool] >= room.count:
            return room.says
        self._taken[pool] += 1
        return ""


def _some_can_go(name: str, count: int, refusals: tuple[Refusal, ...]) -> Check:
    if count:
        return Check(name, True, f"{count} can go", Values(count, 1))
    first = next(iter(refusals), None)
    says = f"{first.node_name}: {first.reason}" if first else "nothing is leaving"
    return Check(name, False, says, Values(0, 1, first.node_name if first else ""))


def _in_words(plan: ConsolidationPlan) -> str:
    nodes = names_of([one.node_name for one in (*plan.sources, *plan.empties)])
    saves = f"saves {a_price(plan.savings_per_hour)} {plan.currency}/h"
    if not plan.sources:
        return f"consolidation: remove {nodes}, empty and idle; {saves}"
    launched = f", {len(plan.slots)} launched first" if plan.slots else ""
    return f"consolidation: empty {nodes} by {count_of(len(plan.moves), 'move')}{launched}; {saves}"
