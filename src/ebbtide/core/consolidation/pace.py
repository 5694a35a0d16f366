"""How often consolidation may act: a cooldown that doubles while it is fruitless, evictions in an hour, and
whether demand is settled enough to repack.

Cooldown and evictions are counted before anything is done: a crash can only make it wait longer than it
would have to. Consolidation saves only until the demand returns that its nodes were launched for. Then
pods are pending until new nodes are ready. So it waits while demand has risen a lot lately. Demand that
only falls does not hold it up. Demand is the sum of the requests of all pods that do not come and go with
a node, the pending ones among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.core.words import a_while
from ebbtide.model.check import Check, Values
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationSettings
from ebbtide.model.operation import Consolidate, Move, MoveState
from ebbtide.model.record import Demand, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

HOUR_SECONDS = 3600
_MOST_DOUBLINGS = 20
PARTS = 30
"""In how many parts the time is kept: the record must stay small."""


def wait_seconds(record: Record, rules: ConsolidationSettings) -> int:
    """From the beginning of the last consolidation to that of the next."""
    longest = max(rules.cooldown_seconds, rules.backoff_max_seconds)
    doublings = min(record.consolidations_in_vain, _MOST_DOUBLINGS)
    return min(longest, rules.cooldown_seconds << doublings)


def cooled_down(record: Record, rules: ConsolidationSettings, now: int) -> Check:
    last, wait = record.last_consolidation_at, wait_seconds(record, rules)
    if not last or now - last >= wait:
        over = f"the cooldown of {a_while(wait)} is over" if last else "none before"
        return Check("cooled down", True, over, Values(now - last if last else None, wait))
    cooldown = a_while(rules.cooldown_seconds)
    says = f"the last consolidation was {a_while(now - last)} ago, the cooldown is {cooldown}"
    if vain := record.consolidations_in_vain:
        says += f", {a_while(wait)} after {vain} without result (too few of their nodes were removed so far)"
    return Check("cooled down", False, says, Values(now - last, wait))


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


def track_demand(
    snapshot: Snapshot, before: tuple[Demand, ...], settings: Settings, now: int
) -> tuple[Demand, ...]:
    """The highest demand of each part of the time that counts, the oldest first."""
    window = settings.settled_seconds
    if not window:
        return ()
    # A clock that went back leaves stamps from the future, which would never grow old.
    kept = [one for one in before if now - window < one.at <= now]
    cpu, memory = _asked_for(snapshot)
    if kept and now - kept[-1].at < max(1, window // PARTS):
        last = kept.pop()
        return (*kept, Demand(last.at, max(last.cpu_milli, cpu), max(last.memory_mib, memory)))
    return (*kept, Demand(now, cpu, memory))


def settled(record: Record, settings: Settings) -> Check:
    rise = max(
        _largest_rise([one.cpu_milli for one in record.demand]),
        _largest_rise([one.memory_mib for one in record.demand]),
    )
    says = f"demand rose by {rise:.0%} within the last {a_while(settings.settled_seconds)}"
    says += f", at most {settings.settled_rise:.0%} is allowed"
    return Check("demand settled", rise <= settings.settled_rise, says, Values(rise, settings.settled_rise))


def _asked_for(snapshot: Snapshot) -> tuple[int, int]:
    pods = (pod for pod in snapshot.cluster.pods if not (pod.finished or pod.terminating or pod.tied_to_node))
    asked = [pod.requests for pod in pods]
    return sum(one.cpu_milli for one in asked), sum(one.memory_mib for one in asked)


def _largest_rise(amounts: Sequence[int]) -> float:
    """From a low to a later high, as a share of the high."""
    rise, low = 0.0, amounts[0] if amounts else 0
    for amount in amounts:
        low = min(low, amount)
        if amount:
            rise = max(rise, (amount - low) / amount)
    return rise
