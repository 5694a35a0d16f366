"""One candidate, played with one seed, and what came of it. A result is kept in a file next to the recording
as soon as it is there, so a backtest that was stopped continues where it was."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import msgspec

from ebbtide import __version__, typed
from ebbtide.engine.ports import Thinking
from ebbtide.engine.steady import Steady
from ebbtide.errors import ConfigError
from ebbtide.simulator.backtest.candidates import Candidate
from ebbtide.simulator.recording.file import Recording
from ebbtide.simulator.run.runner import policies_of
from ebbtide.simulator.story.output import StoryResult, totals_of
from ebbtide.simulator.story.parse import Story, story_of
from ebbtide.simulator.story.play import Player, Ticks


class Run(msgspec.Struct, frozen=True):
    """What one candidate costs with one seed. Pods that fit at once do not wait and are not counted."""

    candidate: str
    seed: int
    cost: str
    currency: str
    node_hours: float
    pending_pod_seconds: int
    wait_p95: float
    wait_p99: float
    pods_that_waited: int
    evictions: int
    launched: int
    removed: int
    interruptions: int
    hours_asleep: float
    wakes: int
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What one task needs: it can be sent to another process or machine."""

    recording: Recording
    name: str
    candidate: Candidate
    seed: int

    @property
    def key(self) -> str:
        """The same work in the same version gives the same result."""
        parts = (self.recording, self.candidate.name, dict(self.candidate.settings), self.seed, __version__)
        return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()[:24]


def story_for(work: Work) -> Story:
    """The recording with these settings, looked at as often as they say."""
    story = story_of(work.recording, f"{work.name} ({work.candidate.name})", work.candidate.settings)
    keys = story.keys.model_copy(
        update={"tick_sec": float(story.config.interval_seconds), "seed": work.seed, "expect": ()}
    )
    return replace(story, keys=keys, expected=())


RARE = (100_000, 50, 50)
"""Thresholds of the garbage collector: a simulation makes a lot, and little of it refers to itself."""


@contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*RARE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(frozen=True, slots=True)
class Played:
    """A run, and what it took."""

    run: Run
    ticks: Ticks


def play_work(work: Work) -> Run:
    return played(work).run


def played(work: Work, think: Callable[[], Thinking] = Steady) -> Played:
    """With `Always`, every tick is computed, also where it provably comes out the same."""
    player = Player(story_for(work))
    player.stage.think = think
    with _rare_collections():
        result = player.run()
    return Played(_run_of(work, player, result), player.ticks)


def _run_of(work: Work, player: Player, result: StoryResult) -> Run:
    world = player.stage.world
    waits = sorted(world.pods.waits)
    days = policies_of(player.stage).list_days()
    return Run(
        work.candidate.name,
        work.seed,
        result.cost,
        result.currency,
        result.node_hours,
        round(totals_of(world).waited_seconds),
        percentile(waits, 95),
        percentile(waits, 99),
        len(waits),
        result.evictions,
        result.launched,
        result.removed,
        result.interruptions,
        round(sum(day.scaled_to_zero_seconds for day in days) / 3600, 2),
        sum(day.wakes for day in days),
        result.violations,
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """By nearest rank: the wait of some pod; 0 where none waited."""
    return round(ordered[max(ceil(len(ordered) * percent / 100), 1) - 1], 1) if ordered else 0.0


class _Kept(msgspec.Struct, frozen=True):
    key: str
    run: Run


class Results:
    """Finished runs by their key, one line each. A line that was cut off is as if it was never written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Run] = {}
        if path is not None and path.is_file():
            for line in path.read_bytes().splitlines():
                try:
                    kept = typed.decode(line, _Kept)
                except msgspec.DecodeError:
                    continue
                self._known[kept.key] = kept.run

    def find(self, work: Work) -> Run | None:
        return self._known.get(work.key)

    def keep(self, work: Work, run: Run) -> None:
        self._known[work.key] = run
        if self._path is None:
            return
        try:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(_Kept(work.key, run)) + b"\n")
        except OSError as error:
            raise ConfigError(
                f"the results cannot be kept in {self._path}: {error.strerror}. Name a file that you may "
                "write to with --keep."
            ) from error
