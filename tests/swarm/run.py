"""One seed, from its beginning to its calm end."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.simulator.simulate import OnTick, Simulation
from tests.swarm.clusters import build


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    faults: tuple[str, ...]
    ticks: int
    violations: tuple[str, ...]


def run_seed(seed: int, on_tick: OnTick | None = None) -> Outcome:
    simulation = Simulation(build(seed), on_tick=on_tick)
    result = simulation.run()
    return Outcome(seed, result.faults, result.ticks, result.violations)
