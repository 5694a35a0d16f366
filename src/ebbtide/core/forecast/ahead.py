"""The highest demand of the next steps, and whether preparing for it is worth its cost.

    peak = expected_peak(values, steps=2, quantile=0.9)
    peak.low, peak.high             # in half of the cases, and in nine of ten, demand stays below
    judge(values, steps=2, quantile=0.9).wins

Worth it is what would have left fewer pods pending on the days before than a constant headroom that costs the
same. Both are replayed step by step; nothing later is looked at than what was known at each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebbtide.core.forecast.members import Floats, Ints, predictions
from ebbtide.model.settings import STEPS_A_DAY

POWER = 8.0
"""How strongly members with small errors are preferred."""
LEARN_DAYS, LEAST_LEARN_DAYS = 14, 2
"""Weights and quantiles come from so many days before."""
JUDGE_DAYS, LEAST_JUDGE_DAYS = 7, 3
LEAST_DAYS = 2 + LEAST_LEARN_DAYS + LEAST_JUDGE_DAYS
"""Of history before anything is prepared: two days to compare, then those to learn from and to judge."""
RELEARN_STEPS = STEPS_A_DAY // 4
LEAST_GAIN = 0.1
"""The share of pending pods by which it must beat the constant headroom: less is chance."""
LEAST_SHARE = 0.1
"""What is expected counts as at least this share of the mean where errors are put in proportion to it."""
HALF = 0.5


@dataclass(frozen=True, slots=True)
class Peak:
    low: float
    high: float
    step: int
    """Which of the next steps is the highest; 0 is the one in progress."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What would have happened on the days before."""

    days: float
    extra: float
    """Pods that there was room for on average beyond those that ran: the cost of both."""
    pending: float
    """Pods for which there was no room, added up over all steps."""
    pending_constant: float
    """The same with a constant headroom of `extra` pods."""

    @property
    def wins(self) -> bool:
        return self.pending < (1 - LEAST_GAIN) * self.pending_constant

    @property
    def closes(self) -> float:
        """The share of the gap between the constant headroom and an oracle, with which no pod is pending."""
        return 1 - self.pending / self.pending_constant if self.pending_constant else 0.0


def expected_peak(values: Floats, steps: int, quantile: float) -> Peak:
    """Of the next `steps`, from the last value on. Takes `LEAST_DAYS` of history."""
    past = _Past(values, steps, LEARN_DAYS)
    combined, low, high = past.expected(len(values), np.array([len(values)]), quantile)
    return Peak(float(low[0]), float(high[0]), int(combined[0].argmax()))


def judge(values: Floats, steps: int, quantile: float) -> Verdict:
    """A node that is asked for in one step takes pods in the next."""
    count = len(values)
    first = max(count - JUDGE_DAYS * STEPS_A_DAY, (2 + LEAST_LEARN_DAYS) * STEPS_A_DAY)
    past, floors = _Past(values, steps, LEARN_DAYS + JUDGE_DAYS), np.zeros(count)
    for start in range(first - 1, count, RELEARN_STEPS):
        origins = np.arange(start, min(start + RELEARN_STEPS, count))
        floors[origins] = past.expected(start, origins, quantile)[2]
    judged = np.arange(first, count)
    before, then = values[judged - 1], values[judged]
    prepared = np.maximum(before, np.ceil(floors[judged - 1] - 1e-9))
    extra = float((prepared - before).mean())
    days = len(judged) / STEPS_A_DAY
    return Verdict(days, extra, _lacking(then, prepared), _lacking(then, before + extra))


def _lacking(asked: Floats, room: Floats) -> float:
    return float(np.maximum(asked - room, 0.0).sum())


class _Past:
    """What each member would have said at each step, and what then happened."""

    def __init__(self, values: Floats, steps: int, days: int) -> None:
        count = len(values)
        self._steps = steps
        self._origins = np.arange(max(2 * STEPS_A_DAY, count - days * STEPS_A_DAY - steps), count + 1)
        padded = np.concatenate([values, np.zeros(steps)])
        self._made = predictions(padded, self._origins, np.arange(steps), STEPS_A_DAY)
        self._truth = np.asarray(padded[self._origins[:, None] + np.arange(steps)[None, :]])

    def expected(self, known: int, origins: Ints, quantile: float) -> tuple[Floats, Floats, Floats]:
        """By origin: each step, and the median and the quantile of the highest. Learned from what was over
        before `known`."""
        over = self._origins + self._steps <= known
        learned = over & (self._origins >= known - LEARN_DAYS * STEPS_A_DAY)
        error = np.abs(self._made[:, learned] - self._truth[None, learned]).mean(axis=1)
        error = np.maximum(error, 1e-9)
        weight = (error / error.min(axis=0)) ** -POWER
        combined = np.einsum("mh,moh->oh", weight / weight.sum(axis=0), self._made)
        peaks, truth = combined.max(axis=1), self._truth.max(axis=1)
        scale = np.sqrt(np.maximum(peaks, max(float(truth[learned].mean()) * LEAST_SHARE, 1e-9)))
        off = ((truth - peaks) / scale)[learned]
        asked = np.searchsorted(self._origins, origins)
        low, high = (
            np.maximum(peaks + np.quantile(off, level) * scale, 0.0)[asked]
            for level in (HALF, max(quantile, HALF))
        )
        return combined[asked], low, high
