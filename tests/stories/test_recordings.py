"""Demand that was recorded: fractions of a second, and many points."""

from __future__ import annotations

import random

import pytest

from ebbtide.simulator.run.scenarios import START
from ebbtide.simulator.world.rules import Curve, Demand, Rules, WorkloadSpec, parse_recording, pod_template
from ebbtide.simulator.world.world import World


@pytest.mark.timeout(20)
@pytest.mark.parametrize("seed", range(5))
def test_a_recording_with_fractions_of_seconds_ends(seed: int) -> None:
    """It was planned for the same moment forever: 0.3 s after midnight is 0.29999995 s after midnight."""
    chance = random.Random(seed)
    moments = sorted(chance.uniform(0, 600) for _ in range(300))
    lines = ["seconds,replicas,workload", *(f"{at!r},{n % 7},web" for n, at in enumerate(moments))]
    demand = parse_recording(lines)["web"]
    world = World(Rules(), (), 1, START)
    world.add_workload(WorkloadSpec(pod_template("web", 100, 100), demand=demand))
    world.advance_to(START + 700)
    assert world.pods.book.workloads["default/web"].wanted == 299 % 7


def test_what_is_recorded_holds_until_the_next_line() -> None:
    demand = Demand(Curve.RECORDED, points=((10.0, 1), (20.5, 2), (20.5, 3), (30.0, 0)))
    assert [demand.wanted_at(at) for at in (0, 9.9, 10, 20.4, 20.5, 29, 30, 99)] == [0, 0, 1, 1, 3, 3, 0, 0]
    assert [demand.next_change(at) for at in (0, 10, 20.4, 20.5, 30)] == [10, 20.5, 20.5, 30, None]


@pytest.mark.timeout(20)
def test_a_month_of_minutes_is_read_quickly() -> None:
    """A scan of all lines for each of them took longer than the simulation itself."""
    points = tuple((60.0 * minute, minute % 5) for minute in range(100_000))
    demand = Demand(Curve.RECORDED, points=points)
    assert sum(demand.wanted_at(at) for at, _ in points) == 200_000
    assert all(demand.next_change(at) == at + 60 for at, _ in points[:-1])
