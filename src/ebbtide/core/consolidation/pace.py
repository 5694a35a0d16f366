"""How often and how much consolidation may act: a cooldown that doubles while it is fruitless, evictions in
an hour, whether demand is settled enough to repack, and how many nodes the budgets let it empty.

Cooldown and evictions are counted before anything is done: a crash can only make it wait longer than it
would have to. Consolidation saves only until the demand returns that its nodes were launched for. Then
pods are pending until new nodes are ready. So it waits while demand has risen a lot lately. Demand that
only falls does not hold it up. Demand is the sum of the requests of all pods that do not come and go with
a node, the pending ones among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.drain import allowed
from ebbtide.core.nodes.question import Question
from ebbtide.core.words import a_while
from ebbtide.model.check import Check, Values
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport, ConsolidationSettings
from ebbtide.model.operation import Consolidate, Move, MoveState
from ebbtide.model.pod import Pod
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import DemandNote, Record
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
    snapshot: Snapshot, before: tuple[DemandNote, ...], settings: Settings, now: int
) -> tuple[DemandNote, ...]:
    """The highest demand of each part of the time that counts, the oldest first."""
    window = settings.settled_seconds
    if not window:
        return ()
    # A clock that went back leaves stamps from the future, which would never grow old.
    kept = [one for one in before if now - window < one.at <= now]
    cpu, memory = asked_for(snapshot)
    if kept and now - kept[-1].at < max(1, window // PARTS):
        last = kept.pop()
        return (*kept, DemandNote(last.at, max(last.cpu_milli, cpu), max(last.memory_mib, memory)))
    return (*kept, DemandNote(now, cpu, memory))


def settled(record: Record, settings: Settings) -> Check:
    rise = max(
        _largest_rise([one.cpu_milli for one in record.demand]),
        _largest_rise([one.memory_mib for one in record.demand]),
    )
    says = f"demand rose by {rise:.0%} within the last {a_while(settings.settled_seconds)}"
    says += f", at most {settings.settled_rise:.0%} is allowed"
    return Check("demand settled", rise <= settings.settled_rise, says, Values(rise, settings.settled_rise))


def asked_for(snapshot: Snapshot) -> tuple[int, int]:
    """CPU in milli and memory in MiB."""
    cpu, memory = _requested(snapshot.cluster.unplaced_pods)
    for load in snapshot.cluster.loads.values():
        more_cpu, more_memory = load.of(_requested)
        cpu, memory = cpu + more_cpu, memory + more_memory
    return cpu, memory


def _requested(pods: tuple[Pod, ...]) -> tuple[int, int]:
    asked = [pod.requests for pod in pods if not (pod.finished or pod.terminating or pod.tied_to_node)]
    return sum(one.cpu_milli for one in asked), sum(one.memory_mib for one in asked)


def _largest_rise(amounts: Sequence[int]) -> float:
    """From a low to a later high, as a share of the high."""
    rise, low = 0.0, amounts[0] if amounts else 0
    for amount in amounts:
        low = min(low, amount)
        if amount:
            rise = max(rise, (amount - low) / amount)
    return rise


def within_budgets(
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
