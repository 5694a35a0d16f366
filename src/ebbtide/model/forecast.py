"""Whether and how far ahead of expected demand nodes are launched, and what was asked of a pool."""

from __future__ import annotations

from dataclasses import dataclass

STEP_SECONDS = 900
"""Demand is noted and expected in steps of this length."""
STEPS_A_DAY = 86_400 // STEP_SECONDS


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    enabled: bool = False
    ahead_seconds: int = 1800
    """Room is there for what is expected within this time."""
    quantile: float = 0.9
    """How much of what may come is prepared for: demand stays at or below this in so many cases."""

    @property
    def steps(self) -> int:
        return max(1, -(-self.ahead_seconds // STEP_SECONDS))


NO_FORECAST = ForecastSettings()


@dataclass(frozen=True, slots=True)
class Demand:
    """What was asked of a pool at the same time, without what comes and goes with its nodes."""

    pods: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    def plus(self, cpu_milli: int, memory_mib: int) -> Demand:
        return Demand(self.pods + 1, self.cpu_milli + cpu_milli, self.memory_mib + memory_mib)
