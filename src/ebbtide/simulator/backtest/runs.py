"""What a backtest tries (the settings of the recording, configuration files, profiles, single keys), and one
candidate, played with one seed.

What a backtest tries: the settings of the recording, configuration files, profiles, and single keys.

    candidates(recorded, [Path("a.yaml")], ["eager"], ["max_workers=20", "consolidation.enabled=true"])

Each file and each profile is a candidate of its own. All `key=value` together are one more, over the settings
of the recording.
"""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import msgspec
import yaml

from ebbtide import __version__, typed
from ebbtide.config.document import Read, parse_document, read_document
from ebbtide.config.load import ConfigProblems, build_config
from ebbtide.config.profiles import PROFILES
from ebbtide.engine.ports import Thinking
from ebbtide.engine.steady import Steady
from ebbtide.errors import ConfigError, Usage
from ebbtide.simulator.recording.file import Recording, settings_of
from ebbtide.simulator.run.runner import policies_of
from ebbtide.simulator.story.judge import StoryResult, totals_of
from ebbtide.simulator.story.parse import Story, laid_over, story_of
from ebbtide.simulator.story.play import Player, Ticks

AS_RECORDED = "as recorded"
SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Candidate:
    name: str
    settings: Mapping[str, Any]


def candidates(
    recorded: Mapping[str, Any], files: Sequence[Path], profiles: Sequence[str], changes: Sequence[str]
) -> list[Candidate]:
    """The settings of the recording first."""
    found = [Candidate(AS_RECORDED, recorded), *_from_files(files)]
    for profile in profiles:
        if profile not in PROFILES:
            raise Usage(f"there is no profile {profile!r}; nothing ran. Allowed: {', '.join(PROFILES)}")
        found.append(_checked(f"profile {profile}", {**recorded, "profile": profile}))
    if changes:
        laid = recorded
        for change in changes:
            laid = laid_over(laid, _nested(*_parted(change)))
        found.append(_checked(", ".join(changes), laid))
    return found


def _checked(name: str, settings: Mapping[str, Any]) -> Candidate:
    """What is wrong with it is said in the words of who typed it: they know of no file with a line 1."""
    try:
        read = parse_document(_encoded(settings).decode(), SETTINGS, "", "")
        build_config(Read(SETTINGS, read.values), {}, with_prices="prices" in settings)
    except ConfigProblems as error:
        said = "".join(f"\n  {line.removeprefix(f'{SETTINGS}, ')}" for _, line in error.lines)
        raise Usage(
            f"{name} does not fit the settings of the recording; nothing ran.{said}\n"
            "Correct --set or --profile. `ebbtide config show` prints all keys."
        ) from None
    return Candidate(name, settings)


def with_today(found: Sequence[Candidate], path: Path) -> tuple[list[Candidate], str]:
    """With the settings of this file among them, and which candidate has these."""
    settings = _settings_in(path)
    same = next((one.name for one in found if _encoded(one.settings) == _encoded(settings)), None)
    if same is not None:
        return list(found), same
    today = Candidate(f"today ({path.name})", settings)
    return [*found, today], today.name


def _encoded(settings: Mapping[str, Any]) -> bytes:
    """As a recording holds them: one that went through a file has lists where this one has tuples."""
    return msgspec.json.encode(dict(settings), order="deterministic")


def _from_files(paths: Sequence[Path]) -> Iterator[Candidate]:
    """Each once, by its name, or by its path where two have the same name: rows are told apart by it."""
    distinct = list(dict.fromkeys(paths))
    names = [path.name for path in distinct]
    for path in distinct:
        yield Candidate(path.name if names.count(path.name) == 1 else str(path), _settings_in(path))


def _settings_in(path: Path) -> dict[str, Any]:
    read = read_document(path)
    return settings_of(read.values, build_config(read, {}))


def _parted(change: str) -> tuple[list[str], Any]:
    key, equals, text = change.partition("=")
    if not equals or not key or not all(key.split(".")):
        raise Usage(f"--set {change!r} is not key=value; nothing ran. Write it as --set max_workers=20.")
    try:
        return key.split("."), yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Usage(f"--set {change!r}: the value cannot be read; nothing ran.") from error


def _nested(path: Sequence[str], value: Any) -> dict[str, Any]:
    return {path[0]: _nested(path[1:], value) if len(path) > 1 else value}


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


FIRST_BYTES = b'{"key":"'
"""Of every file of finished runs."""


class Results:
    """Finished runs by their key, one line each. A line that was cut off is as if it was never written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._known: dict[str, Run] = {}
        self._cut = False
        """Whether the last line was cut off: what follows begins a new one."""
        if path is not None:
            self._read(path)

    def _read(self, path: Path) -> None:
        if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
            raise Usage(
                f"there is no folder {path.parent} that you may write to, and finished runs are kept there; "
                "nothing ran. Make it, or name another file with --keep."
            )
        if not path.exists():
            return
        if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
            raise Usage(
                f"finished runs cannot be kept in {path}: it is no file that you may read and write; nothing "
                "ran. Name another file with --keep."
            )
        content = path.read_bytes()
        if not FIRST_BYTES.startswith(content.partition(b"\n")[0][: len(FIRST_BYTES)]):
            raise Usage(
                f"{path} holds something else than finished runs, which would be added to it; nothing ran. "
                "Name another file with --keep."
            )
        self._cut = bool(content) and not content.endswith(b"\n")
        for line in content.splitlines():
            try:
                kept = typed.decode(line, _Kept)
            except msgspec.DecodeError:
                continue
            self._known[kept.key] = kept.run

    @property
    def kept(self) -> int:
        return len(self._known)

    def find(self, work: Work) -> Run | None:
        return self._known.get(work.key)

    def keep(self, work: Work, run: Run) -> None:
        self._known[work.key] = run
        if self.path is None:
            return
        line = msgspec.json.encode(_Kept(work.key, run)) + b"\n"
        try:
            with self.path.open("ab") as file:
                file.write(b"\n" + line if self._cut else line)
        except OSError as error:
            raise ConfigError(
                f"the results cannot be kept in {self.path}: {error.strerror}. Name a file that you may "
                "write to with --keep."
            ) from error
        self._cut = False
