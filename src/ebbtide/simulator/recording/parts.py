"""A recording in two parts: one to learn on, and one that is held out to judge what was learned."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ebbtide.config import Config
from ebbtide.core.words import a_while
from ebbtide.errors import Usage
from ebbtide.simulator.recording.file import Recorded, Recording, Series
from ebbtide.simulator.recording.start import with_first_nodes
from ebbtide.simulator.story.schemas import START, epoch_of

LEARN_SHARE = 2 / 3
LEAST_SECONDS = 3 * 3600
DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Parts:
    learn: Recording
    held_out: Recording
    halves: tuple[Recording, Recording]
    """Of what is learned on: each as long as what is held out."""

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
    middle = float(round(cut / 2))
    later = [_part(recording, begin, end) for begin, end in ((cut, until), (middle, cut))]
    held_out, second = (with_first_nodes(one, config) for one in later)
    return Parts(learn, held_out, (_part(recording, 0.0, middle), second))


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
