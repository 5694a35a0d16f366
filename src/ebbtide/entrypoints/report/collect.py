"""What happened in a period, from the log and the ledger alone: neither cluster nor cloud is asked.

report = collect(store, saved, Period("2026-01-01", "2026-01-31", ...))
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import islice

from ebbtide.core.prices import CostPoint, paid
from ebbtide.core.scale_to_zero.savings import SavingsDay
from ebbtide.engine.journal import read_decision
from ebbtide.engine.notes import point_of
from ebbtide.entrypoints.views.inputs import DEFAULT_DAYS, logged_between
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.decision import Action
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    DrainResult,
    EffectDone,
    EffectKind,
    OperationClosed,
    PartKind,
    SpotEvent,
    Transition,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.narrate import facts_in
from ebbtide.ports import Store

MOST_ENTRIES = 200_000
"""Of one kind; a log that is longer is reported by its newest part, which the report says."""
DONE = (
    LogKind.OPERATION_CLOSED,
    LogKind.TRANSITION,
    LogKind.DRAIN_RESULT,
    LogKind.EFFECT,
    LogKind.SPOT_EVENT,
)
MOST_ALARMS = 20
MOST_DECISIONS = 50
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days in UTC, and the seconds from the first of them until the end of the last, or now."""

    first: str
    last: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class ReportedActs:
    """What was done to the cluster."""

    operations: tuple[tuple[str, int, int], ...]
    """Kind, how many were completed, how many were not."""
    nodes_added: int
    nodes_removed: int
    evictions: int
    spot_notices: int
    unknown: int = 0
    """Entries that an older version logged without data: they are not counted above."""
    without_steps: int = 0
    """Operations of which the log has the end and no single step: which pods they evicted is not known."""


@dataclass(frozen=True, slots=True)
class LastLook:
    """What the newest decision that looked into repacking found."""

    found: ConsolidationReport
    begun_at: int = 0
    """When it was begun; 0 where it was left at looking."""


@dataclass(frozen=True, slots=True)
class ReportData:
    cluster: str
    period: Period
    currency: str
    points: tuple[CostPoint, ...]
    paid: Decimal | None
    """None where prices are not known, or are in more than one currency."""
    days: tuple[SavingsDay, ...]
    done: ReportedActs
    alarms: tuple[LogEntry, ...]
    """The newest ones, newest first."""
    alarms_in_all: int
    look: LastLook | None
    cut: bool
    """Whether the log was too long to be read as far back as was asked for."""

    @property
    def lines(self) -> int:
        """Of all tables together."""
        return len(self.days) + len(self.done.operations) + len(self.alarms)


def period_of(first: str, last: str, now: int) -> Period:
    """The last thirty days where nothing is asked for."""
    today = datetime.fromtimestamp(now, UTC).date()
    end = date.fromisoformat(last) if last else today
    begin = date.fromisoformat(first) if first else end - timedelta(days=DEFAULT_DAYS - 1)
    return Period(begin.isoformat(), end.isoformat(), _midnight(begin), min(_midnight(end + DAY), now))


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def collect(store: Store, cluster: str, days: Sequence[SavingsDay], period: Period) -> ReportData:
    points, cut_costs = _costs(store, period)
    currencies = {currency for point in points for currency in point.per_hour}
    currency = next(iter(currencies)) if len(currencies) == 1 else ""
    entries = list(entries_in(store, DONE, period))
    alarms = list(entries_in(store, (LogKind.ALARM,), period))
    return ReportData(
        cluster=cluster,
        period=period,
        currency=currency,
        points=tuple(points),
        paid=paid(points, currency, period.since, period.until) if currency else None,
        days=tuple(day for day in days if period.first <= day.date <= period.last),
        done=_done(entries),
        alarms=tuple(alarms[:MOST_ALARMS]),
        alarms_in_all=len(alarms),
        look=_last_look(store, period),
        cut=cut_costs or len(entries) >= MOST_ENTRIES,
    )


def entries_in(
    store: Store, kinds: Collection[LogKind], period: Period, brief: bool = True
) -> Iterator[LogEntry]:
    return islice(logged_between(store, kinds, period.since, period.until, brief), MOST_ENTRIES)


def _costs(store: Store, period: Period) -> tuple[list[CostPoint], bool]:
    """In the order of time. What held when the period began was noted before it, and counts from then on."""
    entries = list(entries_in(store, (LogKind.COST,), period, brief=False))
    cut = len(entries) >= MOST_ENTRIES
    earlier = store.read_log([LogKind.COST], limit=1, before=entries[-1].id) if entries and not cut else ()
    held = [CostPoint(period.since, point.per_hour, point.unpriced) for point in map(point_of, earlier)]
    return [*held, *(point_of(entry) for entry in reversed(entries))], cut


def _done(entries: Sequence[LogEntry]) -> ReportedActs:
    ended = facts_in(entries, OperationClosed)
    completed = Counter(fact.operation for fact in ended if fact.succeeded)
    failed = Counter(fact.operation for fact in ended if not fact.succeeded)
    changes = [*facts_in(entries, Transition), *facts_in(entries, DrainResult)]
    effects = facts_in(entries, EffectDone)
    notices = facts_in(entries, SpotEvent)
    followed = {one.operation_id for one in effects}
    short = [one for one in ended if one.operation_id not in followed]
    evicted = sum(one.effect is EffectKind.EVICT and one.outcome is OutcomeKind.DONE for one in effects)
    noticed = {one.instance_id for one in notices}
    return ReportedActs(
        operations=tuple((kind, completed[kind], failed[kind]) for kind in sorted(completed | failed)),
        nodes_added=len(_added(ended, changes)),
        nodes_removed=len(_removed(ended, changes)),
        evictions=evicted + sum(one.moved for one in short),
        spot_notices=len(notices)
        + sum(bool(one.instance_id) and one.instance_id not in noticed for one in ended),
        unknown=len(entries) - len(ended) - len(changes) - len(effects) - len(notices),
        without_steps=sum(bool(one.removed) for one in short),
    )


Node = tuple[str, str]
"""A node and the operation that launched or removed it: names come again."""


def _added(ended: Sequence[OperationClosed], changes: Sequence[Transition]) -> set[Node]:
    """By the end of an operation and by its steps: the log may keep only one of them."""
    told = {(one.operation_id, name) for one in ended for name in one.ready}
    steps = (one for one in changes if one.part is PartKind.LAUNCH and one.after == SlotState.READY)
    return told | {(one.operation_id, one.name) for one in steps}


def _removed(ended: Sequence[OperationClosed], changes: Sequence[Transition]) -> set[Node]:
    told = {(one.operation_id, name) for one in ended for name in (*one.removed, *one.gone_already)}
    steps = (one for one in changes if one.part is PartKind.REMOVAL and one.after == RemovalState.GONE)
    return told | {(one.operation_id, one.name) for one in steps}


def _last_look(store: Store, period: Period) -> LastLook | None:
    """Decisions are read one by one, since each has all that was seen with it."""
    for entry in islice(entries_in(store, (LogKind.DECISION,), period), MOST_DECISIONS):
        whole = store.find_entry(entry.id)
        decision = read_decision(whole) if whole is not None else None
        if decision is not None and decision.consolidation is not None:
            return LastLook(decision.consolidation, entry.at if decision.action is Action.CONSOLIDATE else 0)
    return None
