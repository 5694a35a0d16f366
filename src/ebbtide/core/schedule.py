"""Cron lines in IANA time zones: when one fires next, when it fired last, whether a window is open.

The time is an argument, so the answers are pure; the one thing read from outside is the zone database
that comes with Python or the `tzdata` library, which is constant and which `zoneinfo` keeps once read.

Days on which clocks change follow Debian's cron, for lines that name minute and hour: a time that the
change skips fires at the first minute after it, a time that comes twice fires at the first of the two.
Lines with `*` in minute or hour follow the time that really passes. A duration is real time always.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from ebbtide.model.pool import CronWindow

NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = ("minute", "hour", "day of month", "month", "day of week")


def next_fire(cron: str, zone: str, after: int) -> int | None:
    """The first time later than `after`; none where the line never fires (within fifty years)."""
    fires = _simulate(cron, zone, after)
    for fire in fires:
        # In the hour that comes twice the library may answer with the first of the two, which is past.
        if (stamp := int(fire.timestamp())) > after:
            return stamp
    return None


def last_fire(cron: str, zone: str, at: int) -> int | None:
    """The latest time that is not later than `at`; none where there was none (within fifty years)."""
    back = next(_simulate(cron, zone, at + 1, reverse=True), None)
    if back is None:
        return None
    # Going back, the library can miss times just before a change of clocks; going on from there finds them.
    last, following = None, next_fire(cron, zone, int(back.timestamp()) - 1)
    while following is not None and following <= at:
        last, following = following, next_fire(cron, zone, following)
    return last


def fires_between(cron: str, zone: str, after: int, until: int, limit: int = 1000) -> tuple[int, ...]:
    """The times later than `after` and not later than `until`, oldest first, at most `limit` of them."""
    fires: list[int] = []
    fire = next_fire(cron, zone, after)
    while fire is not None and fire <= until and len(fires) < limit:
        fires.append(fire)
        fire = next_fire(cron, zone, fire)
    return tuple(fires)


def is_open(window: CronWindow, at: int) -> bool:
    start = last_fire(window.cron, window.zone, at)
    return start is not None and at < start + window.duration_seconds


@lru_cache(maxsize=4096)
def check_cron(cron: str) -> str:
    """What is wrong with a cron line and in which of its fields; nothing where it is right. Kept: the same
    few lines stand in thousands of policies, which are read every round."""
    line = NAMED.get(cron.strip().lower(), cron)
    fields = line.split()
    if cron.strip().startswith("@") and line == cron:
        return f"{cron!r} is not a schedule name; known names are {', '.join(NAMED)}"
    if len(fields) != len(FIELDS):
        return f"{cron!r} has {len(fields)} fields; a cron line has five: {', '.join(FIELDS)}"
    for number, (name, field) in enumerate(zip(FIELDS, fields, strict=True)):
        alone = ["*"] * len(FIELDS)
        alone[number] = field
        try:
            CronSim(" ".join(alone), datetime(2024, 1, 1, tzinfo=UTC))
        except CronSimError:
            return f"the {name} of {cron!r} is {field!r}, which no {name} can be"
    try:
        first = next(CronSim(line, datetime(2024, 1, 1, tzinfo=UTC)), None)
    except CronSimError:
        first = None
    return "" if first else f"{cron!r} never comes: no such day of month in that month"


def check_zone(zone: str) -> str:
    """What is wrong with the name of a time zone; nothing where it is one."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"{zone!r} is not a time zone; write one like UTC, Europe/Berlin or America/New_York"
    return ""


def _simulate(cron: str, zone: str, start: int, *, reverse: bool = False) -> CronSim:
    local = datetime.fromtimestamp(start, UTC).astimezone(ZoneInfo(zone))
    return CronSim(NAMED.get(cron.strip().lower(), cron), local, reverse=reverse)
