"""Days of the ledger: added up exactly, and the columns that are derived from them.

The ledger outlives its policy. The specification lets its rows go with the policy (`ON DELETE CASCADE`), but
money that was saved stays saved: sums over a month must not change when a policy is deleted in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation

from ebbtide.adapters.stores.codec.policies import is_policy_id
from ebbtide.model.ledger import SECONDS_PER_HOUR, LedgerDay

FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"
LARGEST_BIGINT = 2**63 - 1
"""The largest number a column can hold. The exact numbers next to it have no limit."""
Key = tuple[str, str, str]

_EXACT = Context(prec=500, traps=[Inexact, InvalidOperation])
_CENTS = Context(prec=500, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
_MONEY = ("idle_price_seconds", "zero_price_seconds", "wake_price_seconds", "realised_price_seconds")


def day_key(day: LedgerDay) -> Key:
    return day.date, day.policy_id, day.currency


def checked_days(policy_id: str, days: Iterable[LedgerDay]) -> list[LedgerDay]:
    """In order, one for each row; `ValueError` for what is not a day of this policy."""
    rows: dict[Key, LedgerDay] = {}
    for day in days:
        if day.policy_id != policy_id:
            raise ValueError(f"a day of {day.policy_id} cannot be written with {policy_id}")
        if not is_policy_id(policy_id):
            raise ValueError(f"{policy_id!r} is not an id of a policy")
        if not all(getattr(day, name).is_finite() for name in _MONEY):
            raise ValueError(f"{day} has a price that is not a number")
        _check_date(day.date)
        key = day_key(day)
        rows[key] = added(rows[key], day) if key in rows else day
    return [rows[key] for key in sorted(rows)]


def day_range(first: str, last: str) -> tuple[str, str]:
    for end in filter(None, (first, last)):
        _check_date(end)
    return first or FIRST_DAY, last or LAST_DAY


def added(row: LedgerDay, day: LedgerDay) -> LedgerDay:
    """Both together. Where their sources differ, the later one is named."""
    return replace(
        row,
        source=day.source or row.source,
        idle_seconds=row.idle_seconds + day.idle_seconds,
        scaled_to_zero_seconds=row.scaled_to_zero_seconds + day.scaled_to_zero_seconds,
        idle_price_seconds=_EXACT.add(row.idle_price_seconds, day.idle_price_seconds),
        zero_price_seconds=_EXACT.add(row.zero_price_seconds, day.zero_price_seconds),
        wakes=row.wakes + day.wakes,
        wake_price_seconds=_EXACT.add(row.wake_price_seconds, day.wake_price_seconds),
        realised_price_seconds=_EXACT.add(row.realised_price_seconds, day.realised_price_seconds),
        unpriced_seconds=row.unpriced_seconds + day.unpriced_seconds,
    )


def savings_cents(day: LedgerDay) -> int:
    """`estimated_savings_cents`: money of the time at zero, rounded only here."""
    return _in_cents(day.zero_price_seconds, SECONDS_PER_HOUR)


def hourly_cost_cents(day: LedgerDay) -> int | None:
    """The hourly price that the day was computed with; the average if it changed."""
    priced = day.scaled_to_zero_seconds - day.unpriced_seconds
    if day.zero_price_seconds and priced > 0:
        return _in_cents(day.zero_price_seconds, priced)
    if day.idle_price_seconds and day.idle_seconds > 0:
        return _in_cents(day.idle_price_seconds, day.idle_seconds)
    return None


def by_day(days: Iterable[LedgerDay]) -> Sequence[LedgerDay]:
    return sorted(days, key=day_key)


def _in_cents(price_seconds: Decimal, seconds: int) -> int:
    hundred = _CENTS.multiply(price_seconds, Decimal(100))
    cents = int(_CENTS.divide(hundred, Decimal(seconds)).quantize(Decimal(1), context=_CENTS))
    return min(max(cents, -LARGEST_BIGINT), LARGEST_BIGINT)


def _check_date(text: str) -> None:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError(f"{text!r} is not a date such as 2026-01-30")
