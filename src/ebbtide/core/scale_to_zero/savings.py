"""The ledger: stretches of time into seconds per day, and seconds into money.

A stretch is cut at each midnight of its zone, by the time that really passes, so a day of 23 or 25 hours
has as many. What is kept of a day is seconds and price times seconds, both exact; money is derived when it
is shown, once for each day, and totals are sums of the days. So totals equal their parts, and a ledger
folded again from the same stretches equals the one that was added up over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from zoneinfo import ZoneInfo

from ebbtide.model.idle import SECONDS_PER_HOUR, IdleState, LedgerDay, Phase, Stretch
from ebbtide.model.policy import Policy

QUANTUM = Decimal("0.0001")
"""Money of a day is shown to a hundredth of a cent: a small workload saves little in a day, not nothing."""
DAY_SECONDS = 86_400
"""The longest stretch: an open one then continues as the next, so the ledger is never far behind."""
NOTHING = Decimal(0)
EXACT = Context(prec=500)
"""Sums and products of the ledger are never rounded."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Money of one currency. `potential` is the price of what was freed at zero, `realised` the part of it
    that was really not paid because nodes were gone, `net` what is left after the wakes."""

    currency: str
    source: str
    potential: Decimal = NOTHING
    realised: Decimal = NOTHING
    wake_cost: Decimal = NOTHING
    missed: Decimal = NOTHING
    """The price of idle time in which the target was still up."""

    @property
    def net(self) -> Decimal:
        return self.realised - self.wake_cost


@dataclass(frozen=True, slots=True)
class SavingsDay:
    date: str
    idle_seconds: int = 0
    """Idle, the time at zero included."""
    scaled_to_zero_seconds: int = 0
    wakes: int = 0
    unpriced_seconds: int = 0
    money: tuple[Saved, ...] = ()
    """One for each currency, by its name."""


@dataclass(frozen=True, slots=True)
class SavingsReport:
    policy_id: str
    """Empty for the sum over all policies."""
    first: str
    last: str
    days: tuple[SavingsDay, ...] = ()
    """Those with amounts, oldest first."""
    total: SavingsDay = SavingsDay("")


def open_stretch(policy: Policy, state: IdleState, until: int, wakes: int = 0) -> Stretch | None:
    """The stretch that is in progress, as if it ended then; none where there is nothing to account for."""
    if state.phase is Phase.ACTIVE or (until <= state.stretch_since and not wakes):
        return None
    until = max(until, state.stretch_since)
    phase = Phase.IDLE if state.phase is Phase.FALLING else state.phase
    length = until - state.stretch_since if phase is Phase.WAKING else 0
    return Stretch(policy.id, policy.zone, phase, state.stretch_since, until, state.rate, wakes, length)


def cut(stretch: Stretch) -> Iterator[tuple[str, int]]:
    """The days it touches, each with its seconds."""
    since = stretch.since
    while since < stretch.until:
        day, midnight = _day_of(stretch.zone, since)
        until = min(midnight, stretch.until)
        yield day, until - since
        since = until


def local_date(zone: str, at: int) -> str:
    return _day_of(zone, at)[0]


def _day_of(zone: str, at: int) -> tuple[str, int]:
    """The day of this moment and the next midnight."""
    here = ZoneInfo(zone)
    today = datetime.fromtimestamp(at, UTC).astimezone(here).date()
    following = today + timedelta(days=1)
    midnight = datetime(following.year, following.month, following.day, tzinfo=here)
    if midnight.timestamp() <= at:
        # Clocks went back over midnight, so it comes again.
        midnight = midnight.replace(fold=1)
    return today.isoformat(), int(midnight.timestamp())


def fold(stretches: Iterable[Stretch]) -> tuple[LedgerDay, ...]:
    """The rows that these stretches make, by policy, date and currency."""
    rows: dict[tuple[str, str, str], LedgerDay] = {}
    for stretch in stretches:
        for row in _rows_of(stretch):
            key = (row.policy_id, row.date, row.currency)
            rows[key] = add(rows[key], row) if key in rows else row
    return tuple(rows[key] for key in sorted(rows))


def add(row: LedgerDay, more: LedgerDay) -> LedgerDay:
    """Both are of the same policy, date and currency. The newest source counts."""
    return replace(
        row,
        source=more.source or row.source,
        idle_seconds=row.idle_seconds + more.idle_seconds,
        scaled_to_zero_seconds=row.scaled_to_zero_seconds + more.scaled_to_zero_seconds,
        idle_price_seconds=EXACT.add(row.idle_price_seconds, more.idle_price_seconds),
        zero_price_seconds=EXACT.add(row.zero_price_seconds, more.zero_price_seconds),
        wakes=row.wakes + more.wakes,
        wake_price_seconds=EXACT.add(row.wake_price_seconds, more.wake_price_seconds),
        realised_price_seconds=EXACT.add(row.realised_price_seconds, more.realised_price_seconds),
        unpriced_seconds=row.unpriced_seconds + more.unpriced_seconds,
    )


def _rows_of(stretch: Stretch) -> Iterator[LedgerDay]:
    rate = stretch.rate
    pieces = list(cut(stretch)) or [(local_date(stretch.zone, stretch.since), 0)]
    for number, (day, seconds) in enumerate(pieces):
        last = number == len(pieces) - 1
        row = LedgerDay(
            stretch.policy_id,
            day,
            currency=rate.currency if rate else "",
            source=rate.source if rate else "",
            wakes=stretch.wakes if last else 0,
        )
        per_hour = rate.per_hour if rate else NOTHING
        match stretch.phase:
            case Phase.ZERO:
                realised = min(rate.realised_per_hour, rate.per_hour) if rate else NOTHING
                yield replace(
                    row,
                    scaled_to_zero_seconds=seconds,
                    zero_price_seconds=_times(per_hour, seconds),
                    realised_price_seconds=_times(realised, seconds),
                    unpriced_seconds=0 if rate else seconds,
                )
            case Phase.WAKING:
                yield replace(row, wake_price_seconds=_times(per_hour, seconds))
            case _:
                yield replace(row, idle_seconds=seconds, idle_price_seconds=_times(per_hour, seconds))


def _times(per_hour: Decimal, seconds: int) -> Decimal:
    return EXACT.multiply(per_hour, Decimal(seconds))


def report(policy_id: str, first: str, last: str, rows: Sequence[LedgerDay]) -> SavingsReport:
    """Rows of several policies are summed by day; money is rounded once for each row, so sums over
    policies equal sums over days."""
    days: dict[str, SavingsDay] = {}
    for row in rows:
        if (not first or first <= row.date) and (not last or row.date <= last):
            shown = _shown(row)
            days[row.date] = _plus(days[row.date], shown) if row.date in days else shown
    found = tuple(days[day] for day in sorted(days))
    total = SavingsDay("")
    for day in found:
        total = _plus(total, day)
    return SavingsReport(policy_id, first, last, found, total)


def _shown(row: LedgerDay) -> SavingsDay:
    money = Saved(
        row.currency,
        row.source,
        potential=_money(row.zero_price_seconds),
        realised=_money(row.realised_price_seconds),
        wake_cost=_money(row.wake_price_seconds),
        missed=_money(row.idle_price_seconds),
    )
    return SavingsDay(
        row.date,
        row.idle_seconds + row.scaled_to_zero_seconds,
        row.scaled_to_zero_seconds,
        row.wakes,
        row.unpriced_seconds,
        (money,) if row.currency else (),
    )


def _money(price_seconds: Decimal) -> Decimal:
    return (price_seconds / SECONDS_PER_HOUR).quantize(QUANTUM)


def _plus(one: SavingsDay, other: SavingsDay) -> SavingsDay:
    money = {saved.currency: saved for saved in one.money}
    for saved in other.money:
        before = money.get(saved.currency)
        money[saved.currency] = _sum(before, saved) if before else saved
    return SavingsDay(
        one.date,
        one.idle_seconds + other.idle_seconds,
        one.scaled_to_zero_seconds + other.scaled_to_zero_seconds,
        one.wakes + other.wakes,
        one.unpriced_seconds + other.unpriced_seconds,
        tuple(money[currency] for currency in sorted(money)),
    )


def _sum(one: Saved, other: Saved) -> Saved:
    return Saved(
        one.currency,
        one.source if one.source == other.source else "several sources",
        one.potential + other.potential,
        one.realised + other.realised,
        one.wake_cost + other.wake_cost,
        one.missed + other.missed,
    )
