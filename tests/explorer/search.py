"""Goes through all states of a scene that can be reached within its bounds.

By default every runner ticks once in a step, one after the other, nothing fails, and then time moves on.
Each departure from that is a choice and is paid for: a fault, a delay (a runner frozen before a call, or one
that misses its turn), an event of the world. All paths with so many departures are taken; one that comes to a
state where no less was left to spend has nothing new to show and ends there. Between two ticks a state can be
copied; within them a path is gone again from the last copy, call by call.

Earlier moments come first, so a state is first met with the most time before it.
"""

from __future__ import annotations

import gc
import time
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from ebbtide.simulator.run.runner import stage_of
from tests.explorer.actors import Actor
from tests.explorer.copying import Certain
from tests.explorer.ending import what_is_wrong_at_the_end
from tests.explorer.entries import Entry, Snapshot
from tests.explorer.path import Path, Pruned
from tests.explorer.scenes import Bounds, Scene
from tests.explorer.sometimes import Witness
from tests.simulation.stories import START


@dataclass(frozen=True, slots=True)
class Finding:
    scene: str
    says: str
    choices: tuple[int, ...]
    trail: tuple[str, ...]
    deep: bool = False
    """What can be chosen depends on the bounds: it can be gone again only within the same."""

    def command(self) -> str:
        bounds = " --deep" if self.deep else ""
        return f"python -m tests.explorer --scene {self.scene!r}{bounds} --path {write_path(self.choices)}"


PLACED_SECONDS = 15


def write_path(choices: tuple[int, ...]) -> str:
    """Number of defaults, choice, number of defaults, choice … ; the rest is default."""
    parts, defaults = [], 0
    for choice in choices:
        if choice:
            parts.append(f"{defaults}:{choice}")
            defaults = 0
        else:
            defaults += 1
    return ",".join(parts) or "-"


def read_path(text: str) -> tuple[int, ...]:
    choices: list[int] = []
    for part in [] if text == "-" else text.split(","):
        defaults, _, choice = part.partition(":")
        choices += [0] * int(defaults) + [int(choice)]
    return tuple(choices)


@dataclass(slots=True)
class Search:
    scene: Scene
    bounds: Bounds
    limit: int = 0
    """Stop after so many states; 0 for all."""
    states: int = 0
    paths: int = 0
    findings: list[Finding] = field(default_factory=list)
    met: set[tuple[str, str]] = field(default_factory=set)
    seen: dict[int, int] = field(default_factory=dict)
    complete: bool = True
    _queue: list[tuple[int, int, Entry]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=count)
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        self.witness = Witness(self.met)

    def run(self, max_findings: int = 5) -> None:
        self.push(0, Entry(self.beginning()))
        while self._queue and len(self.findings) < max_findings:
            if self.limit and self.states >= self.limit:
                self.complete = False
                return
            _, _, entry = heappop(self._queue)
            self.paths += 1
            if self.paths % 10_000 == 0:
                gc.collect()
            self.take(Path(self, entry))

    def take(self, path: Path) -> None:
        with suppress(Pruned):
            path.run()
        problems = list(map(str, path.stage.checker.violations))
        if path.at_the_end and not problems:
            problems = what_is_wrong_at_the_end(path.stage, self.scene, path.actors)
        if problems:
            choices = path.snapshot.choices + tuple(path.taken)
            deep = self.bounds == self.scene.deep
            self.findings.append(Finding(self.scene.name, problems[0], choices, tuple(path.trail), deep))
        path.leave()

    def push(self, step: int, entry: Entry) -> None:
        # Among those of one moment the newest first, which keeps the queue short.
        heappush(self._queue, (step, -next(self._numbers), entry))

    def beginning(self) -> Snapshot:
        """The scene once its pods have been placed: from then on anything may go wrong."""
        world = self.scene.build()
        world.timeline.random = Certain()
        world.advance_to(START + PLACED_SECONDS)
        stage = stage_of(world, self.scene.settings)
        self.scene.prepare(stage)
        actors = [
            Actor(kind, f"r{number}", self.scene.keeps_lease)
            for number, kind in enumerate(self.scene.runners)
        ]
        return Snapshot(stage, actors, 0, 0, self.bounds.left)


@dataclass(frozen=True, slots=True)
class Explored:
    """The result of one scene."""

    scene: str
    states: int
    paths: int
    complete: bool
    seconds: float
    findings: tuple[Finding, ...]
    met: frozenset[tuple[str, str]]


def explore(scene: Scene, bounds: Bounds, limit: int = 0) -> Explored:
    """The collector of cycles is put to rest meanwhile: what a path leaves behind is untied by hand."""
    search = Search(scene, bounds, limit)
    start = time.process_time()
    collects = gc.isenabled()
    gc.disable()
    try:
        search.run()
    finally:
        if collects:
            gc.enable()
        gc.collect()
    return Explored(
        scene.name,
        search.states,
        search.paths,
        search.complete and not search.findings,
        time.process_time() - start,
        tuple(search.findings),
        frozenset(search.met),
    )


def replay(scene: Scene, bounds: Bounds, choices: tuple[int, ...]) -> Path:
    """One path from the beginning to its end, with its trail."""
    search = Search(scene, bounds)
    path = Path(search, Entry(search.beginning(), choices), replays=True)
    path.run()
    return path
