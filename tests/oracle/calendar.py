"""What a schedule means: a cron line in an IANA time zone, counted from when it was written. "Defaults", row
37.

The documents say "cron". What cron does on a day on which clocks change is in cron(8) of Debian: a job at a
fixed time that the change skips runs right after it, one whose time comes twice runs once, the first time;
jobs with a wildcard for minute or hour follow the clock on the wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from tests.oracle.answers import Meaning, rule

MINUTE = 60
NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class Line:
    """One cron line, as sets of numbers."""

    def __init__(self, cron: str) -> None:
        minute, hour, day, month, weekday = NAMES.get(cron, cron).split()
        self.minutes = _numbers(minute, 0, 59)
        self.hours = _numbers(hour, 0, 23)
        self.days = _numbers(day, 1, 31)
        self.months = _numbers(month, 1, 12, MONTHS, 1)
        self.weekdays = {number % 7 for number in _numbers(weekday, 0, 7, DAYS, 0)}
        self.any_day, self.any_weekday = day.startswith("*"), weekday.startswith("*")
        self.fixed = not minute.startswith("*") and not hour.startswith("*")

    def names(self, local: datetime) -> bool:
        """Whether this time on the wall is one of the line's; where both days are restricted, either will
        do."""
        day, weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        both = day and weekday if self.any_day or self.any_weekday else day or weekday
        return (
            local.minute in self.minutes and local.hour in self.hours and local.month in self.months and both
        )


def _numbers(field: str, low: int, high: int, names: Sequence[str] = (), first: int = 0) -> set[int]:
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        start = low if begin == "*" else _number(begin, names, first)
        stop = _number(end, names, first) if end else high if begin == "*" or step else start
        found.update(range(start, stop + 1, int(step or 1)))
    return found


def _number(text: str, names: Sequence[str], first: int) -> int:
    return names.index(text) + first if text in names else int(text)


Wall = tuple[int, datetime, bool, tuple[datetime, ...]]
"""A minute, what the clock on the wall shows, whether it shows that for the second time, and what it
skipped."""


@lru_cache(maxsize=20_000)
def _walls(zone: str, hour: int) -> tuple[Wall, ...]:
    """The sixty minutes of an hour since the epoch."""
    here = ZoneInfo(zone)
    found: list[Wall] = []
    for at in range(hour * 3600, hour * 3600 + 3600, MINUTE):
        local = datetime.fromtimestamp(at, UTC).astimezone(here)
        before = datetime.fromtimestamp(at - MINUTE, UTC).astimezone(here).replace(tzinfo=None, fold=0)
        wall = local.replace(tzinfo=None, fold=0)
        missing = range(1, int((wall - before).total_seconds()) // MINUTE)
        skipped = tuple(before + timedelta(minutes=number) for number in missing)
        found.append((at, wall, bool(local.fold), skipped))
    return tuple(found)


def fires(cron: str, zone: str, since: int, until: int) -> list[int]:
    """All moments from `since` to `until`, both included, at which the line fires."""
    line = Line(cron)
    found = []
    for hour in range(since // 3600, until // 3600 + 1):
        for at, wall, again, skipped in _walls(zone, hour):
            if line.fixed:
                fired = (line.names(wall) and not again) or any(map(line.names, skipped))
            else:
                fired = line.names(wall)
            if fired and since <= at <= until:
                found.append(at)
    return found


@rule("row 37, defaults: cron schedules with an IANA time zone", "due", "nothing")
def due(
    schedules: Sequence[tuple[str, str, int]], answered_until: int, now: int
) -> Meaning[tuple[int, int] | None]:
    """ "a schedule counts from when it was written". The latest time since the last answer that any of them
    came round; each is a line, its zone and when it was written. The value is that time and which of them it
    was."""
    latest: tuple[int, int] | None = None
    for number, (cron, zone, written) in enumerate(schedules):
        since = max(answered_until, written) + 1
        for at in fires(cron, zone, since, now):
            if latest is None or at >= latest[0]:
                latest = (at, number)
    return Meaning("due" if latest else "nothing", latest)


@rule("defaults: cron schedules with an IANA time zone", "plain day", "hour skipped", "hour repeated")
def day_of(zone: str, at: int) -> Meaning[int]:
    """How long the local day of this moment is."""
    here = ZoneInfo(zone)
    day = datetime.fromtimestamp(at, UTC).astimezone(here).date()
    next_day = day + timedelta(days=1)
    begins = datetime(day.year, day.month, day.day, tzinfo=here).timestamp()
    ends = datetime(next_day.year, next_day.month, next_day.day, tzinfo=here).timestamp()
    seconds = int(ends - begins)
    usual = 86_400
    kind = "plain day" if seconds == usual else "hour skipped" if seconds < usual else "hour repeated"
    return Meaning(kind, seconds)
