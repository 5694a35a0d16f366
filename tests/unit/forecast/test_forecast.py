"""Forecasts: better than the naive ones where there is a pattern, with quantiles that hold, and never made
from the future."""

from __future__ import annotations

import numpy as np
import pytest

from ebbtide.core.forecast.combine import (
    BUCKETS,
    HIGH,
    LEARNED_STEPS,
    LEVELS,
    MEDIAN,
    PAST_ORIGINS,
    Past,
    forecast,
    judged_origins,
    least_values,
    past_errors,
    scale_of,
)
from ebbtide.core.forecast.members import (
    FADES,
    GROWN,
    LAST_VALUE,
    PROFILES,
    SEASONAL_NAIVE,
    Floats,
    Profile,
    predictions,
    smoothed,
)

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


def test_a_member_without_enough_history_uses_the_days_that_are_known() -> None:
    """On the fifth day no week has passed: profiles of weeks are that of the day before, none is missing."""
    values, steps = daily(days=5), np.arange(PER_DAY)
    made = predictions(values, np.array([4 * PER_DAY]), steps, PER_DAY)[:, 0]
    assert not np.isnan(made).any()
    week_ago = 2 + len(FADES) * PROFILES.index(Profile((7,), 0))
    assert np.allclose(made[week_ago], values[3 * PER_DAY : 4 * PER_DAY])
    three_days = 2 + len(FADES) * PROFILES.index(Profile((1, 2, 3, 4, 5, 6, 7), 0))
    assert np.allclose(made[three_days], values[: 4 * PER_DAY].reshape(4, -1).mean(axis=0))


def test_a_week_that_is_known_counts_although_most_of_the_past_has_none_before_it() -> None:
    """Weekdays and weekends of two weeks: the second Monday is not like the Sunday before it."""
    values = daily(0.0, 14)[: -2 * PER_DAY]
    values = np.concatenate([values, daily(0.0, 14)[-2 * PER_DAY :]])
    found = forecast(values, PER_DAY, PER_DAY)[MEDIAN]
    sunday, monday = values[-PER_DAY:], values[7 * PER_DAY : 8 * PER_DAY]
    assert np.abs(found - monday).mean() < 0.3 * np.abs(found - sunday).mean()


def test_a_profile_grows_as_the_last_day_grew() -> None:
    values = daily(0.0, 8)
    values[7 * PER_DAY :] = 3 * values[6 * PER_DAY : 7 * PER_DAY]
    made = predictions(values, np.array([len(values)]), np.arange(PER_DAY), PER_DAY)[:, 0]
    grown = 2 + len(FADES) * len(PROFILES) + GROWN.index(Profile((7,), 1))
    then = values[PER_DAY : 2 * PER_DAY]
    assert made[grown].mean() == pytest.approx(
        then.mean() * values[-PER_DAY:].mean() / values[:PER_DAY].mean(), rel=0.05
    )


def test_the_steps_that_are_looked_at_in_the_past_are_at_no_fixed_distance() -> None:
    """At a fixed one, all could be full hours."""
    past = Past(np.arange(14.0 * 288), 288, 288)
    assert len(past.truth) == PAST_ORIGINS * LEARNED_STEPS
    first = past.truth.reshape(BUCKETS, PAST_ORIGINS, -1)[:, 0].ravel()
    assert {1 <= step <= 11 for step in np.diff(first)} == {True}
    assert len(set(np.diff(first))) > 3


def test_a_last_value_that_was_right_by_luck_is_not_followed() -> None:
    """Single bursts, none of them at a past origin: the last value was never wrong by one there."""
    values = np.zeros(14 * PER_DAY + 1)
    values[100::160] = 50
    values[-1] = 50
    assert forecast(values, PER_DAY, PER_DAY)[MEDIAN].max() < 5


def test_members_that_err_in_opposite_directions_are_worth_more_together() -> None:
    past = Past(daily(), PER_DAY, PER_DAY)
    off = np.random.default_rng(2).choice([-1.0, 1.0], len(past.truth))
    past.made[:] = past.truth + 3 * off
    past.made[5], past.made[6] = past.truth + off, past.truth - 1.3 * off
    assert np.abs(past.combined()[1] - past.truth).mean() < 0.6


def test_many_members_that_are_about_as_good_are_averaged() -> None:
    """Twenty whose errors of a day are independent: the few that were best lately were only lucky."""
    own = one = 0.0
    for seed in range(12):
        chance = np.random.default_rng(seed)
        past = Past(np.full(DAYS * PER_DAY, 50.0), PER_DAY, PER_DAY)
        days = np.unique(past.row)
        past.made[:], past.now[:] = 500, 500
        past.made[10:30] = 50 + chance.normal(0, 1, (20, len(days)))[:, past.row]
        past.now[10:30] = 50 + chance.normal(0, 1, (20, 1))
        own += np.abs(past.combined()[0] - 50).mean()
        one += np.abs(past.now[10:30] - 50).mean()
    assert own < 0.35 * one


def test_where_nothing_can_be_learned_the_forecast_is_hardly_worse_than_the_last_value() -> None:
    own = last = 0.0
    for seed in range(2):
        steps = np.random.default_rng(seed).normal(0, 1.5, 28 * PER_DAY)
        values = np.maximum(100 + np.cumsum(steps), 0)
        errors = past_errors(values, PER_DAY, PER_DAY, judged_origins(len(values), PER_DAY, PER_DAY, 30))
        own, last = own + errors["forecast"].mase, last + errors["last value"].mase
    assert own < 1.05 * last


