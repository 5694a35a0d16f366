"""Notes in the log: the cost of the workers per hour, and the demand on each pool per quarter of an hour.

Cost, number of nodes and number of pending pods are noted when they change; a number of pending pods that
goes up and down, at most once a minute. The last note is remembered, and a new process reads it from the
log, so a Lambda that starts every minute writes no more notes than a daemon.

Demand is part of a note of cost, so every version can read it. A process that dies loses what it saw of
the current quarter; the next one notes the rest. If a quarter has two notes, the higher one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.forecast.demand import demand_by_pool
from ebbtide.core.prices import CostPoint, cost_point
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.events import CostNoted
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Operation, Spot
from ebbtide.model.record import Record
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, PoolDemand, Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of, fact_in
from ebbtide.ports import Store

REPEAT_SECONDS = 3600
PENDING_SECONDS = 60


class CostNotes:
    def __init__(self, store: Store, settings: Settings, new_id: Callable[[], str]) -> None:
        self._store = store
        self._settings = settings
        self._new_id = new_id
        self._last: CostPoint | None = None

    def looked(self, snapshot: Snapshot, _record: Record) -> None:
        if snapshot.problems:
            return
        point = cost_point(snapshot, self._settings)
        if self._last is None:
            self._last = next(iter(read_points(self._store, 1)), None)
        if self._last is None or _is_news(self._last, point):
            self._store.append([cost_entry(self._new_id(), point)])
            self._last = point

    def decided(self, decision: Decision) -> None: ...

    def began(self, work: Operation | Spot) -> None: ...

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None: ...

    def performed(self, outcomes: Sequence[Outcome]) -> None: ...

    def closed(self, work: Operation | Spot, succeeded: bool) -> None: ...

    def ticked(self, seconds: float, held: bool, error: str) -> None: ...


def _is_news(last: CostPoint, point: CostPoint) -> bool:
    nodes = (last.per_hour, last.unpriced, last.workers)
    changed = nodes != (point.per_hour, point.unpriced, point.workers)
    if last.pending != point.pending and point.at - last.at >= PENDING_SECONDS:
        return True
    return changed or point.at - last.at >= REPEAT_SECONDS


def cost_entry(entry_id: str, point: CostPoint) -> LogEntry:
    return entry_of(entry_id, point.at, cost_of(point))


def cost_of(point: CostPoint) -> CostNoted:
    on_demand = None if point.on_demand is None else _texts(point.on_demand)
    pools = None if point.pools is None else {name: _texts(cost) for name, cost in point.pools.items()}
    return CostNoted(_texts(point.per_hour), point.unpriced, point.workers, point.pending, on_demand, pools)


def _texts(amounts: Mapping[str, Decimal]) -> dict[str, str]:
    return {currency: str(amount) for currency, amount in amounts.items()}


def _amounts(texts: Mapping[str, str]) -> dict[str, Decimal]:
    return {currency: Decimal(amount) for currency, amount in texts.items()}


def read_points(store: Store, limit: int) -> list[CostPoint]:
    """The newest so many, in the order of time."""
    entries = store.read_log([LogKind.COST], limit=limit)
    return [point_of(entry) for entry in reversed(entries)]


def point_of(entry: LogEntry) -> CostPoint:
    noted = fact_in(entry, CostNoted) or CostNoted({}, 0)
    on_demand = None if noted.onDemand is None else _amounts(noted.onDemand)
    pools = None if noted.pools is None else {name: _amounts(cost) for name, cost in noted.pools.items()}
    return CostPoint(
        entry.at, _amounts(noted.perHour), noted.unpriced, noted.workers, noted.pending, on_demand, pools
    )


KEPT_STEPS = 28 * STEPS_A_DAY
LATE_STEPS = 2
"""A history whose last quarter is so long ago lacks what another runner noted since."""
PAGE = 500
SUBJECT = "demand"
Pools = Mapping[str, PoolDemand]


@dataclass(frozen=True, slots=True)
class DemandSeries:
    """Pods of one pool by step, without a gap: what is not known is as a day before, or as it was last."""

    pods: tuple[int, ...]
    known: float
    """The share of the last week that was noted."""


class DemandNotes:
    def __init__(self, store: Store, new_id: Callable[[], str]) -> None:
        self._store = store
        self._new_id = new_id
        self._past: dict[int, dict[str, PoolDemand]] = {}
        self._step = 0
        self._highest: dict[str, PoolDemand] = {}

    def saw(self, snapshot: Snapshot, settings: Settings) -> None:
        """Note the last quarter when another has begun."""
        step = snapshot.at // STEP_SECONDS
        if step != self._step and self._highest:
            # Crash table: demand-note. What is lost here is one value of a forecast, and no intent.
            self._note(snapshot, settings)
        if step != self._step:
            self._step, self._highest = step, {}
        _raise(self._highest, demand_by_pool(snapshot.cluster, settings))

    def _note(self, snapshot: Snapshot, settings: Settings) -> None:
        _raise(self._past.setdefault(self._step, {}), self._highest)
        noted = replace(
            cost_of(cost_point(snapshot, settings)),
            demand={name: (one.pods, one.cpu_milli, one.memory_mib) for name, one in self._highest.items()},
            demandSince=self._step * STEP_SECONDS,
        )
        self._store.append([entry_of(self._new_id(), snapshot.at, noted, SUBJECT)])

    def last(self, pool: str) -> PoolDemand | None:
        """The last that was noted with a pod in it."""
        steps = (self._past[step].get(pool, PoolDemand()) for step in sorted(self._past, reverse=True))
        return next((found for found in steps if found.pods), None)

    def series(self, pool: str, step: int) -> DemandSeries:
        """All that is known from before this step."""
        steps = [each for each in self._past if pool in self._past[each] and step - KEPT_STEPS <= each < step]
        if not steps:
            return DemandSeries((), 0.0)
        pods: list[int] = []
        for each in range(min(steps), step):
            known = self._past.get(each, {}).get(pool)
            day_before = pods[-STEPS_A_DAY] if len(pods) >= STEPS_A_DAY else pods[-1] if pods else 0
            pods.append(known.pods if known is not None else day_before)
        week = 7 * STEPS_A_DAY
        return DemandSeries(tuple(pods), sum(each >= step - week for each in steps) / min(week, len(pods)))

    @property
    def newest(self) -> int:
        """The last quarter that is known here."""
        return max(self._past, default=-1)

    def catch_up(self, step: int, late: int = LATE_STEPS) -> None:
        """Read what was noted by others, where the last quarter that is known here is too long ago."""
        if self._past and step - self.newest <= late:
            return
        for entry, noted in self._read(step - KEPT_STEPS):
            begun = entry.at if noted.demandSince is None else noted.demandSince
            found = {name: PoolDemand(*one) for name, one in (noted.demand or {}).items()}
            _raise(self._past.setdefault(begun // STEP_SECONDS, {}), found)
        self._past = {each: pools for each, pools in self._past.items() if each >= step - KEPT_STEPS}

    def _read(self, oldest: int) -> list[tuple[LogEntry, CostNoted]]:
        found: list[tuple[LogEntry, CostNoted]] = []
        before = ""
        while True:
            page = self._store.read_log([LogKind.COST], SUBJECT, PAGE, before)
            found += [(one, noted) for one in page if (noted := fact_in(one, CostNoted)) is not None]
            if len(page) < PAGE or page[-1].at // STEP_SECONDS < oldest:
                return found
            before = page[-1].id


def _raise(highest: dict[str, PoolDemand], seen: Pools) -> None:
    for name, demand in seen.items():
        if name not in highest or demand.pods > highest[name].pods:
            highest[name] = demand
