"""What Prometheus has kept, over many days: asked in parts, each kept in a file as soon as it is there.

    history = History(server, Span(url, start, end), Path("month.ebb.part"))
    curves = history.read(Asked("replicas", "kube_deployment_spec_replicas", 60))
    history.done()

One answer holds at most 11,000 points of a series, so a month is asked in several. Where Prometheus vanishes
half-way, the parts that are there stay in the file, and the same command asks only for the others. The file
is removed once all is read. A line of it that was cut off is as if it was never written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ebbtide import typed
from ebbtide.adapters.prometheus.asking import MOST_POINTS, Curve, Prometheus
from ebbtide.errors import ConfigError

POINTS = 10_000
"""Of a series in one answer, so the last step of a part is never one too many."""
MOST_SERIES_POINTS = 400_000
"""Of all series together, as far as they can be guessed: an answer is read completely."""
assert POINTS < MOST_POINTS


class Span(msgspec.Struct, frozen=True):
    """What is asked for: a part of another span, or of another server, is of no use."""

    url: str
    start: int
    end: int


class _Part(msgspec.Struct, frozen=True):
    name: str
    start: int
    step: int
    curves: list[Curve]


@dataclass(frozen=True, slots=True)
class Asked:
    """One query, and how often it is looked at."""

    name: str
    query: str
    step: int
    series: int = 1
    """About how many it gives."""


class History:
    def __init__(self, server: Prometheus, span: Span, path: Path) -> None:
        self._server, self._path = server, path
        self._known: dict[tuple[str, int, int], list[Curve]] = {}
        self.resumed = 0
        """How many parts an earlier run has read."""
        self.span = self._resume(span)

    def read(self, asked: Asked, advance: Callable[[], None] = lambda: None) -> list[Curve]:
        """All of it, each series once. `Unknown` where a part cannot be had; what is there stays."""
        found: dict[tuple[tuple[str, str], ...], Curve] = {}
        for start, end in self.parts(asked):
            key = (asked.name, start, asked.step)
            if key not in self._known:
                self._keep(key, self._server.ask_range(asked.query, start, end, asked.step))
            for curve in self._known[key]:
                labels = tuple(sorted(curve.metric.items()))
                before = found.get(labels)
                values = curve.values if before is None else before.values + curve.values
                found[labels] = Curve(curve.metric, values)
            advance()
        return [found[labels] for labels in sorted(found)]

    def parts(self, asked: Asked) -> Iterator[tuple[int, int]]:
        points = max(1, min(POINTS, MOST_SERIES_POINTS // max(asked.series, 1)))
        at = self.span.start
        while at <= self.span.end:
            last = min(at + (points - 1) * asked.step, self.span.end)
            yield at, last
            at = last - (last - at) % asked.step + asked.step

    def done(self) -> None:
        """All was read and written elsewhere."""
        self._path.unlink(missing_ok=True)

    def _resume(self, span: Span) -> Span:
        """Where an earlier run for as many days of the same server was cut off, its span continues."""
        try:
            lines = self._path.read_bytes().splitlines()
            kept = typed.decode(lines[0], Span) if lines else None
        except (OSError, msgspec.DecodeError):
            lines, kept = [], None
        if kept is None or (kept.url, kept.end - kept.start) != (span.url, span.end - span.start):
            self._write(msgspec.json.encode(span) + b"\n", "wb")
            return span
        for line in lines[1:]:
            try:
                part = typed.decode(line, _Part)
            except msgspec.DecodeError:
                continue
            self._known[part.name, part.start, part.step] = part.curves
        self.resumed = len(self._known)
        # A last line that was cut off must not run into the next.
        self._write(b"\n", "ab")
        return kept

    def _keep(self, key: tuple[str, int, int], curves: list[Curve]) -> None:
        self._known[key] = curves
        self._write(msgspec.json.encode(_Part(*key, curves)) + b"\n", "ab")

    def _write(self, data: bytes, mode: str) -> None:
        try:
            with self._path.open(mode) as file:
                file.write(data)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}; nothing was recorded. Name a file in a "
                "folder that you may write to with -o."
            ) from error
