"""Demand of the next steps, whether preparing for it is worth its cost, and what is asked of a pool now."""

from __future__ import annotations

import numpy as np
import pytest

from ebbtide.core.forecast.ahead import LEAST_DAYS, Verdict, expected_peak, judge
from ebbtide.core.forecast.demand import demand_by_pool
from ebbtide.core.forecast.members import Floats
from ebbtide.model.pod import PodPhase, Scheduling, Taint, TaintEffect, Toleration
from ebbtide.model.settings import STEPS_A_DAY, ForecastSettings, PoolDemand
from ebbtide.model.snapshot import ClusterView
from tests.builders import make_daemon, make_node, make_pod, make_pool, make_settings

EIGHT, SIX = 8 * 4, 18 * 4


def office(days: int = LEAST_DAYS + 3) -> Floats:
    """Ten pods at night, forty from eight to six."""
    steps = np.arange(days * STEPS_A_DAY) % STEPS_A_DAY
    return np.where((steps >= EIGHT) & (steps < SIX), 40.0, 10.0)


def by_chance(days: int = LEAST_DAYS + 3) -> Floats:
    """Up and down from step to step, with nothing to learn."""
    return np.asarray(np.random.default_rng(5).integers(5, 40, days * STEPS_A_DAY), dtype=np.float64)


def test_a_rise_is_expected_before_it_comes() -> None:
    values = office()
    morning = len(values) - STEPS_A_DAY + EIGHT - 1
    peak = expected_peak(values[:morning], 2, 0.9)
    assert (round(peak.low), round(peak.high), peak.step) == (40, 40, 1)
    night = expected_peak(values[: morning - 8], 2, 0.9)
    assert (round(night.low), round(night.high)) == (10, 10)


def wandering(days: int = LEAST_DAYS + 3) -> Floats:
    """From where it is, up or down: the past says nothing that the last value does not."""
    moves = np.random.default_rng(5).integers(-3, 4, days * STEPS_A_DAY)
    return np.asarray(np.abs(np.cumsum(moves)) + 20, dtype=np.float64)


def test_what_is_not_certain_is_prepared_for_as_far_as_the_quantile_says() -> None:
    values = by_chance()
    found = [expected_peak(values, 2, quantile) for quantile in (0.5, 0.9, 0.99)]
    assert found[0].low == found[0].high < found[1].high < found[2].high
    assert found[1].low == pytest.approx(found[2].low)


def test_the_future_changes_no_expectation() -> None:
    values = by_chance()
    cut = len(values) - 50
    other = values.copy()
    other[cut:] = 1000
    assert expected_peak(values[:cut], 2, 0.9) == expected_peak(other[:cut], 2, 0.9)
    assert judge(values[:cut], 2, 0.9) == judge(other[:cut], 2, 0.9)


def test_a_forecast_wins_where_days_are_alike() -> None:
    found = judge(office(), 2, 0.9)
    assert found.wins
    assert found.pending == 0 < found.pending_constant
    assert found.closes == 1
    assert found.days == 6


def test_a_forecast_that_is_no_better_than_a_constant_headroom_loses() -> None:
    found = judge(wandering(), 2, 0.9)
    assert not found.wins
    assert found.closes < 0.1


def test_a_constant_headroom_with_which_nothing_is_pending_is_not_beaten() -> None:
    found = judge(np.full(LEAST_DAYS * STEPS_A_DAY, 12.0), 2, 0.9)
    assert (found.extra, found.pending, found.pending_constant, found.closes) == (0, 0, 0, 0)
    assert not found.wins


def test_winning_takes_more_than_chance() -> None:
    assert not Verdict(7, 1.0, 91.0, 100.0).wins
    assert Verdict(7, 1.0, 89.0, 100.0).wins


def test_how_far_ahead_is_counted_in_steps() -> None:
    assert [ForecastSettings(ahead_seconds=seconds).steps for seconds in (900, 901, 1800)] == [1, 2, 2]


def test_demand_is_what_runs_in_a_pool_and_what_is_pending_for_it() -> None:
    gpu = Taint("gpu", TaintEffect.NO_SCHEDULE)
    pools = (make_pool(), make_pool("gpu", taints=(gpu,)))
    needs_gpu = Scheduling(tolerations=(Toleration("gpu"),), node_selector=(("none", "such"),))
    pods = (
        make_pod("web-1", node_name="a1"),
        make_pod("web-2", phase=PodPhase.PENDING),
        make_pod("web-3", phase=PodPhase.PENDING),
        make_pod("nowhere", phase=PodPhase.PENDING, scheduling=needs_gpu),
        make_pod("done", node_name="a1", phase=PodPhase.SUCCEEDED),
        make_pod("going", node_name="a1", terminating=True),
        make_pod("train", 2000, 4096, node_name="g1"),
        make_pod("foreign", node_name="x1"),
        make_daemon("a1"),
    )
    nodes = (make_node("a1"), make_node("g1", pool="gpu"), make_node("x1", pool="another"))
    found = demand_by_pool(ClusterView(nodes, pods), make_settings(pools=pools))
    assert found == {"workers": PoolDemand(3, 300, 384), "gpu": PoolDemand(1, 2000, 4096)}
