"""The search: known settings first, then points spread evenly, then what Optuna expects to be better.

Points are asked for in batches of a fixed size, so the same seed tries the same points however many workers
play them, and a search that was stopped continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import TYPE_CHECKING

from ebbtide.errors import Usage
from ebbtide.extras import how_to_add
from ebbtide.simulator.backtest.runs import Run
from ebbtide.simulator.tuning.space import Knob, Point, Space

if TYPE_CHECKING:
    import optuna

SPREAD_SHARE = 0.3
"""Of the evaluations go to points that are spread evenly, those that are known among them."""
BATCH = 4
BLOCK = 24
"""Points that are spread evenly together; no knob has more values."""
MOST_SPREAD = 1000
"""Evenly spread points that are looked at for new ones."""
MOST_ASKED = 50
"""Times that a point may come again before the search takes an evenly spread one instead."""

OBJECTIVES: dict[str, Callable[[Run], float]] = {
    "cost": lambda run: float(run.cost),
    "waiting": lambda run: float(run.pending_pod_seconds),
    "p95": lambda run: run.wait_p95,
    "evictions": lambda run: float(run.evictions),
    "launches": lambda run: float(run.launched),
}
"""All of them are better when they are lower."""


@dataclass(frozen=True, slots=True)
class Plan:
    evals: int
    seed: int
    objectives: tuple[str, ...]

    def values(self, run: Run) -> tuple[float, ...]:
        return tuple(OBJECTIVES[name](run) for name in self.objectives)


@dataclass(frozen=True, slots=True)
class Tried:
    point: Point
    run: Run


Play = Callable[[Sequence[Point]], Sequence[Run | None]]
"""None for settings that are refused."""


def search(space: Space, plan: Plan, play: Play) -> list[Tried]:
    found = _Found(space, plan, play)
    evenly = spread(space.knobs, plan.seed)
    first = list(dict.fromkeys(space.known_points()))[: plan.evals]
    found.seen |= set(first)
    found.add([*first, *_next(evenly, found, ceil(plan.evals * SPREAD_SHARE) - len(first))])
    while not found.full and (batch := found.asked(min(BATCH, plan.evals - len(found.tried)))):
        found.add(batch)
    while not found.full and found.add(_next(evenly, found, plan.evals - len(found.tried))):
        pass
    return found.tried


def spread(knobs: Sequence[Knob], seed: int) -> Iterator[Point]:
    """Points without end, in blocks: within a block each knob takes each of its values equally often, in an
    order of its own (a Latin hypercube)."""
    chance = Random(seed)
    while True:
        columns = [[knob.steps[place * len(knob.steps) // BLOCK] for place in range(BLOCK)] for knob in knobs]
        for column in columns:
            chance.shuffle(column)
        yield from zip(*columns, strict=True)


def _next(evenly: Iterator[Point], found: _Found, most: int) -> list[Point]:
    """The next ones that are new; none where all seem to be tried."""
    batch: list[Point] = []
    for _, point in zip(range(MOST_SPREAD), evenly, strict=False):
        if len(batch) >= most:
            break
        if point not in found.seen and point not in batch:
            batch.append(point)
    return batch


class _Found:
    """What was tried so far, as the caller and as Optuna see it."""

    def __init__(self, space: Space, plan: Plan, play: Play) -> None:
        self.plan = plan
        self.tried: list[Tried] = []
        self.seen: set[Point] = set()
        self._knobs = space.knobs
        self._play = play
        self._study = _study(plan)
        self._waiting: dict[Point, optuna.Trial] = {}

    @property
    def full(self) -> bool:
        return len(self.tried) >= self.plan.evals

    def add(self, points: Sequence[Point]) -> bool:
        """Plays them; whether there were any."""
        self.seen |= set(points)
        for point, run in zip(points, self._play(points), strict=True):
            if run is not None:
                self.tried.append(Tried(point, run))
            self._tell(point, run)
        return bool(points)

    def asked(self, most: int) -> list[Point]:
        batch: list[Point] = []
        for _ in range(MOST_ASKED):
            if len(batch) == most:
                break
            trial = self._study.ask(self._distributions())
            point = tuple(knob.steps[trial.params[knob.key]] for knob in self._knobs)
            if point in self.seen or point in self._waiting:
                self._repeat(trial, point)
                continue
            self._waiting[point] = trial
            batch.append(point)
        return batch

    def _repeat(self, trial: optuna.Trial, point: Point) -> None:
        """What is already known costs nothing to be told again, and moves the search elsewhere."""
        from optuna.trial import TrialState

        known = next((one for one in self.tried if one.point == point), None)
        if known is None:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, self.plan.values(known.run))

    def _tell(self, point: Point, run: Run | None) -> None:
        from optuna.trial import TrialState, create_trial

        trial = self._waiting.pop(point, None)
        if trial is not None:
            if run is None:
                self._study.tell(trial, state=TrialState.FAIL)
            else:
                self._study.tell(trial, self.plan.values(run))
        elif run is not None:
            params = {
                knob.key: knob.steps.index(value) for knob, value in zip(self._knobs, point, strict=True)
            }
            self._study.add_trial(
                create_trial(params=params, distributions=self._distributions(), values=self.plan.values(run))
            )

    def _distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        from optuna.distributions import IntDistribution

        return {knob.key: IntDistribution(0, len(knob.steps) - 1) for knob in self._knobs}


def _study(plan: Plan) -> optuna.Study:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise Usage(
            f"tuning needs {error.name}; nothing ran. Install it: `{how_to_add('foresight')}`."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(
        seed=plan.seed, n_startup_trials=0, multivariate=True, constant_liar=True
    )
    return optuna.create_study(directions=["minimize"] * len(plan.objectives), sampler=sampler)
