"""Forecasts: better than the naive ones where there is a pattern, with quantiles that hold, and never made
from the future."""

from __future__ import annotations

import numpy as np
import pytest

from ebbtide.core.forecast.combine import (
    HIGH,
    LEVELS,
    MEDIAN,
    forecast,
    judged_origins,
    least_values,
    past_errors,
)
from ebbtide.core.forecast.members import LAST_VALUE, SEASONAL_NAIVE, Floats, predictions, smoothed

PER_DAY = 96
DAYS = 21


def daily(noise: float = 3.0, days: int = DAYS, seed: int = 1) -> Floats:
    """A day with a peak in the afternoon, quieter at weekends."""
    steps = np.arange(days * PER_DAY)
    shape = 20 + 15 * np.cos(2 * np.pi * (steps % PER_DAY - 60) / PER_DAY)
    weekend = np.where(steps // PER_DAY % 7 >= 5, 0.5, 1.0)
    chance = np.random.default_rng(seed)
    return np.asarray(np.maximum(shape * weekend + chance.normal(0, noise, len(steps)), 0))


def test_the_naive_members_are_what_they_are_called() -> None:
    values, origins = daily(), np.array([10 * PER_DAY, 12 * PER_DAY])
    made = predictions(values, origins, np.arange(PER_DAY), PER_DAY)
    assert np.allclose(made[SEASONAL_NAIVE][0], values[9 * PER_DAY : 10 * PER_DAY])
    assert np.allclose(made[LAST_VALUE][1], values[12 * PER_DAY - 1])


def test_a_member_without_enough_history_says_nothing() -> None:
    made = predictions(daily(days=5), np.array([4 * PER_DAY]), np.arange(PER_DAY), PER_DAY)
    assert np.isnan(made).any()
    assert not np.isnan(made[SEASONAL_NAIVE]).any()


def test_what_comes_after_an_origin_does_not_matter() -> None:
    values = daily()
    other = values.copy()
    other[15 * PER_DAY :] = 999.0
    origins = np.array([15 * PER_DAY])
    assert np.array_equal(
        predictions(values[: 15 * PER_DAY], origins, np.arange(PER_DAY), PER_DAY),
        predictions(other[: 15 * PER_DAY], origins, np.arange(PER_DAY), PER_DAY),
        equal_nan=True,
    )
    past = past_errors(values, PER_DAY, PER_DAY, np.array([14 * PER_DAY]))
    assert past == past_errors(other, PER_DAY, PER_DAY, np.array([14 * PER_DAY]))


def test_a_pattern_of_days_and_weeks_is_found() -> None:
    values = daily()
    errors = past_errors(values, PER_DAY, PER_DAY, judged_origins(len(values), PER_DAY, PER_DAY))
    own, naive, last = (errors[name] for name in ("forecast", "seasonal naive", "last value"))
    assert own.mase < 0.85 * naive.mase < last.mase
    assert own.pinball < 0.85 * naive.pinball
    assert 0.90 < own.coverage < 0.99


def test_quantiles_are_in_order_and_never_negative() -> None:
    found = forecast(daily(noise=30.0), PER_DAY, PER_DAY)
    low, middle, high = (found[level] for level in LEVELS)
    assert (low <= middle).all()
    assert (middle <= high).all()
    assert (low >= 0).all()
    assert len(high) == PER_DAY


def test_what_never_changes_is_expected_to_stay() -> None:
    found = forecast(np.full(5 * PER_DAY, 7.0), PER_DAY, PER_DAY)
    assert np.allclose(found[MEDIAN], 7.0)
    assert np.allclose(found[HIGH], 7.0)


def test_nothing_at_all_is_expected_to_stay_nothing() -> None:
    assert not forecast(np.zeros(5 * PER_DAY), PER_DAY, PER_DAY)[HIGH].any()


@pytest.mark.parametrize("horizon", [1, 4, 2 * PER_DAY])
def test_a_horizon_may_be_a_step_or_days(horizon: int) -> None:
    assert len(forecast(daily(), PER_DAY, horizon)[HIGH]) == horizon


def test_a_past_that_is_too_short_cannot_be_judged() -> None:
    assert not len(judged_origins(least_values(PER_DAY, PER_DAY), PER_DAY, PER_DAY))
    assert len(judged_origins(10 * PER_DAY, PER_DAY, PER_DAY)) > 5


def test_smoothing_is_the_mean_around() -> None:
    values = np.array([0.0, 6.0, 0.0, 6.0])
    assert smoothed(values, 1) is values
    assert smoothed(values, 2).tolist() == [3.0, 2.0, 4.0, 3.0]


def test_a_series_without_a_pattern_is_forecast_by_its_level() -> None:
    values = np.zeros(14 * PER_DAY)
    values[np.random.default_rng(3).integers(0, len(values), 60)] = 50
    errors = past_errors(values, PER_DAY, PER_DAY, judged_origins(len(values), PER_DAY, PER_DAY))
    assert errors["forecast"].mase < 0.6 * errors["seasonal naive"].mase


def test_what_was_good_lately_counts_more() -> None:
    """Ten days of one pattern, then four days of another: the last value becomes the better guess."""
    values = np.concatenate([daily(0.0, 10), np.full(4 * PER_DAY, 30.0)])
    found = forecast(values, PER_DAY, PER_DAY)[MEDIAN]
    assert np.abs(found - 30).mean() < 0.5
