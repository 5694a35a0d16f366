"""How many pods a workload wants as time goes by: steady, day and night, bursts, batches, or recorded.

A recording is a CSV file with a header line:

    seconds,replicas,workload
    0,10,web
    3600,25,web

`seconds` counts from the start of the simulation and must not go back within a workload; `replicas`
holds until the next line. If `workload` is left out, the line is for the workload `web`.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ebbtide.errors import ConfigError

DAY = 86_400.0


class Curve(StrEnum):
    STEADY = "steady"
    DAY = "day"
    BURST = "burst"
    BATCH = "batch"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class Demand:
    """`low` pods at rest. What `high` means depends on the curve: the peak of a day, the height of a
    burst of `burst_seconds` every `every_seconds`, or the size of a batch of jobs begun that often."""

    curve: Curve = Curve.STEADY
    low: int = 1
    high: int = 1
    step_seconds: float = 600.0
    peak_second: float = 15 * 3600.0
    """When in the day the peak is."""
    every_seconds: float = 3600.0
    burst_seconds: float = 900.0
    offset_seconds: float = 0.0
    points: tuple[tuple[float, int], ...] = ()
    """Where there are any, they alone say it: the curve is `RECORDED`."""

    def wanted_at(self, seconds: float) -> int:
        if self.points:
            known = bisect_right(self.points, (seconds, math.inf))
            return self.points[known - 1][1] if known else 0
        match self.curve:
            case Curve.STEADY:
                return self.low
            case Curve.DAY:
                share = (1 + math.cos(2 * math.pi * (seconds - self.peak_second) / DAY)) / 2
                return self.low + round((self.high - self.low) * share)
            case Curve.BURST:
                into = (seconds - self.offset_seconds) % self.every_seconds
                return self.high if seconds >= self.offset_seconds and into < self.burst_seconds else self.low
            case Curve.BATCH:
                return self.high if seconds >= self.offset_seconds else 0
            case Curve.RECORDED:
                return 0

    def next_change(self, seconds: float) -> float | None:
        """When to look at it again, later than `seconds`; None when it never changes."""
        if self.points:
            known = bisect_right(self.points, (seconds, math.inf))
            return self.points[known][0] if known < len(self.points) else None
        match self.curve:
            case Curve.STEADY:
                return None
            case Curve.DAY:
                return (seconds // self.step_seconds + 1) * self.step_seconds
            case Curve.BURST:
                if seconds < self.offset_seconds:
                    return self.offset_seconds
                started = seconds - (seconds - self.offset_seconds) % self.every_seconds
                edges = (started + self.burst_seconds, started + self.every_seconds)
                return next(edge for edge in edges if edge > seconds)
            case Curve.BATCH:
                if seconds < self.offset_seconds:
                    return self.offset_seconds
                return seconds - (seconds - self.offset_seconds) % self.every_seconds + self.every_seconds
            case Curve.RECORDED:
                return None


ONE_POD = Demand()


def read_recording(path: Path) -> dict[str, Demand]:
    """Demand by workload name; the name is empty for lines that name none."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return parse_recording(lines, str(path))
    except OSError as error:
        raise ConfigError(f"the recording {path} cannot be read: {error.strerror}") from error


def parse_recording(lines: Iterable[str], source: str = "recording") -> dict[str, Demand]:
    reader = csv.DictReader(lines)
    if not {"seconds", "replicas"} <= set(reader.fieldnames or ()):
        raise ConfigError(f"{source}: the first line must be seconds,replicas or seconds,replicas,workload")
    points: dict[str, list[tuple[float, int]]] = {}
    for row in reader:
        where = f"{source} line {reader.line_num}"
        try:
            at, count = float(row["seconds"]), int(row["replicas"])
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{where}: seconds and replicas must be numbers, found {row}") from error
        known = points.setdefault(row.get("workload") or "", [])
        if not math.isfinite(at) or at < (known[-1][0] if known else 0.0) or count < 0:
            raise ConfigError(f"{where}: seconds must not go back and nothing may be negative, found {row}")
        known.append((at, count))
    if not points:
        raise ConfigError(f"{source} holds no line after the header")
    return {name: Demand(curve=Curve.RECORDED, points=tuple(found)) for name, found in points.items()}
