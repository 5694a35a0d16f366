"""What was paid by day, for whom, what was saved and by what, and what a month comes to. Pure; from cost
notes, closed operations and the ledger, never from sentences.

What would have been paid without Ebbtide is not known, so a rule stands in for it: the nodes of the busiest
moment of the last 24 hours, all on demand. Between that and what was paid lie, without overlap,

    spot            the same nodes on demand, less what was paid for them
    sleep           what the ledger says was really not paid while workloads were at zero
    consolidation   the rest of what removed nodes saved, by the share of nodes that it emptied,
    scale-down      and by the share of all others that were removed

Who the nodes are paid for: their cost by pool and by namespace, and what of it nobody asks for. Pure. A pod
costs the larger of its CPU and memory share of its node. Where the shares of a node's pods add up to more
than the node, they are scaled down to it; where they add up to less, the rest is idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from ebbtide.core.prices import CostPoint, price_of
from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.pod import Pod
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Node

NOTHING = Decimal(0)
ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    per_hour: Decimal = NOTHING
    idle_per_hour: Decimal = NOTHING
    """Of that, what no pod asks for."""
    count: int = 0
    """Nodes of a pool, pods of a namespace."""
    unpriced: int = 0
    """Of those, how many have no known price in this money."""


def shares_of(view: ClusterView, settings: Settings, currency: str) -> tuple[list[Share], list[Share]]:
    """By pool and by namespace, the most expensive first."""
    pools: dict[str, Share] = {}
    namespaces: dict[str, Share] = {}
    for node in view.workers:
        pods = view.pods_on.get(node.name, ())
        price = price_of(node, settings)
        known = price.per_hour if price is not None and price.currency == currency else None
        asked = [(pod, _asked(pod, node)) for pod in pods]
        total = sum((share for _, share in asked), NOTHING)
        scale = ONE / total if total > ONE else ONE
        _add(pools, node.pool, known, ONE, max(ONE - total, NOTHING))
        for pod, share in asked:
            _add(namespaces, pod.namespace, known, share * scale, NOTHING)
    return _sorted(pools.values()), _sorted(namespaces.values())


def with_sleepers(namespaces: list[Share], slept: Mapping[str, Decimal]) -> list[Share]:
    """Also those in which nothing runs now: what their sleep saved must not be missing from the list."""
    known = {one.name for one in namespaces}
    return [*namespaces, *(Share(name) for name in sorted(slept) if name not in known and slept[name])]


def _asked(pod: Pod, node: Node) -> Decimal:
    room = node.allocatable
    cpu = Decimal(pod.requests.cpu_milli) / max(room.cpu_milli, 1)
    return max(cpu, Decimal(pod.requests.memory_mib) / max(room.memory_mib, 1))


def _add(found: dict[str, Share], name: str, price: Decimal | None, share: Decimal, idle: Decimal) -> None:
    known = found.get(name, Share(name))
    counted = replace(known, count=known.count + 1, unpriced=known.unpriced + (price is None))
    cost = price or NOTHING
    found[name] = replace(
        counted, per_hour=known.per_hour + cost * share, idle_per_hour=known.idle_per_hour + cost * idle
    )


def _sorted(found: Iterable[Share]) -> list[Share]:
    return sorted(found, key=lambda share: (-share.per_hour, share.name))


HOUR_SECONDS = 3600
DAY_SECONDS = 86_400
DAYS_A_MONTH = Decimal("30.4")
WEEK = 7


@dataclass(frozen=True, slots=True)
class SpendingDay:
    date: str
    known_seconds: int = 0
    """Of the day, how long the cost was known."""
    paid: Decimal = NOTHING
    spot: Decimal = NOTHING
    sleep: Decimal = NOTHING
    consolidation: Decimal = NOTHING
    scale_down: Decimal = NOTHING

    @property
    def saved(self) -> Decimal:
        return self.spot + self.sleep + self.consolidation + self.scale_down

    @property
    def whole(self) -> bool:
        return self.known_seconds == DAY_SECONDS


@dataclass(frozen=True, slots=True)
class Projection:
    """What a month costs, if it continues as it did."""

    expected: Decimal
    low: Decimal | None
    high: Decimal | None
    """From the cheapest and the most expensive week in a row, or day where fewer are known; None for one
    day."""
    days: int
    """Whole days that it rests on."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Nodes that were removed on a day, by what led to it."""

    consolidation: int = 0
    scale_down: int = 0

    @property
    def consolidated_share(self) -> Decimal:
        total = self.consolidation + self.scale_down
        return Decimal(self.consolidation) / total if total else NOTHING


