"""From a recording to a proposal: learned on its first two thirds, judged on the last, which the search
never saw. Proposed is the knee of the front, without the changes that are worth nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from math import inf, log
from typing import Any

from ebbtide.config import Config
from ebbtide.core.words import a_while
from ebbtide.errors import ConfigError, Usage
from ebbtide.simulator.backtest.runs import Run, Work, story_for
from ebbtide.simulator.backtest.sweep import Row, Sweep, rows_of
from ebbtide.simulator.recording.file import Recorded, Recording, Series, with_first_nodes
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.story.schemas import START, epoch_of
from ebbtide.simulator.tuning.search import (
    HEADROOM,
    OBJECTIVES,
    Lines,
    Plan,
    Point,
    Space,
    Tried,
    mean_of,
    named,
    search,
)

LEARN_SHARE = 2 / 3
QUARTERS = 4
LEAST_SECONDS = 3 * 3600
DAY_SECONDS = 86_400
SLACK = 1e-9
"""Of shares that are compared: they are computed from decimal numbers."""


@dataclass(frozen=True, slots=True)
class Parts:
    learn: Recording
    held_out: Recording
    quarters: tuple[Recording, ...]
    """Of what is learned on: each half as long as what is held out."""

    @property
    def learn_seconds(self) -> int:
        return int(self.learn.story["until"])

    @property
    def held_out_seconds(self) -> int:
        return int(self.held_out.story["until"])


def parts_of(recording: Recording, config: Config, name: str) -> Parts:
    """The first two thirds and the last one. The last begins with as many nodes as its first pods need,
    since which nodes were there by then depends on the settings."""
    until = float(recording.story["until"])
    if until < LEAST_SECONDS:
        raise Usage(
            f"{name} lasts {a_while(round(until))}: too short to learn on two thirds of it and to hold out "
            f"one; nothing ran. Record at least {a_while(LEAST_SECONDS)}, better a week or more."
        )
    cut = float(round(until * LEARN_SHARE))
    learn = _part(recording, 0.0, cut)
    ends = [float(round(cut * number / QUARTERS)) for number in range(1, QUARTERS + 1)]
    held_out, *later = (
        with_first_nodes(_part(recording, begin, end), config)
        for begin, end in [(cut, until), *pairwise(ends)]
    )
    return Parts(learn, held_out, (_part(recording, 0.0, ends[0]), *later))


def _part(recording: Recording, begin: float, end: float) -> Recording:
    story: dict[str, Any] = {key: value for key, value in recording.story.items() if key != "expect"}
    story["until"] = end - begin
    if begin:
        moment = datetime.fromtimestamp(epoch_of(story.get("start", START)) + int(begin), UTC)
        story["start"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
        story["workloads"] = [_free(workload) for workload in story.get("workloads", ())]
    if "events" in story:
        story["events"] = [
            {**event, "at": event["at"] - begin} for event in story["events"] if begin <= event["at"] < end
        ]
    demand = {key: _cut(series, begin, end) for key, series in recording.demand.items()}
    recorded = Recorded(recording.recorded.source, recording.recorded.coverage)
    return Recording(recording.ebb, story, demand, recorded)


def _free(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Without the nodes that its pods started on: those are not there later."""
    return {key: value for key, value in workload.items() if key != "on"}


def _cut(series: Series, begin: float, end: float) -> Series:
    """What is asked for at the begin holds from there on."""
    first = max(bisect_right(series.at, begin) - 1, 0)
    last = bisect_left(series.at, end)
    if last <= first:
        return Series([0.0], [0])
    return Series([max(at - begin, 0.0) for at in series.at[first:last]], series.replicas[first:last])


NOTHING = 0.01
"""A share of today's value below which less is hardly better."""
LITTLE_WAITING = 1e-4
"""As a share of the time that pods are wanted: 9 s for each pod and day."""
WORTH_A_CHANGE = 0.05
"""By which share the product of the objectives must be better than today's: less is chance, and where little
is left to win, the time that follows is as likely to be worse."""


