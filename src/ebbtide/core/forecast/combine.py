"""Simple forecasts, the same time of earlier days or weeks corrected by how far off that is just now,
combined by how wrong each was lately, with quantiles from how wrong the combination was.

    found = forecast(values, per_day=96, horizon=96)
    found[0.95]                     # in 19 of 20 cases demand stays at or below this

Weights and quantiles come from origins whose outcome is known: what is forecast for tomorrow is judged by
what would have been forecast for the days before. The weights begin with how wrong each member was by itself,
at several strengths: with the few best members, and with many of them. Then they follow the error of the
combination downhill: members that err in opposite directions are worth more together. They do so in two ways,
over the whole past again and again, and once through it from origin to origin: the first finds more, the
second follows what changes. Used is the mean of all. At last the combination is itself weighed against the
last value and the level, by what it would have said at each origin before it learned from that: where there
is no pattern, these two are better than what looked like one.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ebbtide.core.forecast.members import LAST_VALUE, LEVEL, SEASONAL_NAIVE, Floats, Ints, predictions_at

MEDIAN, NINETY, HIGH = LEVELS = (0.5, 0.9, 0.95)
BUCKETS = 6
"""Parts of the horizon that are weighted and measured apart: what is good for the next hour need not be good
for tomorrow."""
POWER = 24.0
"""How strongly small errors are preferred at last."""
STARTS = np.array([8.0, 16.0, 24.0])
"""How strongly they are preferred to begin with. The past is too short to tell which is best: the weights
that result from each are averaged."""
WHOLE = 0.5
"""How much of a member's error is that over the whole horizon: a part alone is a small sample."""
PLAIN = [LAST_VALUE, LEVEL]
"""Members that need no pattern: all others must be worth their trouble."""
PLAIN_COUNTS = 1000.0
"""What each of them counts at equal error, to any other member: the best of many may only be the luckiest."""
PLAIN_AGAINST = np.array([40.0, 2.0])
"""What each of them counts at equal error, to the combination of all."""
STEPS_DOWN, PACE, PACE_BY_ORIGIN = 5, 3.0, 1.0
LEAST_WEIGHT = 1e-6
FORGETS = 0.97
"""What an error counts for the weights, to that of the origin after it: what was good lately is preferred."""
PAST_ORIGINS = 40
PAST_DAYS = 14
LEARNED_STEPS = 48
"""Of the horizon that are looked at in the past. Between two of them little changes."""
GOLDEN = 0.618034
"""Multiples of it, without the whole, are spread evenly and never repeat."""
LEAST_DAYS = 3
"""Of history, next to the horizon: with less there is nothing to compare days by."""
LEAST_SHARE = 0.1
"""What is expected counts as at least this share of the mean where errors are put in proportion to it."""
CENTRE = (0.3, 0.7)
"""If zero lies between these quantiles of the errors, the middle is left where it is: that is chance."""
OUTWARD = 0.75
"""How much further out a quantile is taken, in origins of the past: they are only a sample."""

METHODS = ("forecast", "seasonal naive", "last value")
Quantiles = dict[float, Floats]
"""By level, for each step ahead."""


def least_values(per_day: int, horizon: int) -> int:
    """How many values a forecast needs."""
    return LEAST_DAYS * per_day + horizon


def forecast(values: Floats, per_day: int, horizon: int) -> Quantiles:
    """What comes after the last value."""
    past = Past(values, per_day, horizon)
    return past.quantiles(*past.combined())


@dataclass(frozen=True, slots=True)
class Errors:
    """How wrong a method was on the past, over all origins and steps ahead."""

    mase: float
    """Mean absolute error, to that of the same time a day before over the whole past."""
    pinball: float
    """Loss of the 95 % quantile, in the same unit."""
    coverage: float
    """How often the outcome was at or below the 95 % quantile."""


