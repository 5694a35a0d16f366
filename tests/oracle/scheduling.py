"""Schedules and ledger days compared, most of them on days on which clocks change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from zoneinfo import ZoneInfo

from ebbtide.core.scale_to_zero.rules import due
from ebbtide.core.scale_to_zero.savings import fold, report
from ebbtide.core.schedule import is_open
from ebbtide.model.idle import Phase, Rate, Stretch
from ebbtide.model.policy import Schedule
from ebbtide.model.pool import CronWindow
from tests.oracle import calendar, ledger
from tests.oracle.drawing import Source
from tests.oracle.suite import Report
from tests.policy_harness import make_policy, make_state, policy_id

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Santiago",
    "Africa/Cairo",
    "Pacific/Auckland",
    "Europe/London",
)
"""Lord Howe changes by half an hour, Santiago and Cairo at midnight."""
CRONS = (
    *("30 2 * * *", "0 2 * * *", "15 1 * * *", "0 3 * * *", "45 0 * * *", "0 0 * * *", "30 23 * * *"),
    *("*/20 * * * *", "5 * * * *", "30 */2 * * *", "*/15 2 * * *", "0,30 1-3 * * *", "0 2 * * sun"),
    *(
        "0 2 * * 7",
        "10 2 1-7 * sun",
        "0 8 * * mon-fri",
        "0 20 29 3 *",
        "0 2 * mar,oct *",
        "@daily",
        "@hourly",
    ),
)
HOUR, DAY = 3600, 86_400


@cache
def changes(zone: str) -> tuple[int, ...]:
    """The moments of three years at which its clocks change."""
    here, found = ZoneInfo(zone), []
    at = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())
    offset: timedelta | None = None
    for moment in range(at, at + 3 * 366 * DAY, HOUR // 2):
        now = datetime.fromtimestamp(moment, UTC).astimezone(here).utcoffset()
        if offset is not None and now != offset:
            found.append(moment)
        offset = now
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Instant:
    zone: str
    lines: tuple[str, ...]
    at: int
    written: tuple[int, ...]
    answered: int
    """Up to when schedules were answered; 0 where none was."""


def instants(source: Source) -> list[Instant]:
    """Several around one change of clocks; one in ten on another day."""
    zone = source.pick(ZONES)
    change = source.pick(changes(zone)) + source.pick((0,) * 9 + (17 * DAY,))
    lines = source.picks(CRONS, 1, 2)
    found = []
    for minutes in source.numbers(-150, 420, 8, 8):
        at = change + minutes * 60 + source.pick((0, 0, 0, -1, 1, 30))
        ages = source.picks((0, HOUR, 3 * HOUR, 10 * HOUR), 2, 2)
        answered = source.pick((0, at - 2 * HOUR))
        written = tuple(at - age for age in ages[: len(lines)])
        found.append(Instant(zone, tuple(lines), at, written, answered))
    return found


def compare(case: list[Instant], told: Report) -> None:
    for one in case:
        told.cases["schedule instants"] += 1
        kind = calendar.day_of(one.zone, one.at).answer
        told.cases["schedule instants on DST days"] += kind != "plain day"
        told.cases[f"schedule instants in {one.zone}"] += kind != "plain day"
        _compare_due(one, told)
        window = CronWindow(one.lines[0], one.zone, 1800)
        opened = calendar.fires(one.lines[0], one.zone, one.at - 1799, one.at)
        if is_open(window, one.at) != bool(opened):
            told.differs(f"window {window} at {one.at}: opened {opened}")


def _compare_due(one: Instant, told: Report) -> None:
    schedules = tuple(
        Schedule(line, one.zone, written_at=at) for line, at in zip(one.lines, one.written, strict=True)
    )
    policy = make_policy(schedules=schedules, created_at=min(one.written), updated_at=min(one.written))
    state = make_state(scheduled_until=one.answered)
    wanted = calendar.due(
        [(line, one.zone, at) for line, at in zip(one.lines, one.written, strict=True)], one.answered, one.at
    ).value
    found = due(policy, state, one.at)
    got = None if found is None else found.at
    if got != (wanted[0] if wanted else None):
        told.differs(f"{one}: due {got}, the oracle says {wanted}")


@dataclass(frozen=True, slots=True)
class Account:
    zone: str
    times: tuple[ledger.Time, ...]


def accounts(source: Source) -> Account:
    zone = source.pick(ZONES)
    at = source.pick(changes(zone)) + source.number(-40 * HOUR, 5 * HOUR)
    times = []
    for _ in range(source.number(1, 5)):
        at += source.number(0, 7200)
        until = at + source.number(1, 20 * HOUR)
        price = source.pick((None, "0.0096", "0.1056", "0.0333333", "12.5", "0.000001"))
        times.append(ledger.Time(at, until, source.pick((False, True)), Decimal(price) if price else None))
        at = until
    return Account(zone, tuple(times))


def compare_accounts(case: Account, told: Report) -> None:
    told.cases["ledgers"] += 1
    stretches = [
        Stretch(
            policy_id(),
            case.zone,
            Phase.ZERO if time.at_zero else Phase.IDLE,
            time.since,
            time.until,
            Rate(time.per_hour, "EUR", "test") if time.per_hour is not None else None,
        )
        for time in case.times
    ]
    shown = report(policy_id(), "", "", fold(stretches))
    total = Decimal(0)
    dates = {day.date for day in shown.days}
    here = ZoneInfo(case.zone)
    for time in case.times:
        for at in (time.since, time.until - 1):
            dates.add(datetime.fromtimestamp(at, UTC).astimezone(here).date().isoformat())
    for date in sorted(dates):
        told.cases["ledger days"] += 1
        worth = ledger.day_worth(case.times, case.zone, date).value
        day = next((one for one in shown.days if one.date == date), None)
        if day is None:
            told.differs(f"{case}: {date} is missing, worth {worth}")
            continue
        saved = sum((money.potential for money in day.money), Decimal(0))
        total += saved
        if abs(worth.saved - ledger.exact(saved)) > ledger.exact(Decimal("0.005")):
            told.differs(f"{case}: {date} saved {saved}, the oracle says {float(worth.saved)}")
        if (day.idle_seconds, day.scaled_to_zero_seconds) != (worth.idle_seconds, worth.zero_seconds):
            told.differs(f"{case}: {date} has {day}, the oracle says {worth}")
    if sum((money.potential for money in shown.total.money), Decimal(0)) != total:
        told.differs(f"{case}: the total is not the sum of the days")
