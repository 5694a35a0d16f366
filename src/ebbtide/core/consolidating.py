"""Whether to consolidate now, and with what: the last strategy of a decision.

Nodes that are leaving by an earlier plan come first; as long as there are any, no other plan is made.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.consolidation import evaluate
from ebbtide.core.leaving import choose_leaving, note_leaving, stable
from ebbtide.core.question import Answer, Question, no_operation
from ebbtide.model.check import Check, Refusal
from ebbtide.model.consolidation import ConsolidationPlan


def consolidate(q: Question, answer: Answer) -> Iterator[Check]:
    enabled = q.settings.consolidation.enabled
    yield Check("consolidation on", enabled, f"consolidation is {'on' if enabled else 'off'}")
    yield no_operation(q)
    yield from _go_on(q, answer) if q.record.leaving else _begin(q, answer)


def _go_on(q: Question, answer: Answer) -> Iterator[Check]:
    """What was decided before, and waited for the idle time or for a budget."""
    yield from stable(q.snapshot, q.record, q.settings)
    removals, answer.refusals = choose_leaving(q.snapshot, q.record, q.settings, q.now)
    yield Check("a node that leaves can go", bool(removals), _said(len(removals), answer.refusals))
    answer.removals = removals
    names = ", ".join(removal.node_name for removal in removals)
    answer.reason = f"remove {names}: emptied by consolidation {q.record.leaving[0].operation_id}"


def _begin(q: Question, answer: Answer) -> Iterator[Check]:
    players = dict(q.snapshot.players)
    report = evaluate(q.snapshot, q.record, q.settings, q.now, q.operation_id, players=players)
    answer.refusals, answer.consolidation = report.refusals, report
    yield from report.checks
    plan = report.plan
    yield Check("worth a plan", plan is not None, _in_words(plan) if plan else "no plan was made")
    if plan is None:
        return
    if plan.sources:
        answer.slots = plan.slots
    else:
        record = note_leaving(q.record, plan.empties, q.operation_id, q.settings, q.now)
        removals, refusals = choose_leaving(q.snapshot, record, q.settings, q.now)
        answer.refusals += refusals
        yield Check("an empty node can go", bool(removals), _said(len(removals), refusals))
        answer.removals = removals
    answer.reason = _in_words(plan)


def _said(count: int, refusals: tuple[Refusal, ...]) -> str:
    first = next((f"{one.node_name}: {one.reason}" for one in refusals), "nothing is leaving")
    return f"{count} can go" if count else first


def _in_words(plan: ConsolidationPlan) -> str:
    nodes = ", ".join(one.node_name for one in (*plan.sources, *plan.empties))
    saves = f"saves {plan.savings_per_hour} {plan.currency}/h"
    if not plan.sources:
        return f"consolidation: remove {nodes}, empty and idle; {saves}"
    launched = f", {len(plan.slots)} launched first" if plan.slots else ""
    return f"consolidation: empty {nodes} by {len(plan.moves)} moves{launched}; {saves}"