@dataclass(frozen=True, slots=True)
class _Piece:
    """A time within one day at one cost."""

    date: str
    seconds: int
    paid: Decimal
    listed: Decimal
    busiest: Decimal


def spending_days(
    points: Sequence[CostPoint],
    currency: str,
    until: int,
    removed: Mapping[str, Removed],
    slept: Mapping[str, Decimal],
) -> list[SpendingDay]:
    """Days in UTC, oldest first, from the first point on. `removed` and `slept` are by day."""
    days: dict[str, SpendingDay] = {}
    gone: dict[str, Decimal] = {}
    for piece in _pieces(points, currency, until):
        day = days.get(piece.date, SpendingDay(piece.date))
        hours = Decimal(piece.seconds) / HOUR_SECONDS
        days[piece.date] = replace(
            day,
            known_seconds=day.known_seconds + piece.seconds,
            paid=day.paid + piece.paid * hours,
            spot=day.spot + (piece.listed - piece.paid) * hours,
        )
        gone[piece.date] = gone.get(piece.date, NOTHING) + (piece.busiest - piece.listed) * hours
    return [_shared(day, gone[day.date], removed, slept) for day in days.values()]


def _shared(
    day: SpendingDay, gone: Decimal, removed: Mapping[str, Removed], slept: Mapping[str, Decimal]
) -> SpendingDay:
    """What removed nodes saved, shared among what led to it. Sleep counts only as far as nodes were gone."""
    sleep = min(max(slept.get(day.date, NOTHING), NOTHING), gone)
    rest = gone - sleep
    consolidation = rest * removed.get(day.date, Removed()).consolidated_share
    return replace(day, sleep=sleep, consolidation=consolidation, scale_down=rest - consolidation)


def _pieces(points: Sequence[CostPoint], currency: str, until: int) -> Iterator[_Piece]:
    window: deque[tuple[int, Decimal]] = deque()
    for number, point in enumerate(points):
        end = points[number + 1].at if number + 1 < len(points) else until
        paid = point.per_hour.get(currency, NOTHING)
        listed = (point.on_demand or {}).get(currency, paid)
        while window and window[-1][1] <= listed:
            window.pop()
        window.append((point.at, listed))
        while window[0][0] <= point.at - DAY_SECONDS:
            window.popleft()
        since = point.at
        while since < end:
            midnight = since - since % DAY_SECONDS + DAY_SECONDS
            stop = min(midnight, end)
            yield _Piece(date_of(since), stop - since, paid, listed, window[0][1])
            since = stop


def date_of(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def removed_by_day(closed: Sequence[tuple[int, OperationClosed]]) -> dict[str, Removed]:
    """Of operations with the time when each ended, oldest first. A node that consolidation emptied is removed
    later, by a scale-down; it counts once, for consolidation."""
    found: dict[str, Removed] = {}
    emptied: set[str] = set()
    for at, fact in closed:
        day = date_of(at)
        known = found.get(day, Removed())
        if fact.operation is OperationKind.CONSOLIDATION:
            emptied.update(fact.emptied)
            count = len(fact.emptied) + len(fact.removed)
            found[day] = replace(known, consolidation=known.consolidation + count)
        elif fact.operation is OperationKind.SCALE_DOWN:
            others = [name for name in fact.removed if name not in emptied]
            emptied.difference_update(fact.removed)
            found[day] = replace(known, scale_down=known.scale_down + len(others))
    return found


def projection(days: Sequence[SpendingDay]) -> Projection | None:
    whole = [day.paid for day in days if day.whole]
    if not whole:
        return None
    expected = sum(whole, NOTHING) / len(whole) * DAYS_A_MONTH
    length = WEEK if len(whole) > WEEK else 1
    runs = [sum(whole[at : at + length], NOTHING) / length for at in range(len(whole) - length + 1)]
    if len(runs) == 1:
        return Projection(expected, None, None, len(whole))
    return Projection(expected, min(runs) * DAYS_A_MONTH, max(runs) * DAYS_A_MONTH, len(whole))