def test_where_most_is_nothing_no_single_burst_is_followed() -> None:
    """Calls of a function by chance: to expect none is the best guess for each quarter of an hour."""
    own = none = 0.0
    for seed in (0, 2, 3):
        chance = np.random.default_rng(seed)
        values = np.zeros(14 * PER_DAY)
        for begin in chance.integers(0, len(values), 30):
            end = begin + chance.integers(1, 12)
            values[begin:end] = chance.poisson(20.0, len(values[begin:end]))
        origins = judged_origins(len(values), PER_DAY, PER_DAY)
        own += past_errors(values, PER_DAY, PER_DAY, origins)["forecast"].mase
        scaled = [values[at : at + PER_DAY].mean() / scale_of(values[:at], PER_DAY) for at in origins]
        none += float(np.mean(scaled))
    assert own < 1.02 * none


def test_days_that_differ_by_chance_are_averaged() -> None:
    """Each day is above or below the middle: the middle is a better guess than any of them."""
    chance = np.random.default_rng(4).choice([-8.0, 8.0], 21)
    values = np.repeat(40 + chance, PER_DAY) + 5 * np.sin(np.arange(21 * PER_DAY))
    found = past_errors(values, PER_DAY, PER_DAY, judged_origins(len(values), PER_DAY, PER_DAY, 30))
    assert found["forecast"].mase < 0.95 * found["seasonal naive"].mase


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


def test_a_rise_from_nothing_adds_no_more_than_there_ever_was() -> None:
    """Thirteen days of nothing, then five pods: measured where none was expected, that error seemed large."""
    found = forecast(np.repeat([0.0, 5.0], [13 * PER_DAY, PER_DAY]), PER_DAY, PER_DAY)
    assert 4 < found[MEDIAN].max() <= 5.01
    assert found[HIGH].max() <= 2 * 5.01


def changed(start: int, end: int, to: float | Floats) -> Floats:
    values = daily(days=14)
    values[start:end] = to
    return values


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(changed(700, 701, 1e6), id="one huge value"),
        pytest.param(changed(1343, 1344, 1e6), id="one huge value at the end"),
        pytest.param(changed(500, 700, 30.0), id="a gap in which the value before holds"),
        pytest.param(changed(1248, 1344, 30.0), id="a gap at the end"),
        pytest.param(changed(500, 700, 0.0), id="an outage"),
        pytest.param(changed(1340, 1344, 0.0), id="an outage at the end"),
        pytest.param(
            changed(1248, 1344, 5 * daily(days=14)[-PER_DAY:]), id="five times as much on the last day"
        ),
        pytest.param(
            changed(960, 1344, np.roll(daily(days=14)[960:], 4)), id="a clock that was put on an hour"
        ),
        pytest.param(np.repeat([0.0, 9.0], [4 * PER_DAY - 1, 1]), id="one value after nothing"),
        pytest.param(daily(days=4), id="as short as can be"),
        pytest.param(np.linspace(200.0, 0.0, 8 * PER_DAY) ** 2, id="less and less until nothing"),
    ],
)
def test_whatever_happened_quantiles_are_in_order_and_never_negative(values: Floats) -> None:
    found = forecast(values, PER_DAY, PER_DAY)
    low, middle, high = (found[level] for level in LEVELS)
    assert np.isfinite(high).all()
    assert (low >= 0).all()
    assert (low <= middle).all()
    assert (middle <= high).all()


def test_of_one_huge_value_days_ago_hardly_anything_is_expected_again() -> None:
    usual = forecast(daily(days=14), PER_DAY, PER_DAY)
    found = forecast(changed(11 * PER_DAY + 50, 11 * PER_DAY + 51, 1e4), PER_DAY, PER_DAY)
    assert np.abs(found[MEDIAN] - usual[MEDIAN]).max() < 0.01 * 1e4


def test_five_times_as_much_for_a_day_is_expected_to_continue() -> None:
    usual = forecast(daily(days=14), PER_DAY, PER_DAY)[MEDIAN].mean()
    found = forecast(changed(1248, 1344, 5 * daily(days=14)[-PER_DAY:]), PER_DAY, PER_DAY)
    assert 2 * usual < found[MEDIAN].mean() < 6 * usual


def test_what_never_changes_is_expected_to_stay() -> None:
    found = forecast(np.full(5 * PER_DAY, 7.0), PER_DAY, PER_DAY)
    assert np.allclose(found[MEDIAN], 7.0)
    assert np.allclose(found[HIGH], 7.0)


def test_nothing_at_all_is_expected_to_stay_nothing() -> None:
    assert not forecast(np.zeros(5 * PER_DAY), PER_DAY, PER_DAY)[HIGH].any()


@pytest.mark.parametrize("horizon", [1, 4, 2 * PER_DAY])
def test_a_horizon_may_be_a_step_or_days(horizon: int) -> None:
    assert len(forecast(daily(), PER_DAY, horizon)[HIGH]) == horizon


@pytest.mark.parametrize("days", [1, 2, 3, 5, 6, 7])
def test_the_least_history_is_enough_for_each_horizon(days: int) -> None:
    """For a week from ten days on, a median took in days before the first: all weights were not numbers."""
    least = least_values(PER_DAY, days * PER_DAY)
    found = forecast(daily()[:least], PER_DAY, days * PER_DAY)[HIGH]
    assert (len(found), bool(np.isfinite(found).all())) == (days * PER_DAY, True)


def test_a_median_of_days_that_are_not_all_known_is_the_day_before() -> None:
    """Five days ahead, the same time two days before the origin counts as well, and only one day is known."""
    values = daily(days=2)
    made = predictions(values, np.array([PER_DAY + 4]), np.arange(7 * PER_DAY), PER_DAY)[:, 0]
    assert np.isfinite(made).all()


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
