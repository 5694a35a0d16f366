"""One seed, from its beginning to its calm end."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.simulator.run.simulate import OnTick, Simulation
from tests.oracle.witness import Witness
from tests.swarm.clusters import build
from tests.swarm.ending import Churn, wrong_at_the_end


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    faults: tuple[str, ...]
    ticks: int
    violations: tuple[str, ...]


def run_or_tell(seed: int) -> Outcome:
    """One of many: where the simulation itself fails, the others continue, and the seed is named."""
    try:
        return run_seed(seed)
    except Exception as error:
        return Outcome(seed, (), 0, (f"the simulation failed: {type(error).__name__}: {error}",))


def run_seed(seed: int, on_tick: OnTick | None = None, sleeps: bool = True, wide: bool = True) -> Outcome:
    simulation = Simulation(build(seed, sleeps, wide), on_tick=on_tick)
    Witness(simulation.stage, metrics=not any(fault.startswith("metrics-") for fault in simulation.faults))
    end = simulation.stage.clock.now() + simulation.scenario.duration_seconds
    churn = Churn(simulation.stage, end)
    result = simulation.run()
    found = (*wrong_at_the_end(simulation.stage), *churn.wrong_at_the_end())
    ending = (f"at the end: {wrong}" for wrong in found)
    return Outcome(seed, result.faults, result.ticks, (*result.violations, *ending))
