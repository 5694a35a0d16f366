"""Simple forecasts that are combined: the same time of earlier days or weeks, corrected by how far off that
is just now, or grown as the last hours or the last day grew. All origins are computed at once. An origin is
the index of the first value that is not known there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
            # Beyond the first day ahead, a shorter lag can reach further back than a longer one.
            known = ~np.isnan(days).any(axis=0)
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
