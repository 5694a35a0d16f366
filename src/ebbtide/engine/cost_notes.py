"""An observer that notes in the log what the workers cost an hour, how many there are and how many pods are
pending, whenever that has changed. A count of pending pods that goes up and down is noted once a minute.

What was noted last is remembered by the process and found in the log by the next one, so a Lambda
that starts again each minute notes no more than a daemon does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from ebbtide.core.prices import CostPoint, cost_point
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.events import CostNoted
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Operation, Spot
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
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
