"""Candidates next to each other and next to what was recorded: means over the seeds, their spread, which ones
nothing else beats, and how well the simulation agrees with what happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean

from ebbtide.simulator.backtest.candidates import AS_RECORDED
from ebbtide.simulator.backtest.runs import Run
from ebbtide.simulator.recording.file import Recorded

DOUBTFUL = 0.10
"""A simulation that is further off than this is not to be relied on."""


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate, over all seeds."""

    name: str
    seeds: int
    cost: Decimal
    cost_low: Decimal
    cost_high: Decimal
    currency: str
    node_hours: float
    pending_pod_seconds: float
    pending_low: float
    pending_high: float
    wait_p95: float
    wait_p99: float
    evictions: float
    launched: float
    interruptions: float
    hours_asleep: float
    wakes: float
    violations: tuple[str, ...]
    best: bool
    """No other candidate is as good in cost, waiting and evictions and better in one of them."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well the simulation agrees with what happened in one respect."""

    what: str
    recorded: float
    simulated: float

    @property
    def off(self) -> float:
        """As a share of what was recorded."""
        if self.recorded == self.simulated:
            return 0.0
        return (self.simulated - self.recorded) / self.recorded if self.recorded else float("inf")

    @property
    def doubtful(self) -> bool:
        return abs(self.off) > DOUBTFUL


def rows_of(runs: Sequence[Run]) -> list[Row]:
    names = list(dict.fromkeys(run.candidate for run in runs))
    found = [_row(name, [run for run in runs if run.candidate == name]) for name in names]
    front = _front(found)
    return [replace(one, best=one.name in front) for one in found]


def agreements(recorded: Recorded, rows: Sequence[Row]) -> list[Agreement]:
    """Of the settings that were in force; nothing where the source has no data on nodes and waiting."""
    played = next(row for row in rows if row.name == AS_RECORDED)
    found = []
    if recorded.node_hours is not None:
        found.append(Agreement("node-hours", recorded.node_hours, played.node_hours))
    if recorded.pending_pod_seconds is not None:
        found.append(Agreement("waiting", recorded.pending_pod_seconds, played.pending_pod_seconds))
    return found


def _row(name: str, runs: Sequence[Run]) -> Row:
    costs = [Decimal(run.cost) for run in runs]
    waits = [run.pending_pod_seconds for run in runs]

    def mean(of: Callable[[Run], float]) -> float:
        return round(fmean(map(of, runs)), 3)

    return Row(
        name,
        len(runs),
        (sum(costs, Decimal(0)) / len(costs)).quantize(Decimal("0.01")),
        min(costs),
        max(costs),
        runs[0].currency,
        mean(lambda run: run.node_hours),
        mean(lambda run: run.pending_pod_seconds),
        min(waits),
        max(waits),
        mean(lambda run: run.wait_p95),
        mean(lambda run: run.wait_p99),
        mean(lambda run: run.evictions),
        mean(lambda run: run.launched),
        mean(lambda run: run.interruptions),
        mean(lambda run: run.hours_asleep),
        mean(lambda run: run.wakes),
        tuple(dict.fromkeys(said for run in runs for said in run.violations)),
        True,
    )


def _front(rows: Sequence[Row]) -> set[str]:
    return {one.name for one in rows if not any(_beats(other, one) for other in rows)}


def _beats(one: Row, other: Row) -> bool:
    mine = (float(one.cost), one.pending_pod_seconds, one.evictions)
    theirs = (float(other.cost), other.pending_pod_seconds, other.evictions)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))
