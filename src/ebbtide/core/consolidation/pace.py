"""How often consolidation may act: a cooldown that doubles while it is fruitless, and evictions in an hour.

Both are counted before anything is done: a crash can only make it wait longer than it would have to.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.model.check import Check
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationSettings
from ebbtide.model.operation import Consolidate, Move, MoveState
from ebbtide.model.record import Record

HOUR_SECONDS = 3600
_MOST_DOUBLINGS = 20


def wait_seconds(record: Record, rules: ConsolidationSettings) -> int:
    """From the beginning of the last consolidation to that of the next."""
    longest = max(rules.cooldown_seconds, rules.backoff_max_seconds)
    doublings = min(record.consolidations_in_vain, _MOST_DOUBLINGS)
    return min(longest, rules.cooldown_seconds << doublings)


def cooled_down(record: Record, rules: ConsolidationSettings, now: int) -> Check:
    last, wait = record.last_consolidation_at, wait_seconds(record, rules)
    says = f"{now - last} s since the last consolidation" if last else "none before"
    says += f", the cooldown is {rules.cooldown_seconds} s"
    if record.consolidations_in_vain:
        vain = record.consolidations_in_vain
        says += f", {wait} s after {vain} without result (too few of their nodes were removed so far)"
    return Check("cooled down", not last or now - last >= wait, says)


def charge_cooldown(record: Record, plan: ConsolidationPlan, now: int) -> Record:
    """Counts as fruitless until its nodes have gone: half of them, or all where others were launched for
    them."""
    nodes = len(plan.sources) + len(plan.empties)
    return replace(
        record,
        last_consolidation_at=now,
        consolidations_in_vain=record.consolidations_in_vain + 1,
        consolidation_owes=nodes if plan.slots else (nodes + 1) // 2,
    )


def removed(record: Record, nodes: int) -> Record:
    """So many nodes of the last consolidation are gone."""
    owes = max(0, record.consolidation_owes - nodes)
    return replace(
        record,
        consolidation_owes=owes,
        consolidations_in_vain=record.consolidations_in_vain if owes else 0,
    )


def evicted_lately(record: Record, now: int) -> int:
    return len(_lately(record, now))


def forget_evictions(record: Record, now: int) -> Record:
    """Without those of more than an hour ago; one from the future, by a clock that went back, was now."""
    lately = _lately(record, now)
    return record if lately == record.evictions else replace(record, evictions=lately)


def _lately(record: Record, now: int) -> tuple[int, ...]:
    return tuple(min(at, now) for at in record.evictions if now - at < HOUR_SECONDS)


def written(record: Record, operation: Consolidate) -> Record:
    """The record with this consolidation in its place, and with every eviction that it now intends. One
    that is asked for again is the same eviction, at a later time."""
    before: dict[str, Move] = {}
    if isinstance(record.removing, Consolidate):
        before = {move.pod_uid: move for move in record.removing.moves}
    times = list(record.evictions)
    for move in operation.moves:
        old = before.get(move.pod_uid)
        since = old.since if old is not None and old.state is MoveState.EVICTING else None
        if move.state is not MoveState.EVICTING or move.since == since:
            continue
        if since in times:
            times.remove(since)
        times.append(move.since)
    return replace(record, removing=operation, evictions=tuple(times))
