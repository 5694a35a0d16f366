"""How often EventBridge calls the function, by its own expression: `rate(1 minute)` or `cron(0/5 * * * ? *)`.

Time between two ticks that is longer than `max_tick_gap_sec` is no idle time, so a schedule with longer gaps
would never scale down (row 48). It is refused at the start of a run.
"""

from __future__ import annotations

import re
from itertools import pairwise

from ebbtide.core.words import a_while
from ebbtide.errors import ConfigError
from ebbtide.model.settings import Settings

VARIABLE = "TICK_SCHEDULE"
RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) (\S+)\)")
SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}
HOUR_MINUTES = 60
ANY = ("*", "?")


def refuse_slow_schedule(expression: str, settings: Settings) -> None:
    """Where the expression is not given, nothing is known and nothing refused."""
    if not expression.strip():
        return
    gap, longest = longest_gap_seconds(expression.strip()), settings.max_tick_gap_seconds
    if gap > longest:
        raise ConfigError(
            f"the schedule {expression} leaves {a_while(gap)} between two ticks, more than max_tick_gap_sec "
            f"({longest}): no idle time would ever be counted, so no node would ever be removed. Nothing was "
            f"touched. Schedule it at least every {a_while(longest)}, or raise max_tick_gap_sec."
        )


def longest_gap_seconds(expression: str) -> int:
    """The longest time between two calls, at least: a day where not every hour of every day has one."""
    if found := RATE.fullmatch(expression):
        return int(found[1]) * SECONDS[found[2]]
    found = CRON.fullmatch(expression)
    if found is None:
        raise ConfigError(
            f"{VARIABLE} is {expression!r}, which is not a schedule of EventBridge; nothing was touched. "
            "Give it as rate(1 minute) or cron(0/5 * * * ? *)."
        )
    minute, *others = found.groups()
    if any(field not in ANY for field in others):
        return SECONDS["hour"]
    minutes = sorted(_minutes(minute, expression))
    gaps = [later - earlier for earlier, later in pairwise(minutes)]
    return max([*gaps, minutes[0] + HOUR_MINUTES - minutes[-1]]) * SECONDS["minute"]


def _minutes(field: str, expression: str) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        try:
            start = 0 if first == "*" else int(first)
            end = int(last) if last else HOUR_MINUTES - 1 if step or first == "*" else start
            found |= set(range(start, end + 1, int(step or 1)))
        except ValueError as cause:
            says = f"{part!r} in {expression} is not a minute; nothing was touched. Correct {VARIABLE}."
            raise ConfigError(says) from cause
    if not found or min(found) < 0 or max(found) >= HOUR_MINUTES:
        raise ConfigError(
            f"{expression} names no minute from 0 to 59; nothing was touched. Correct {VARIABLE}."
        )
    return found