def past_errors(values: Floats, per_day: int, horizon: int, origins: Ints) -> dict[str, Errors]:
    """Of the forecast and of two naive ones. At each origin nothing later is looked at."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for origin in origins:
        known, outcome = values[:origin], values[origin : origin + horizon]
        unit = scale_of(known, per_day)
        past = Past(known, per_day, horizon)
        combined = past.combined()
        naive = (past.member(SEASONAL_NAIVE), past.member(LAST_VALUE))
        for name, each in zip(found, (combined, *naive), strict=True):
            quantiles = past.quantiles(*each)
            # A naive method is that value, not the middle of how wrong it was.
            middle = quantiles[MEDIAN] if each is combined else each[0]
            above = outcome - quantiles[HIGH]
            pinball = np.maximum(HIGH * above, (HIGH - 1) * above).mean()
            error = np.abs(outcome - middle).mean()
            found[name].append((float(error) / unit, float(pinball) / unit, float((above <= 0).mean())))
    return {name: Errors(*np.mean(each, axis=0).tolist()) for name, each in found.items()}


def scale_of(known: Floats, per_day: int) -> float:
    """The unit of errors: how much the same time of two days differs."""
    return max(float(np.abs(known[per_day:] - known[:-per_day]).mean()), 1e-9)


def judged_origins(count: int, per_day: int, horizon: int, most: int = 14) -> Ints:
    """Evenly over what can be judged: enough history before each, and its outcome known."""
    first, last = least_values(per_day, horizon), count - horizon
    if last < first:
        return np.array([], dtype=np.int64)
    return np.unique(np.linspace(first, last, most).astype(np.int64))


class Past:
    """What each member says now and would have said before, and what then happened."""

    def __init__(self, values: Floats, per_day: int, horizon: int) -> None:
        origins = _past_origins(len(values), per_day, horizon)
        many = min(horizon, LEARNED_STEPS)
        row = np.repeat(np.arange(len(origins)), many)
        ahead = _spread_out(len(origins), many, horizon)
        parts = min(BUCKETS, horizon)
        # One part after the other, each in the order of the origins: a part is a slice.
        order = np.argsort(ahead * parts // horizon, kind="stable")
        row, ahead = row[order], ahead[order]
        now = np.full(horizon, len(origins)), np.arange(horizon)
        made = predictions_at(
            values,
            np.append(origins, len(values)),
            np.concatenate([row, now[0]]),
            np.concatenate([ahead, now[1]]),
            per_day,
        )
        self.made, self.now = made[:, : len(row)], made[:, len(row) :]
        """By member, and by point in the past or step ahead."""
        self.truth = values[origins[row] + ahead]
        self._origins, self.row = len(origins), row
        self._part = now[1] * parts // horizon
        self._part_then = self._part[ahead]
        counts = FORGETS ** (len(origins) - 1 - row)
        self._counts = np.asarray(counts / counts.sum())
        self._recent = values[-(PAST_DAYS * per_day + horizon) :]

    def combined(self) -> tuple[Floats, Floats]:
        """For each step ahead now, and for each point in the past."""
        made, ahead = self.made, self.now
        off = np.abs(made - self.truth)
        whole = WHOLE * (off @ self._counts)
        count_of = np.ones(len(made))
        count_of[PLAIN] = PLAIN_COUNTS
        now, then = np.empty(ahead.shape[1]), np.empty(made.shape[1])
        for part in np.unique(self._part):
            here, there = _where(self._part, part), _where(self._part_then, part)
            counts = self._counts[there] / self._counts[there].sum()
            alone = off[:, there] @ counts
            moves = self._moves((here.start + here.stop - 1) // 2 + 1)
            error = np.maximum((1 - WHOLE) * alone + whole, 1e-9)
            error[LAST_VALUE] = max(error[LAST_VALUE], moves)
            alone[LAST_VALUE] = max(alone[LAST_VALUE], moves)
            unit = float(error.min())
            weight = (error / unit) ** -STARTS[:, None] * count_of
            heard = (weight > LEAST_WEIGHT * weight.max(axis=1, keepdims=True)).any(axis=0)
            weight = weight[:, heard] / weight[:, heard].sum(axis=1, keepdims=True)
            values, truth = made[heard, there], self.truth[there]
            learned, said = _one_by_one(weight, values, truth, self.row[there], unit)
            weight = ((_downhill(weight, values, truth, counts / unit) + learned) / 2).mean(axis=0)
            share = _shares(alone[PLAIN], float(np.abs(said - truth) @ counts))
            now[here] = share @ np.vstack([weight @ ahead[heard, here], ahead[PLAIN, here]])
            then[there] = share @ np.vstack([weight @ values, made[PLAIN, there]])
        return now, then

    def _moves(self, steps: int) -> float:
        """How wrong the last value was from everywhere, not only from the origins: there may have been no
        burst at any of them."""
        return float(np.abs(self._recent[steps:] - self._recent[:-steps]).mean())

    def member(self, number: int) -> tuple[Floats, Floats]:
        return self.now[number], self.made[number]

    def quantiles(self, now: Floats, then: Floats) -> Quantiles:
        """Where the truth was above what was expected then, in proportion to the square root of that: more
        where there is more. A little further out, by `OUTWARD`."""
        least = max(float(self.truth.mean()) * LEAST_SHARE, 1e-9)
        off = self.truth - then
        scaled = off / np.sqrt(np.maximum(then, least))
        levels = [min(level * (1 + OUTWARD / self._origins), 1.0) for level in LEVELS[1:]]
        spread = np.empty((len(LEVELS), len(now)))
        for part in np.unique(self._part):
            low, high, *outer = np.quantile(scaled[self._part_then == part], [*CENTRE, *levels])
            spread[:, self._part == part] = np.array([max(low, 0.0) + min(high, 0.0), *outer])[:, None]
        spread *= np.sqrt(np.maximum(now, least))
        # What came where nothing was expected says little about where much is expected: no more is added than
        # the largest error of the past, in proportion where more is expected than there ever was.
        most = float(off.max()) * np.sqrt(np.maximum(now / max(float(self.truth.max()), 1e-9), 1.0))
        found = np.maximum(now + np.minimum(spread, np.maximum(most, 0.0)), 0.0)
        return dict(zip(LEVELS, found, strict=True))


def _where(parts: Ints, part: int) -> slice:
    """Where it is in `parts`, which are in order."""
    return slice(*np.searchsorted(parts, [part, part + 1]).tolist())


def _spread_out(origins: int, many: int, horizon: int) -> Ints:
    """So many steps of the horizon for each origin, one in each stretch, at another place each time: the
    same place could always be the full hour."""
    number = np.arange(origins * many)
    return np.asarray((number % many + number * GOLDEN % 1) * horizon // many, dtype=np.int64)


def _past_origins(origin: int, per_day: int, horizon: int) -> Ints:
    """Over the last two weeks, each with its whole outcome before `origin` and a day before it."""
    last = origin - horizon
    first = max(per_day + max(per_day // 24, 1), last - PAST_DAYS * per_day)
    return np.unique(np.linspace(first, last, PAST_ORIGINS).astype(np.int64))


def _downhill(weight: Floats, made: Floats, truth: Floats, count: Floats) -> Floats:
    """By start: the mean of the weights on the way. They stay positive, with a sum of one: nothing is
    expected beyond what the members expect."""
    total = np.zeros_like(weight)
    for step in range(STEPS_DOWN):
        slope = (np.sign(weight @ made - truth) * count) @ made.T
        weight = _moved(weight, -PACE / np.sqrt(1 + step) * slope)
        total += weight
    return total / STEPS_DOWN


def _one_by_one(weight: Floats, made: Floats, truth: Floats, row: Ints, unit: float) -> tuple[Floats, Floats]:
    """The same, with one step for each origin, the oldest first: which members err together today counts
    more than which did two weeks ago. And what all starts together said at each before learning from it."""
    total, turns = np.zeros_like(weight), [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
    said = np.empty((len(weight), len(truth)))
    for begin, end in pairwise(turns):
        values = made[:, begin:end]
        said[:, begin:end] = weight @ values
        slope = np.sign(said[:, begin:end] - truth[begin:end]) @ values.T
        weight = _moved(weight, slope * (-PACE_BY_ORIGIN / (unit * (end - begin))))
        total += weight
    return total / (len(turns) - 1), said.mean(axis=0)


def _moved(weight: Floats, steps: Floats) -> Floats:
    weight = weight * np.exp(steps - steps.max(axis=1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _shares(alone: Floats, own: float) -> Floats:
    """Of the combination with the error `own`, and of each plain member with that error alone."""
    least = max(float(alone.min()), 1e-9)
    against = np.concatenate([[1.0], PLAIN_AGAINST])
    share = against * (np.maximum([own, *alone], 1e-9) / least) ** -POWER
    return np.asarray(share / share.sum())
