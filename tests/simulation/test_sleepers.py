"""Workloads that sleep, in a simulated cluster: their nodes go with them and come with the first request."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest

from ebbtide.model.idle import Phase
from ebbtide.simulator.run.runner import policies_of
from ebbtide.simulator.run.scenarios import build
from ebbtide.simulator.run.simulate import Simulation


@cache
def a_day() -> Simulation:
    simulation = Simulation(build("sleepers", seed=1))
    simulation.nodes = []  # type: ignore[attr-defined]
    simulation._on_tick = lambda frame: simulation.nodes.append(len(frame.nodes))  # type: ignore[attr-defined]
    simulation.alarms = simulation.run().alarms  # type: ignore[attr-defined]
    return simulation


def test_a_day_of_sleepers_breaks_no_rule() -> None:
    assert a_day().stage.checker.violations == []


def test_that_something_went_to_sleep_is_no_alarm() -> None:
    assert a_day().stage.notifier.entries
    assert a_day().alarms == 0  # type: ignore[attr-defined]


def test_nodes_go_while_workloads_sleep_and_come_with_a_wake() -> None:
    nodes = a_day().nodes  # type: ignore[attr-defined]
    assert min(nodes) == 3
    later = nodes[4 * 60 :]
    assert (min(later), max(later)) == (3, 4)
    assert sum(1 for before, after in pairwise(later) if after > before) >= 6


def test_every_sleeper_woke_for_everybody_who_came_and_learned_what_a_node_takes() -> None:
    for state in policies_of(a_day().stage).list_states():
        assert (state.wake_count, state.phase) == (3, Phase.ZERO)
        assert all(one.seconds <= 300 for one in state.wakes)
        assert any(one.node_seconds > 0 for one in state.wakes)


def test_what_was_saved_is_realised_only_as_far_as_nodes_were_gone() -> None:
    for day in policies_of(a_day().stage).list_days():
        assert 0 < day.realised_price_seconds < day.zero_price_seconds
        assert day.scaled_to_zero_seconds > 18 * 3600


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_delay_a_wake_and_lose_none(seed: int) -> None:
    faults = ("crash", "lost-reply", "failed-call", "throttling", "second-runner")
    result = Simulation(build("sleepers", seed), faults).run()
    assert result.violations == ()
    assert result.crashes > 0
