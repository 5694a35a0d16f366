"""Simple forecasts that are combined: the same time of earlier days or weeks, corrected by how far off that
is just now, less so the further ahead.

All origins are computed at once. An origin is the index of the first value that is not known there.
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
    (1, 2),
    (1, 2, 3),
    (1, 2, 3, 4, 5, 6, 7),
    (7,),
    (7, 14),
    (7, 14, 21),
)
SMOOTH_HOURS = (0, 1, 3)
PROFILES = tuple(Profile(lags, hours) for hours in SMOOTH_HOURS for lags in LAGS)
FADES = (0.0, 4.0, 24.0)
"""Hours within which the current error of a profile fades to a third; 0: it is not corrected."""
LEVEL_DAYS = (1, 3, 7)
"""Days whose mean and whose median are a forecast: of a series without a pattern little more can be said."""
SEASONAL_NAIVE, LAST_VALUE = 2, 0
"""Where these two are among the members: all others must be worth their trouble."""


def predictions(values: Floats, origins: Ints, horizon: int, per_day: int) -> Floats:
    """By member, origin and step ahead: the last value, the last hour, then each profile with each fade, then
    the levels. Not a number where a member needs more history than there is."""
    ahead, hour = np.arange(horizon), max(per_day // 24, 1)
    recent = np.arange(-hour, 0)
    last = values[origins[:, None] + recent[None, :]].mean(axis=1)
    made = [np.broadcast_to(level[:, None], (len(origins), horizon)) for level in (values[origins - 1], last)]
    smooth = {hours: smoothed(values, hours * per_day // 24) for hours in SMOOTH_HOURS}
    for profile in PROFILES:
        width = profile.smooth_hours * per_day // 24
        base, before = np.zeros((len(origins), horizon)), np.zeros((len(origins), hour))
        for lag in profile.lags:
            days = lag * per_day
            # What is smoothed must not reach into what is not known at the origin.
            places = np.minimum(ahead[None, :] % days - days, -1 - width // 2) + origins[:, None]
            base += _at(smooth[profile.smooth_hours], places)
            before += _at(smooth[profile.smooth_hours], recent[None, :] - days + origins[:, None])
        many = len(profile.lags)
        off = last - before.mean(axis=1) / many
        for hours in FADES:
            fading = np.exp(-(ahead + 1) / (hours * per_day / 24)) if hours else np.zeros(horizon)
            made.append(base / many + off[:, None] * fading[None, :])
    for level in _levels(values, origins, per_day):
        made.append(np.broadcast_to(level[:, None], (len(origins), horizon)))
    return np.asarray(np.maximum(np.stack(made), 0.0))


def _levels(values: Floats, origins: Ints, per_day: int) -> Iterator[Floats]:
    for days in LEVEL_DAYS:
        before = _at(values, origins[:, None] - 1 - np.arange(days * per_day)[None, :])
        yield before.mean(axis=1)
        yield np.median(before, axis=1)


def _at(values: Floats, places: Ints) -> Floats:
    """Not a number before the first value."""
    return np.where(places >= 0, values[np.maximum(places, 0)], np.nan)


def smoothed(values: Floats, width: int) -> Floats:
    """The mean of the values around each, as far as there are any."""
    if width < 2:  # noqa: PLR2004 - of one value there is no mean to take
        return values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    places = np.arange(len(values))
    low, high = np.maximum(places - width // 2, 0), np.minimum(places + width // 2 + 1, len(values))
    return np.asarray((sums[high] - sums[low]) / (high - low))
