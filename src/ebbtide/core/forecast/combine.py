"""Simple forecasts, the same time of earlier days or weeks corrected by how far off that is just now,
combined by how wrong each was lately, with quantiles from how wrong the combination was.

    found = forecast(values, per_day=96, horizon=96)
    found[0.95]                     # in 19 of 20 cases demand stays at or below this

Weights and quantiles come from origins whose outcome is known: what is forecast for tomorrow is judged by
what would have been forecast for the days before. The weights begin with how wrong each member was by itself.
Then they follow the error of the combination downhill: members that err in opposite directions are worth more
together. They do so in two ways, over the whole past again and again, and once through it from origin to
origin: the first finds more, the second follows what changes. Used is the mean of both. At last the
combination is itself weighed against the last value and the level, by what it would have said at each origin
before it learned from that: where there is no pattern, these two are better than what looked like one.

Simple forecasts that are combined: the same time of earlier days or weeks, corrected by how far off that is
just now, or grown as the last hours or the last day grew. All origins are computed at once. An origin is the
index of the first value that is not known there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Profile:
    """The mean of the same time so many days ago, each smoothed over some hours; 0: not smoothed."""

    lags: tuple[int, ...]
    smooth_hours: int


LAGS: tuple[tuple[int, ...], ...] = (
    (1,),
    (1, 2, 3),
    (1, 2, 3, 4, 5, 6, 7),
    (7,),
    (7, 14),
    (7, 14, 21),
)
SMOOTH_HOURS = (0, 3)
PROFILES = tuple(Profile(lags, hours) for hours in SMOOTH_HOURS for lags in LAGS)
FADES = (0.0, 4.0, 24.0)
"""Hours within which the current error of a profile fades to a third; 0: it is not corrected."""
GROWN_HOURS = (1, 3)
GROWN = tuple(Profile(lags, hours) for hours in GROWN_HOURS for lags in ((1,), *LAGS[2:]))
"""Profiles that are also multiplied by how much the last hours had, to the same hours of the days before."""
GROWTHS = ((3, 0.0), (6, 0.0), (6, 24.0), (24, 0.0))
"""How many hours are compared, and within which their growth fades; 0: it stays."""
MOST_GROWTH = 5.0
MEDIANS = ((1, 2, 3), (1, 2, 3, 4, 5, 6, 7), (7, 14, 21))
"""Days whose median at the same time is a forecast: one burst does not move it."""
LEVEL_DAYS = (1, 3, 7)
"""Days whose mean and whose median are a forecast: of a series without a pattern little more can be said."""
LEVEL_VALUES = 288
"""Of those days, evenly taken: a median of more is no better."""
OLDEST_DAYS = 21
"""How far any member looks back."""
COUNT = (
    2
    + len(PROFILES) * len(FADES)
    + len(GROWN) * len(GROWTHS)
    + len(GROWN_HOURS)
    + len(MEDIANS)
    + 2 * len(LEVEL_DAYS)
)
LAST_VALUE, SEASONAL_NAIVE, LEVEL = 0, 2, COUNT - 1
"""Where these are among the members; the level is the median of the last week."""


def predictions(values: Floats, origins: Ints, ahead: Ints, per_day: int) -> Floats:
    """By member, origin and step ahead; step 0 is the origin itself."""
    row = np.repeat(np.arange(len(origins)), len(ahead))
    made = predictions_at(values, origins, row, np.tile(ahead, len(origins)), per_day)
    return made.reshape(-1, len(origins), len(ahead))


def predictions_at(values: Floats, origins: Ints, row: Ints, ahead: Ints, per_day: int) -> Floats:
    """By member and point: `ahead` steps from the origin `row`. The last value, the last hour, each profile
    with each fade, the grown ones, the day before with the change of a week ago, medians of days, and the
    levels. Where a member needs more history than there is, it uses the days that are known: at least one and
    an hour."""
    made = np.empty((COUNT, len(row)))
    points = _Points(values, origins, row, ahead, per_day)
    groups = (points.naive, points.profiles, points.grown, points.weekly, points.medians, points.levels)
    for place, one in enumerate(one for group in groups for one in group()):
        made[place] = one
    return np.maximum(made, 0.0, out=made)


class _Points:
    def __init__(self, values: Floats, origins: Ints, row: Ints, ahead: Ints, per_day: int) -> None:
        self._values, self._origins, self._row, self._ahead = values, origins, row, ahead
        self._day, self._hour = per_day, max(per_day // 24, 1)
        unknown = np.full(OLDEST_DAYS * per_day, np.nan)
        self._smooth = {
            hours: np.concatenate([unknown, smoothed(values, hours * per_day // 24)])
            for hours in {*SMOOTH_HOURS, *GROWN_HOURS}
        }
        self._zero = origins[row] + len(unknown)
        self._sums = np.concatenate([[0.0], np.cumsum(values)])
        self._same: dict[tuple[int, int], Floats] = {}
        self._means: dict[Profile, Floats] = {}

    def naive(self) -> Iterator[Floats]:
        yield self._values[self._origins - 1][self._row]
        yield self._level(0, self._hour)[self._row]

    def profiles(self) -> Iterator[Floats]:
        last = self._level(0, self._hour)
        fades = np.stack([self._fading(hours) for hours in FADES])
        for profile in PROFILES:
            # The same hour of the days before, smoothed alike.
            reach = profile.smooth_hours * self._day // 24 // 2
            before = [self._level(lag * self._day - reach, self._hour + 2 * reach) for lag in profile.lags]
            off = last - _mean_of_known(before, last)
            yield from self._mean(profile) + off[self._row] * fades

    def _fading(self, hours: float) -> Floats:
        if not hours:
            return np.zeros(len(self._ahead))
        return np.asarray(np.exp(-(self._ahead + 1) / (hours * self._day / 24)))

    def grown(self) -> Iterator[Floats]:
        for hours, fade in GROWTHS:
            width = hours * self._day // 24
            now = self._level(0, width)
            left = self._fading(fade) if fade else None
            for profile in GROWN:
                then = _mean_of_known([self._level(lag * self._day, width) for lag in profile.lags], now)
                growth = _growth(now, then)[self._row]
                yield self._mean(profile) * (growth if left is None else growth**left)

    def weekly(self) -> Iterator[Floats]:
        """The day before, changed as much as the same weekday differed from the day before it, a week ago.
        Half of that, since the same two days of one week are a small sample."""
        for hours in GROWN_HOURS:
            before, then, before_then = (self._same_time(lag, hours) for lag in (1, 7, 8))
            change = np.sqrt(_growth(then, before_then))
            yield np.where(np.isnan(change), before, before * change)

    def medians(self) -> Iterator[Floats]:
        for lags in MEDIANS:
            days = np.stack([self._same_time(lag, 0) for lag in lags])
            known = ~np.isnan(days[-1])
            yield np.where(known, np.sort(days, axis=0)[len(lags) // 2], self._same_time(1, 0))

    def levels(self) -> Iterator[Floats]:
        for days in LEVEL_DAYS:
            width = days * self._day
            yield _mean_of_known([self._level(0, width)], self._level(0, self._day))[self._row]
            back = np.arange(1, width + 1, -(-width // LEVEL_VALUES))
            # With less history, the first value counts again.
            places = np.maximum(self._origins[:, None] - back[None, :], 0)
            yield np.median(self._values[places], axis=1)[self._row]

    def _mean(self, profile: Profile) -> Floats:
        if profile not in self._means:
            same = [self._same_time(lag, profile.smooth_hours) for lag in profile.lags]
            self._means[profile] = _mean_of_known(same, self._same_time(1, profile.smooth_hours))
        return self._means[profile]

    def _same_time(self, lag: int, smooth_hours: int) -> Floats:
        """Not a number before the first value. What is smoothed must not reach into what is not known at the
        origin."""
        if (lag, smooth_hours) not in self._same:
            days, width = lag * self._day, smooth_hours * self._day // 24
            places = np.minimum(self._ahead % days - days, -1 - width // 2) + self._zero
            self._same[lag, smooth_hours] = self._smooth[smooth_hours][places]
        return self._same[lag, smooth_hours]

    def _level(self, back: int, width: int) -> Floats:
        """By origin: the mean of so many values, so many before it; not a number before the first value."""
        end = self._origins - back
        whole = self._sums[np.maximum(end, 0)] - self._sums[np.maximum(end - width, 0)]
        return np.where(end >= width, whole / width, np.nan)


def _growth(now: Floats, then: Floats) -> Floats:
    return np.clip(now / np.maximum(then, 1e-9), 1 / MOST_GROWTH, MOST_GROWTH)


def _mean_of_known(values: list[Floats], otherwise: Floats) -> Floats:
    """Of those that are numbers; `otherwise` where none is."""
    mean = np.asarray(sum(values) / len(values))
    lacking = np.isnan(mean)
    if lacking.any():
        some = np.stack([each[lacking] for each in values])
        known = ~np.isnan(some)
        count = known.sum(axis=0)
        total = np.where(known, some, 0.0).sum(axis=0)
        mean[lacking] = np.where(count > 0, total / np.maximum(count, 1), otherwise[lacking])
    return mean


def smoothed(values: Floats, width: int) -> Floats:
    """The mean of the values around each, as far as there are any."""
    if width < 2:  # noqa: PLR2004 - of one value there is no mean to take
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    low, high = np.maximum(places - width // 2, 0), np.minimum(places + width // 2 + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))


MEDIAN, NINETY, HIGH = LEVELS = (0.5, 0.9, 0.95)
BUCKETS = 6
"""Parts of the horizon that are weighted and measured apart: what is good for the next hour need not be good
for tomorrow."""
POWER = 24.0
"""How strongly small errors are preferred, to begin with and at last."""
WHOLE = 0.5
"""How much of a member's error is that over the whole horizon: a part alone is a small sample."""
PLAIN = [LAST_VALUE, LEVEL]
"""Members that need no pattern: all others must be worth their trouble."""
PLAIN_COUNTS = 1000.0
"""What each of them counts at equal error, to any other member: the best of many may only be the luckiest."""
PLAIN_AGAINST = np.array([40.0, 2.0])
"""What each of them counts at equal error, to the combination of all."""
STEPS_DOWN, PACE, PACE_BY_ORIGIN = 10, 3.0, 1.0
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
        self._origins, self._row = len(origins), row
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
            moves = self._moves((here.start + here.stop - 1) // 2 + 1)
            error = np.maximum((1 - WHOLE) * (off[:, there] @ counts) + whole, 1e-9)
            error[LAST_VALUE] = max(error[LAST_VALUE], moves)
            weight = (error / error.min()) ** -POWER * count_of
            heard = weight > LEAST_WEIGHT * weight.max()
            weight, values = weight[heard] / weight[heard].sum(), made[heard, there]
            truth, unit = self.truth[there], float(error.min())
            learned, said = _one_by_one(weight, values, truth, self._row[there], unit)
            weight = (_downhill(weight, values, truth, counts / unit) + learned) / 2
            alone = off[PLAIN, there] @ counts
            alone[0] = max(alone[0], moves)
            share = _shares(alone, float(np.abs(said - truth) @ counts))
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
        where there is more. A little further out, since the past is only a sample."""
        least = max(float(self.truth.mean()) * LEAST_SHARE, 1e-9)
        scaled = (self.truth - then) / np.sqrt(np.maximum(then, least))
        levels = [min(level * (1 + 1 / self._origins), 1.0) for level in LEVELS[1:]]
        spread = np.empty((len(LEVELS), len(now)))
        for part in np.unique(self._part):
            low, high, *outer = np.quantile(scaled[self._part_then == part], [*CENTRE, *levels])
            spread[:, self._part == part] = np.array([max(low, 0.0) + min(high, 0.0), *outer])[:, None]
        found = np.maximum(now + spread * np.sqrt(np.maximum(now, least)), 0.0)
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
    """The mean of the weights on the way. They stay positive, with a sum of one: nothing is expected beyond
    what the members expect."""
    total = np.zeros_like(weight)
    for step in range(STEPS_DOWN):
        slope = made @ (np.sign(weight @ made - truth) * count)
        steps = -PACE / np.sqrt(1 + step) * slope
        weight = weight * np.exp(steps - steps.max())
        weight = weight / weight.sum()
        total += weight
    return total / STEPS_DOWN


def _one_by_one(weight: Floats, made: Floats, truth: Floats, row: Ints, unit: float) -> tuple[Floats, Floats]:
    """The same, with one step for each origin, the oldest first: which members err together today counts
    more than which did two weeks ago. And what the weights said at each before they learned from it."""
    total, turns = np.zeros_like(weight), [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
    said = np.empty_like(truth)
    for begin, end in pairwise(turns):
        values = made[:, begin:end]
        said[begin:end] = weight @ values
        slope = values @ np.sign(said[begin:end] - truth[begin:end])
        steps = slope * (-PACE_BY_ORIGIN / (unit * (end - begin)))
        weight = weight * np.exp(steps - steps.max())
        weight /= weight.sum()
        total += weight
    return total / (len(turns) - 1), said


def _shares(alone: Floats, own: float) -> Floats:
    """Of the combination with the error `own`, and of each plain member with that error alone."""
    least = max(float(alone.min()), 1e-9)
    against = np.concatenate([[1.0], PLAIN_AGAINST])
    share = against * (np.maximum([own, *alone], 1e-9) / least) ** -POWER
    return np.asarray(share / share.sum())
