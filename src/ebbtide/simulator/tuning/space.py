"""What is searched: about ten settings, each with a few values that a person would write.

Limits, safety gates, drains and leases are not searched: they say what is allowed, not what is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from ebbtide.config.profiles import CLASSIC, PROFILES, with_profile
from ebbtide.config.schema import Document
from ebbtide.simulator.backtest.candidates import Candidate
from ebbtide.simulator.recording.file import Recording, Series
from ebbtide.simulator.recording.start import requests_of
from ebbtide.simulator.story.parse import laid_over

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
        mean = _mean(series, until) if series is not None else 0.0
        if mean and all(requests_of(workload)):
            counts = sorted({min(ceil(mean * share), MOST_HEADROOM) for share in HEADROOM_SHARES})
            found.append((mean, _Pod(str(workload["cpu"]), str(workload["memory"]), tuple(counts))))
    return max(found, key=lambda one: one[0])[1] if found else None


def _mean(series: Series, until: float) -> float:
    ends = [*series.at[1:], until]
    spans = zip(series.at, ends, series.replicas, strict=True)
    return sum(max(end - begin, 0.0) * count for begin, end, count in spans) / until
