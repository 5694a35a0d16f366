"""What a day of the ledger is worth. Rows 20, 21 and 43."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

from tests.oracle.answers import Meaning, rule

HOUR = 3600


@dataclass(frozen=True, slots=True)
class Time:
    """One stretch of time: idle and still up, or at zero, at one price per hour."""

    since: int
    until: int
    at_zero: bool
    per_hour: Decimal | None


@dataclass(frozen=True, slots=True)
class Day:
    idle_seconds: int = 0
    zero_seconds: int = 0
    saved: Fraction = Fraction(0)
    """Exact: nothing is rounded before it is shown."""


@rule("rows 20, 21, 43", "saved", "idle", "unpriced")
def day_worth(times: Sequence[Time], zone: str, date: str) -> Meaning[Day]:
    """ "money is saved by time at zero"; "seconds are accumulated, money derived, in Decimal"; idle hours
    include the time at zero."""
    here = ZoneInfo(zone)
    idle = zero = 0
    money = Fraction(0)
    for time in times:
        seconds = _seconds_on(time, here, date)
        idle += seconds
        if time.at_zero:
            zero += seconds
            money += seconds * Fraction(time.per_hour or 0) / HOUR
    priced = any(time.at_zero and time.per_hour is not None for time in times)
    return Meaning("saved" if priced else "unpriced" if zero else "idle", Day(idle, zero, money))


def _seconds_on(time: Time, here: ZoneInfo, date: str) -> int:
    """Counted in steps that no change of clocks or of day cuts through."""
    found, at = 0, time.since
    while at < time.until:
        step = min(900 - at % 900, time.until - at)
        if datetime.fromtimestamp(at, UTC).astimezone(here).date().isoformat() == date:
            found += step
        at += step
    return found


def exact(money: Decimal) -> Fraction:
    return Fraction(money)