def front_of(tried: Sequence[Tried], plan: Plan) -> list[Tried]:
    """Those that no other is as good as in every objective and better in one, the cheapest first. Of several
    that came out the same, the first. One that violated a safety rule is never proposed."""
    safe = [one for one in tried if not one.run.violations]
    values = {plan.values(one.run): one for one in reversed(safe)}
    kept = [one for mine, one in values.items() if not any(_beats(other, mine) for other in values)]
    return sorted(kept, key=lambda one: (OBJECTIVES["cost"](one.run), plan.values(one.run)))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def knee_of(
    front: Sequence[Tried],
    today: Tried,
    plan: Plan,
    cost_limit: float,
    holds: Callable[[Tried], bool],
    little: float = 0.0,
) -> Tried:
    """Of those that cost at most `cost_limit` (a share) more than today, the one from which one per cent less
    of an objective costs more than one per cent of the others; `little` seconds of waiting do not count.
    One that does not hold is left for the next best. Today where none is left, or none is worth a change."""
    most = OBJECTIVES["cost"](today.run) * (1 + cost_limit)
    allowed = [one for one in front if OBJECTIVES["cost"](one.run) <= most]
    measured = [of or 1.0 for of in plan.values(today.run)]
    least = [
        max(of * NOTHING, little if name == "waiting" else 0.0)
        for name, of in zip(plan.objectives, measured, strict=True)
    ]

    def product(one: Tried) -> float:
        every = zip(plan.values(one.run), measured, least, strict=True)
        return round(sum(log((value + floor) / (of + floor)) for value, of, floor in every), 9)

    better = [one for one in allowed if product(one) <= product(today) - WORTH_A_CHANGE]
    return next((one for one in sorted(better, key=product) if holds(one)), today)


def little_waiting(recording: Recording) -> float:
    """Seconds of it that nobody notices, of all pods together."""
    until = float(recording.story["until"])
    return LITTLE_WAITING * until * sum(mean_of(series, until) for series in recording.demand.values())


def without_idle(
    lines: Lines,
    run: Run,
    plan: Plan,
    play: Callable[[Lines], Run | None],
    holds: Callable[[Lines], bool],
) -> tuple[Lines, Run]:
    """Each change is taken back in turn; where nothing gets worse and it still holds, it stays so."""
    for key in reversed(list(lines)):
        fewer = {one: value for one, value in lines.items() if one != key}
        played = play(fewer)
        if played is None or played.violations:
            continue
        both = zip(plan.values(played), plan.values(run), strict=True)
        if all(without <= with_it for without, with_it in both) and holds(fewer):
            lines, run = fewer, played
    return lines, run


TODAY = "today"
PROPOSAL = "proposal"
LEARNING = "learning"
QUARTERLY = "playing each quarter by itself"
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
    """A line to write, and the result of the proposal without it, on the held-out third."""

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
    knee = knee_of(
        front,
        tried[0],
        plan,
        asked.cost_limit,
        lambda one: tuning.holds(space.lines(one.point)),
        little_waiting(parts.learn),
    )
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
        """Whether the limit of cost is kept in each quarter of what was learned on, played by itself. What
        wins on the whole may cost in a quiet time what it saves in a busy one, and a quiet time may follow.
        With less than a day to learn on, what follows was never seen: it may be as far from the worse half
        as the halves are from each other."""
        quarters = self._parts.quarters
        works = [
            Work(one, self._name, self.space.candidate(each), 1) for each in ({}, lines) for one in quarters
        ]
        self._tell(QUARTERLY, 0, len(works))
        runs = self._sweep.play(works)
        before, after = runs[: len(quarters)], runs[len(quarters) :]
        worst = max(_more([tried], [today]) for tried, today in zip(after, before, strict=True))
        if self._parts.learn_seconds < DAY_SECONDS:
            middle = len(quarters) // 2
            halves = (_more(after[:middle], before[:middle]), _more(after[middle:], before[middle:]))
            worst = max(worst, 2 * max(halves) - min(halves))
        return not any(run.violations for run in after) and worst <= self._asked.cost_limit + SLACK

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


def _more(tried: Sequence[Run], today: Sequence[Run]) -> float:
    """How much more it costs than today, as a share of that."""
    cost, of = (sum(float(run.cost) for run in runs) for runs in (tried, today))
    if not of:
        return inf if cost else 0.0
    return cost / of - 1


def _distinct(several: Sequence[Lines]) -> list[Lines]:
    return list({named(lines): lines for lines in several}.values())


def _is_refused(work: Work) -> bool:
    """Settings that contradict others of the recording are not tried."""
    try:
        story_for(work)
    except ConfigError:
        return True
    return False
