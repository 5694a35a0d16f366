"""Whether a target that sleeps will be in use soon, by its own past, and whether waking it before pays.

It was in use while it was neither idle nor asleep nor waking. Use is expected at a time of day at which it
was used a week and two weeks before; with less history, on most of the last seven days. Waking it before pays
where that would have left fewer users waiting for a wake, over the last week, than a longer keep-alive window
that keeps it up for as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebbtide.core.words import count_of, time_of_day
from ebbtide.model.forecast import STEP_SECONDS, STEPS_A_DAY
from ebbtide.model.idle import NO_WHY, PolicyCause, PolicyWhy
from ebbtide.model.ledger import Stretch

LEAST_USE_SECONDS = 300
"""What is woken counts as active until it is first seen idle: less than this is no use."""
WEEK = 7 * STEPS_A_DAY
MOST_DAYS = 5
"""Of seven."""
LEAST_GAIN = 0.1
KEPT_WEEKS = 4

Used = Sequence[bool]
"""By step."""


@dataclass(frozen=True, slots=True)
class Replayed:
    awake: int
    """Steps in which it was up."""
    waited: int
    """How often somebody came who had to wait for a wake."""


def used_steps(stretches: Iterable[Stretch], now: int) -> list[bool]:
    """Whether it was in use in each step up to the one in progress, from its first stretch on, at most four
    weeks. The time between two stretches was use."""
    ordered = sorted(stretches, key=lambda one: one.since)
    end = now // STEP_SECONDS
    if not ordered:
        return []
    first = max(ordered[0].since // STEP_SECONDS + 1, end - KEPT_WEEKS * WEEK)
    used = [False] * max(end - first, 0)
    until = ordered[0].until
    for each in ordered[1:]:
        if each.since - until >= LEAST_USE_SECONDS:
            for step in range(max(until // STEP_SECONDS, first), min(-(-each.since // STEP_SECONDS), end)):
                used[step - first] = True
        until = max(until, each.until)
    return used


def is_expected(used: Used, step: int) -> bool:
    """In this step, by what was known a day before."""
    if step >= 2 * WEEK:
        return used[step - WEEK] and used[step - 2 * WEEK]
    days = [used[step - lag * STEPS_A_DAY] for lag in range(1, 8)] if step >= WEEK else []
    return sum(days) >= MOST_DAYS


def begins(used: Used, step: int) -> bool:
    """Whether use is expected in the step after this one, and not in this one."""
    return is_expected(used, step + 1) and not is_expected(used, step)


def why_wake(used: Used, hold_seconds: int, now: int) -> PolicyWhy:
    """Why it should be woken now; nothing where it should not. It goes to sleep again `hold_seconds` after
    the last use."""
    step = len(used)
    if step < 2 * WEEK or not begins(used, step):
        return NO_WHY
    hold = -(-hold_seconds // STEP_SECONDS)
    ahead = replayed(used, hold, looks_ahead=True)
    constant = _constant(used, hold, ahead.awake)
    if ahead.waited >= (1 - LEAST_GAIN) * constant.waited:
        return NO_WHY
    at = time_of_day((now // STEP_SECONDS + 1) * STEP_SECONDS)
    says = (
        f"ahead of {at}, in use then a week and two weeks ago; over the last week this leaves "
        f"{count_of(ahead.waited, 'user')} waiting, a longer keep-alive window of equal cost "
        f"{constant.waited}"
    )
    return PolicyWhy(PolicyCause.EXPECTED, says, found=ahead.waited, limit=constant.waited)


def replayed(used: Used, hold: int, looks_ahead: bool = False) -> Replayed:
    """The last week, with a window of so many steps."""
    awake = waited = 0
    up_until = -1
    for step in range(len(used) - WEEK, len(used)):
        asleep = step > up_until
        if used[step]:
            waited += asleep
            up_until = step + hold
        elif asleep and looks_ahead and begins(used, step):
            up_until = step + hold
        awake += step <= up_until
    return Replayed(awake, waited)


def _constant(used: Used, hold: int, most: int) -> Replayed:
    """With the best window that keeps it up for at most so many steps."""
    windows = (replayed(used, longer) for longer in range(hold, hold + STEPS_A_DAY))
    return min((one for one in windows if one.awake <= most), key=lambda one: one.waited)
