"""Cost by day, by pool and by namespace, what was saved and by what, and a month at this rate. Pure;
computed from cost notes, closed operations and the ledger, never from sentences.

What the cluster would have cost without Ebbtide is not known, so a rule stands in: the nodes of the
busiest moment of the last 24 hours, all on demand. The difference to the cost is split without overlap:

    spot            the same nodes on demand, minus what they cost
    sleep           what the ledger says was really not paid while workloads were at zero
    consolidation   the rest of what removed nodes saved, by the share of nodes that it emptied
    scale-down      by the share of all other nodes that were removed in the day before

A pod costs the larger of its CPU and memory share of its node. If the shares on a node add up to more than
the node, they are scaled down; if they add up to less, the rest is idle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate

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
    """By pool and by namespace, the most expensive first. A namespace of which all pods are pending costs
    nothing yet, and is listed."""
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
    for pod in view.waiting_pods:
        namespaces.setdefault(pod.namespace, Share(pod.namespace))
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
class Gone:
    """A node that was removed, and whether consolidation led to it."""

    at: int
    consolidated: bool


@dataclass(frozen=True, slots=True)
class _Piece:
    """A time within one day at one cost."""

    since: int
    until: int
    paid: Decimal
    listed: Decimal
    busiest: Decimal

    @property
    def date(self) -> str:
        return date_of(self.since)

    @property
    def hours(self) -> Decimal:
        return Decimal(self.until - self.since) / HOUR_SECONDS


def spending_days(
    points: Sequence[CostPoint],
    currency: str,
    until: int,
    removed: Sequence[Gone],
    slept: Mapping[str, Decimal],
    since: int = 0,
) -> list[SpendingDay]:
    """Days in UTC from the first point, or from the midnight `since`, oldest first. `removed` is in the order
    of time, `slept` by day. Points and removals of the day before `since` belong to it: what is told of a day
    does not change when later days are told."""
    days: dict[str, SpendingDay] = {}
    gone: dict[str, Decimal] = {}
    by_consolidation: dict[str, Decimal] = {}
    removals = _Removals(removed)
    for piece in _pieces(points, currency, until):
        if piece.since < since:
            continue
        date, saved = piece.date, (piece.busiest - piece.listed) * piece.hours
        day = days.get(date, SpendingDay(date))
        days[date] = replace(
            day,
            known_seconds=day.known_seconds + piece.until - piece.since,
            paid=day.paid + piece.paid * piece.hours,
            spot=day.spot + (piece.listed - piece.paid) * piece.hours,
        )
        gone[date] = gone.get(date, NOTHING) + saved
        share = removals.consolidated_share(piece)
        by_consolidation[date] = by_consolidation.get(date, NOTHING) + saved * share
    return [_shared(day, gone[day.date], by_consolidation[day.date], slept) for day in days.values()]


def _shared(
    day: SpendingDay, gone: Decimal, by_consolidation: Decimal, slept: Mapping[str, Decimal]
) -> SpendingDay:
    """What removed nodes saved, shared among what led to it. Sleep counts only as far as nodes were gone."""
    sleep = min(max(slept.get(day.date, NOTHING), NOTHING), gone)
    rest = gone - sleep
    consolidation = rest * by_consolidation / gone if gone else NOTHING
    return replace(day, sleep=sleep, consolidation=consolidation, scale_down=rest - consolidation)


class _Removals:
    """How many nodes were removed, and how many of them for consolidation, in the day before any moment."""

    def __init__(self, removed: Sequence[Gone]) -> None:
        self._at = [one.at for one in removed]
        self._consolidated = [0, *accumulate(int(one.consolidated) for one in removed)]

    def consolidated_share(self, piece: _Piece) -> Decimal:
        """On average over the piece. What is removed after a moment changes nothing about it."""
        share, since = NOTHING, piece.since
        for end in (*self._changes(piece), piece.until):
            share += self._share_at(since) * (end - since)
            since = end
        return share / (piece.until - piece.since)

    def _changes(self, piece: _Piece) -> list[int]:
        """When a removal comes to the day before, or leaves it."""
        came = self._between(piece.since, piece.until)
        left = self._between(piece.since - DAY_SECONDS, piece.until - DAY_SECONDS)
        return sorted({*came, *(at + DAY_SECONDS for at in left)})

    def _between(self, since: int, until: int) -> list[int]:
        return self._at[bisect_right(self._at, since) : bisect_left(self._at, until)]

    def _share_at(self, moment: int) -> Decimal:
        first, last = bisect_right(self._at, moment - DAY_SECONDS), bisect_right(self._at, moment)
        consolidated = self._consolidated[last] - self._consolidated[first]
        return Decimal(consolidated) / (last - first) if last > first else NOTHING


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
            yield _Piece(since, stop, paid, listed, window[0][1])
            since = stop


def date_of(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def removals_of(closed: Sequence[tuple[int, OperationClosed]]) -> list[Gone]:
    """By operations with the time when each ended, oldest first. A node that consolidation emptied is removed
    later, within a day, by a scale-down; it counts once, for consolidation."""
    found: list[Gone] = []
    emptied: dict[str, int] = {}
    for at, fact in closed:
        if fact.operation is OperationKind.CONSOLIDATION:
            emptied |= dict.fromkeys(fact.emptied, at)
            found += [Gone(at, True) for _ in fact.removed]
        elif fact.operation is OperationKind.SCALE_DOWN:
            since = (emptied.pop(name, at - DAY_SECONDS) for name in fact.removed)
            found += [Gone(at, at - before < DAY_SECONDS) for before in since]
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
