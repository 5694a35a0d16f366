"""Members combined by how wrong each was lately, with quantiles from how wrong the combination was.

    found = forecast(values, per_day=96, horizon=96)
    found[0.95]                     # in 19 of 20 cases demand stays at or below this

Weights and quantiles come from origins whose outcome is known: what is forecast for tomorrow is judged by
what would have been forecast for the days before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebbtide.core.forecast.members import LAST_VALUE, SEASONAL_NAIVE, Floats, Ints, predictions

MEDIAN, NINETY, HIGH = LEVELS = (0.5, 0.9, 0.95)
BUCKETS = 6
"""Parts of the horizon that are weighted and measured apart: what is good for the next hour need not be good
for tomorrow."""
POWER = 8.0
"""How strongly small errors are preferred."""
FORGETS = 0.97
"""What an error counts for the weights, to that of the origin after it: what was good lately is preferred."""
PAST_ORIGINS = 40
PAST_DAYS = 14
LEAST_DAYS = 3
"""Of history, next to the horizon: with less there is nothing to compare days by."""
LEAST_SHARE = 0.1
"""What is expected counts as at least this share of the mean where errors are put in proportion to it."""

METHODS = ("forecast", "seasonal naive", "last value")
Quantiles = dict[float, Floats]
"""By level, for each step ahead."""


def least_values(per_day: int, horizon: int) -> int:
    """How many values a forecast needs."""
    return LEAST_DAYS * per_day + horizon


def forecast(values: Floats, per_day: int, horizon: int) -> Quantiles:
    """What comes after the last value."""
    past = _past_origins(len(values), per_day, horizon)
    made = predictions(values, np.append(past, len(values)), horizon, per_day)
    truth = _outcomes(values, past, horizon)
    combined = np.einsum("mh,moh->oh", _weights(made[:, :-1], truth), np.nan_to_num(made))
    return _quantiles(combined[-1], combined[:-1], truth)


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
        unit = max(float(np.abs(known[per_day:] - known[:-per_day]).mean()), 1e-9)
        past = _past_origins(int(origin), per_day, horizon)
        made = predictions(known, np.append(past, origin), horizon, per_day)
        truth = _outcomes(known, past, horizon)
        combined = np.einsum("mh,moh->oh", _weights(made[:, :-1], truth), np.nan_to_num(made))
        for name, each in zip(found, (combined, made[SEASONAL_NAIVE], made[LAST_VALUE]), strict=True):
            quantiles = _quantiles(each[-1], each[:-1], truth)
            # A naive method is that value, not the middle of how wrong it was.
            middle = quantiles[MEDIAN] if each is combined else each[-1]
            above = outcome - quantiles[HIGH]
            pinball = np.maximum(HIGH * above, (HIGH - 1) * above).mean()
            error = np.abs(outcome - middle).mean()
            found[name].append((float(error) / unit, float(pinball) / unit, float((above <= 0).mean())))
    return {name: Errors(*np.mean(each, axis=0).tolist()) for name, each in found.items()}


def judged_origins(count: int, per_day: int, horizon: int, most: int = 14) -> Ints:
    """Evenly over what can be judged: enough history before each, and its outcome known."""
    first, last = least_values(per_day, horizon), count - horizon
    if last < first:
        return np.array([], dtype=np.int64)
    return np.unique(np.linspace(first, last, most).astype(np.int64))


def _past_origins(origin: int, per_day: int, horizon: int) -> Ints:
    """Over the last two weeks, each with its whole outcome before `origin` and a day before it."""
    last = origin - horizon
    first = max(per_day + max(per_day // 24, 1), last - PAST_DAYS * per_day)
    return np.unique(np.linspace(first, last, PAST_ORIGINS).astype(np.int64))


def _outcomes(values: Floats, origins: Ints, horizon: int) -> Floats:
    return np.asarray(values[origins[:, None] + np.arange(horizon)[None, :]])


def _parts(horizon: int) -> list[Ints]:
    return np.array_split(np.arange(horizon), min(BUCKETS, horizon))


def _weights(made: Floats, truth: Floats) -> Floats:
    """By member and step ahead; none for a member that lacks history at any of the origins."""
    errors = np.abs(made - truth[None])
    counts = FORGETS ** np.arange(made.shape[1])[::-1]
    weights = np.zeros((made.shape[0], made.shape[2]))
    for part in _parts(made.shape[2]):
        error = errors[:, :, part].mean(axis=2) @ (counts / counts.sum())
        usable = np.maximum(np.where(np.isnan(error), np.inf, error), 1e-9)
        weight = (usable / usable.min()) ** -POWER
        weights[:, part] = (weight / weight.sum())[:, None]
    return weights


def _quantiles(now: Floats, then: Floats, truth: Floats) -> Quantiles:
    """Where the truth was above what was expected then, in proportion to the square root of that: more where
    there is more. A little further out, since the past is only a sample."""
    least = max(float(truth.mean()) * LEAST_SHARE, 1e-9)
    scaled = (truth - then) / np.sqrt(np.maximum(then, least))
    found: Quantiles = {}
    for level in LEVELS:
        rank = level if level == MEDIAN else min(level * (1 + 1 / len(truth)), 1.0)
        spread = np.empty(truth.shape[1])
        for part in _parts(truth.shape[1]):
            spread[part] = np.quantile(scaled[:, part], rank)
        found[level] = np.maximum(now + spread * np.sqrt(np.maximum(now, least)), 0.0)
    return found
