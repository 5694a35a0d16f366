"""The search over about ten settings, each with a few values that a person would write: known settings
first, then points spread evenly, then what Optuna expects to be better.

Points are asked for in batches of a fixed size, so the same seed tries the same points however many workers
play them, and a search that was stopped continues where it was.

What is searched: about ten settings, each with a few values that a person would write. Limits, safety gates,
drains and leases are not searched: they say what is allowed, not what is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any

from ebbtide.config.profiles import CLASSIC, PROFILES, with_profile
from ebbtide.config.schema import Document
from ebbtide.errors import Usage
from ebbtide.extras import how_to_add
from ebbtide.simulator.backtest.runs import Candidate, Run
from ebbtide.simulator.recording.file import Recording, Series, requests_of
from ebbtide.simulator.story.parse import laid_over

if TYPE_CHECKING:
    import optuna

PROFILE = "profile"
HEADROOM = "headroom"
HEADROOM_SHARES = (0.05, 0.1, 0.2, 0.4)
"""Of the pods of the largest workload on average."""
MOST_HEADROOM = 1000

Point = tuple[Any, ...]
"""A value for each knob, in their order."""
Lines = dict[str, Any]
"""Keys and values to write over the settings of the recording."""


@dataclass(frozen=True, slots=True)
class Knob:
    key: str
    steps: tuple[Any, ...]
    """What it may be, from one end to the other."""


KNOBS = (
    Knob(PROFILE, tuple(PROFILES)),
    Knob("interval_sec", (15, 30, 60)),
    Knob("pending_up_sec", (0, 5, 15, 30, 60, 120, 180)),
    Knob("cooldown_up_sec", (0, 30, 60, 120, 300)),
    Knob("batch_up_fraction", (0.0, 0.1, 0.25, 0.5, 1.0)),
    Knob("idle_down_sec", (60, 120, 300, 600, 900, 1800)),
    Knob("cooldown_down_sec", (0, 60, 180, 300, 600)),
    Knob("batch_down_fraction", (0.0, 0.05, 0.1, 0.15, 0.25, 0.5)),
    Knob("settled_sec", (0, 900, 1800, 3600, 5400, 7200)),
    Knob("underused_below", (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)),
)


class Space:
    """The knobs of one recording, and the settings that a point of them stands for."""

    def __init__(self, recorded: Mapping[str, Any], recording: Recording) -> None:
        self.recorded = recorded
        self._pod = None if recorded.get(HEADROOM) else _usual_pod(recording)
        known = [recorded, *({**recorded, PROFILE: profile} for profile in PROFILES)]
        knobs = [knob if knob.key == PROFILE else self._with_known(knob, known) for knob in KNOBS]
        if self._pod is not None:
            knobs.append(Knob(HEADROOM, (0, *self._pod.counts)))
        self.knobs = tuple(knobs)

    def _with_known(self, knob: Knob, known: Sequence[Mapping[str, Any]]) -> Knob:
        """What is in force today or with a profile, and is none of the steps, becomes one."""
        values = {self.in_force(settings, knob.key) for settings in known}
        return Knob(knob.key, tuple(sorted({*knob.steps, *values})))

    def today(self) -> Point:
        return self._point(self.recorded)

    def known_points(self) -> Iterator[Point]:
        """What the recording ran with, and then each profile."""
        yield self.today()
        for profile in PROFILES:
            yield self._point({**self.recorded, PROFILE: profile})

    def _point(self, settings: Mapping[str, Any]) -> Point:
        return tuple(0 if knob.key == HEADROOM else self.in_force(settings, knob.key) for knob in self.knobs)

    def in_force(self, settings: Mapping[str, Any], key: str) -> Any:
        """What is written, else what the profile says, else the default."""
        if key == PROFILE:
            return settings.get(PROFILE, CLASSIC)
        return with_profile(settings)[0].get(key, Document.model_fields[key].default)

    def lines(self, point: Point) -> Lines:
        """What must be written to get there, and no more than that."""
        values = dict(zip((knob.key for knob in self.knobs), point, strict=True))
        found: Lines = {}
        profile = values.pop(PROFILE)
        if profile != self.in_force(self.recorded, PROFILE):
            found[PROFILE] = profile
        below = {**self.recorded, PROFILE: profile}
        count = values.pop(HEADROOM, 0)
        found |= {key: value for key, value in values.items() if value != self.in_force(below, key)}
        if count and self._pod is not None:
            found[HEADROOM] = [{"cpu": self._pod.cpu, "memory": self._pod.memory, "count": count}]
        return found

    def candidate(self, lines: Lines) -> Candidate:
        return Candidate(named(lines), laid_over(self.recorded, lines))


def named(lines: Lines) -> str:
    return ", ".join(f"{key}={shown(value)}" for key, value in lines.items()) or "today"


def shown(value: Any) -> str:
    """As a person would say it, and as YAML reads it."""
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {shown(one)}" for key, one in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True)
class _Pod:
    cpu: str
    memory: str
    counts: tuple[int, ...]


def _usual_pod(recording: Recording) -> _Pod | None:
    """The pod of which there are most on average; None where none asks for anything."""
    until = float(recording.story["until"])
    found: list[tuple[float, _Pod]] = []
    for workload in recording.story.get("workloads", ()):
        series = recording.demand.get(f"{workload.get('namespace', 'default')}/{workload['name']}")
        mean = mean_of(series, until) if series is not None else 0.0
        if mean and all(requests_of(workload)):
            counts = sorted({min(ceil(mean * share), MOST_HEADROOM) for share in HEADROOM_SHARES})
            found.append((mean, _Pod(str(workload["cpu"]), str(workload["memory"]), tuple(counts))))
    return max(found, key=lambda one: one[0])[1] if found else None


def mean_of(series: Series, until: float) -> float:
    ends = [*series.at[1:], until]
    spans = zip(series.at, ends, series.replicas, strict=True)
    return sum(max(end - begin, 0.0) * count for begin, end, count in spans) / until


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
