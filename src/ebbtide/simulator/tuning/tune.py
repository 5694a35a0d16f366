"""From a recording to a proposal: learned on its first two thirds, judged on the last, which the search never
saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.errors import ConfigError
from ebbtide.simulator.backtest.compare import Row, rows_of
from ebbtide.simulator.backtest.runs import Run, Work, story_for
from ebbtide.simulator.backtest.sweep import Sweep
from ebbtide.simulator.recording.file import Recording
from ebbtide.simulator.recording.parts import Parts, parts_of
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.tuning.choose import front_of, knee_of, without_idle
from ebbtide.simulator.tuning.search import Plan, Tried, search
from ebbtide.simulator.tuning.space import HEADROOM, Lines, Point, Space, named

TODAY = "today"
PROPOSAL = "proposal"
LEARNING = "learning"
HALVES = "playing each half by itself"
CHECKING = "taking changes back"
JUDGING = "playing what was held out"

Tell = Callable[[str, int, int], None]
"""What is done, how many of it, of how many."""


@dataclass(frozen=True, slots=True)
class Asked:
    plan: Plan
    cost_limit: float
    """As a share of what today costs."""
    seeds: int = 1
    """How often each is played on the held-out third."""


@dataclass(frozen=True, slots=True)
class Change:
    """A line to write, and what came of the proposal without it, on the held-out third."""

    key: str
    today: Any
    proposed: Any
    without: Row


@dataclass(frozen=True, slots=True)
class Tuned:
    """Every row is of the held-out third."""

    learn_seconds: int
    held_out_seconds: int
    tried: int
    today: Row
    proposal: Row
    changes: tuple[Change, ...]
    front: tuple[tuple[Lines, Row], ...]
    """Of the learning part, the cheapest there first."""

    @property
    def violations(self) -> tuple[str, ...]:
        rows = (self.today, self.proposal, *(row for _, row in self.front))
        return tuple(dict.fromkeys(said for row in rows for said in row.violations))


def tune(recording: Recording, name: str, asked: Asked, sweep: Sweep, tell: Tell = lambda *_: None) -> Tuned:
    parts = parts_of(recording, story_of(recording, name).config, name)
    tuning = Tuning(parts, name, asked, sweep, tell)
    space, plan = tuning.space, asked.plan
    story_for(tuning.work({}))  # what is wrong with the recording itself is said before anything runs
    tried = search(space, plan, tuning.play_points)
    front = front_of(tried, plan)
    knee = knee_of(front, tried[0], plan, asked.cost_limit, lambda one: tuning.holds(space.lines(one.point)))
    lines, _ = without_idle(space.lines(knee.point), knee.run, plan, tuning.play_lines, tuning.holds)
    return tuning.judged(lines, front, len(tried))


class Tuning:
    """One search on one recording: what it plays, and on which part."""

    def __init__(self, parts: Parts, name: str, asked: Asked, sweep: Sweep, tell: Tell) -> None:
        self.space = Space(parts.learn.story.get("settings", {}), parts.learn)
        self._parts = parts
        self._name = name
        self._asked = asked
        self._sweep = sweep
        self._tell = tell
        self._done = 0

    def work(self, lines: Lines, seed: int = 1) -> Work:
        return Work(self._parts.learn, self._name, self.space.candidate(lines), seed)

    def play_points(self, points: Sequence[Point]) -> list[Run | None]:
        works = [self.work(self.space.lines(point)) for point in points]
        refused = [_is_refused(work) for work in works]
        self._tell(LEARNING, self._done, self._asked.plan.evals)
        runs = iter(self._sweep.play([w for w, no in zip(works, refused, strict=True) if not no]))
        self._done += len(points)
        self._tell(LEARNING, self._done, self._asked.plan.evals)
        return [None if no else next(runs) for no in refused]

    def play_lines(self, lines: Lines) -> Run | None:
        work = self.work(lines)
        self._tell(CHECKING, 0, 1)
        return None if _is_refused(work) else self._sweep.play([work])[0]

    def holds(self, lines: Lines) -> bool:
        """Whether the limit of cost is kept in each half of what was learned on, played by itself. What wins
        on the whole may cost in a quiet half what it saves in a busy one, and a quiet time may follow."""
        halves = self._parts.halves
        works = [
            Work(half, self._name, self.space.candidate(one), 1) for one in ({}, lines) for half in halves
        ]
        self._tell(HALVES, 0, len(works))
        runs = self._sweep.play(works)
        limit = 1 + self._asked.cost_limit
        both = zip(runs[: len(halves)], runs[len(halves) :], strict=True)
        return all(
            not tried.violations and float(tried.cost) <= float(today.cost) * limit for today, tried in both
        )

    def judged(self, lines: Lines, front: Sequence[Tried], tried: int) -> Tuned:
        fronts = [self.space.lines(one.point) for one in front]
        fewer = {key: {one: value for one, value in lines.items() if one != key} for key in lines}
        shown = _distinct([{}, lines, *fronts])
        rows = self._held_out(_distinct([*shown, *fewer.values()]))
        # Which of them no other beats is asked of what is shown, not of the proposal with a line less.
        best = {row.name: row.best for row in rows_of(self._runs(shown))}
        rows = {key: replace(row, best=best.get(key, False)) for key, row in rows.items()}
        return Tuned(
            self._parts.learn_seconds,
            self._parts.held_out_seconds,
            tried,
            replace(rows[named({})], name=TODAY),
            replace(rows[named(lines)], name=PROPOSAL),
            tuple(
                Change(key, self._today(key), value, rows[named(fewer[key])]) for key, value in lines.items()
            ),
            tuple((one, rows[named(one)]) for one in fronts),
        )

    def _held_out(self, several: Sequence[Lines]) -> dict[str, Row]:
        return {row.name: row for row in rows_of(self._runs(several))}

    def _runs(self, several: Sequence[Lines]) -> list[Run]:
        held = self._parts.held_out
        works = [
            Work(held, self._name, self.space.candidate(lines), 1 + seed)
            for lines in several
            for seed in range(self._asked.seeds)
        ]
        self._tell(JUDGING, 0, len(works))
        return self._sweep.play(works)

    def _today(self, key: str) -> Any:
        settings: Mapping[str, Any] = self.space.recorded
        return [] if key == HEADROOM else self.space.in_force(settings, key)


def _distinct(several: Sequence[Lines]) -> list[Lines]:
    return list({named(lines): lines for lines in several}.values())


def _is_refused(work: Work) -> bool:
    """Settings that contradict others of the recording are not tried."""
    try:
        story_for(work)
    except ConfigError:
        return True
    return False
