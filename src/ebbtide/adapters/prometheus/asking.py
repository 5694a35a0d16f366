"""Queries to Prometheus: one at a time, with its samples or the reason why it gave none, and many days in
parts.

    history = History(server, Span(url, start, end), Path("month.ebb.part"))
    curves = history.read(Asked("replicas", "kube_deployment_spec_replicas", 60))
    history.done()

An answer holds at most 11,000 points per series, so a month takes several queries. Each part is appended
to the file as soon as it arrives: if Prometheus fails half-way, the same command asks only for the missing
parts. A truncated line is ignored. The file is removed at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import urllib3

from ebbtide import typed
from ebbtide.errors import UNREADABLE, AddressRefused, ConfigError
from ebbtide.outgoing import checked, guarded
from ebbtide.redact import keep, redact

MOST_BYTES = 64 * 2**20
MOST_POINTS = 11_000
"""Of one series in one answer: Prometheus refuses more."""


class Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class QueriedSeries(msgspec.Struct, frozen=True):
    """One series over a range of time."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class PrometheusAnswer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: Data | None = None
    error: str = ""
    warnings: list[str] | None = None


class Unknown(Exception):
    """Says why a value is not known: `failed` if there was no readable answer."""

    def __init__(self, says: str, failed: bool = False) -> None:
        super().__init__(redact(says))
        self.failed = failed


@dataclass(frozen=True, slots=True)
class PrometheusSource:
    url: str
    query: str = ""
    """A query of the user's own: CPU use from 0 to 1, by node, or one value for all workers."""
    token_file: Path | None = None
    timeout_seconds: float = 10.0


class Prometheus:
    def __init__(self, source: PrometheusSource, connections: int = 1) -> None:
        self._source = source
        self._pool = guarded(urllib3.PoolManager(maxsize=connections))

    def close(self) -> None:
        self._pool.clear()

    def ask(self, query: str) -> list[Sample]:
        """`Unknown` where there is no answer, or not all of one."""
        code, body = self._post("query", {"query": query})
        return read_answer(code, body)

    def ask_range(self, query: str, start: int, end: int, step: int) -> list[QueriedSeries]:
        """The values at `start`, a step later and so on up to `end`; at most `MOST_POINTS` of a series."""
        asked = {"query": query, "start": str(start), "end": str(end), "step": str(step)}
        code, body = self._post("query_range", asked)
        return read_curves(code, body)

    def _post(self, path: str, fields: dict[str, str]) -> tuple[int, bytes]:
        seconds = self._source.timeout_seconds
        try:
            response = self._pool.request(
                "POST",
                f"{checked(self._source.url).rstrip('/')}/api/v1/{path}",
                fields={**fields, "timeout": f"{seconds:g}s"},
                encode_multipart=False,
                headers=self._headers(),
                timeout=urllib3.Timeout(total=seconds),
                retries=False,
                redirect=False,
            )
        except AddressRefused as cause:
            raise Unknown(f"Prometheus was not asked ({cause})", failed=True) from cause
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as cause:
            if isinstance(cause, urllib3.exceptions.ReadTimeoutError):
                raise Unknown(f"Prometheus did not answer within {seconds:g} s", failed=True) from cause
            raise Unknown(
                f"Prometheus at {self._source.url} cannot be reached ({_short(cause)})", failed=True
            ) from cause
        return response.status, response.data[:MOST_BYTES]

    def _headers(self) -> dict[str, str]:
        if self._source.token_file is None:
            return {}
        try:
            return {"Authorization": f"Bearer {keep(self._source.token_file.read_text().strip())}"}
        except (OSError, UnicodeDecodeError) as cause:
            raise Unknown(f"the token in {self._source.token_file} cannot be read", failed=True) from cause


def read_answer(code: int, body: bytes) -> list[Sample]:
    data = _data(code, body)
    try:
        if data.result_type == "scalar":
            stamp, text = typed.decode(data.result, tuple[float, str])
            return [Sample({}, (stamp, text))]
        return typed.decode(data.result, list[Sample])
    except UNREADABLE as cause:
        kind = data.result_type
        raise Unknown(f"the query gives a {kind} where one sample for each node is needed") from cause


def read_curves(code: int, body: bytes) -> list[QueriedSeries]:
    if len(body) >= MOST_BYTES:
        raise Unknown(f"the answer is longer than {MOST_BYTES // 2**20} MiB", failed=True)
    data = _data(code, body)
    try:
        return typed.decode(data.result, list[QueriedSeries])
    except UNREADABLE as cause:
        raise Unknown(
            f"the query gives a {data.result_type} where a matrix is needed", failed=True
        ) from cause


def _data(code: int, body: bytes) -> Data:
    try:
        answer = typed.decode(body, PrometheusAnswer)
    except UNREADABLE as cause:
        raise Unknown(
            f"the answer ({code}) is not one of Prometheus: check its address", failed=True
        ) from cause
    if answer.status != "success" or answer.data is None:
        raise Unknown(f"Prometheus answered {code} {answer.error}".rstrip(), failed=True)
    if answer.warnings:
        raise Unknown(f"Prometheus answered only in part ({answer.warnings[0]})")
    return answer.data


def number(text: str, whose: str) -> float:
    try:
        value = float(text)
    except ValueError as cause:
        raise Unknown(f"the sample of {whose} is {text!r}, which is not a number") from cause
    if not math.isfinite(value):
        raise Unknown(f"the sample of {whose} is {text}")
    return value


def _short(error: BaseException) -> str:
    return (str(error).rpartition(": ")[2] or type(error).__name__)[:160]


POINTS = 10_000
"""Of a series in one answer, so the last step of a part is never one too many."""
MOST_SERIES_POINTS = 400_000
"""Of all series together, as far as they can be guessed: an answer is read completely."""
assert POINTS < MOST_POINTS


class QueriedSpan(msgspec.Struct, frozen=True):
    """What is asked for: a part of another span, or of another server, is of no use."""

    url: str
    start: int
    end: int


class _SavedPart(msgspec.Struct, frozen=True):
    name: str
    start: int
    step: int
    curves: list[QueriedSeries]


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """One query, and how often it is looked at."""

    name: str
    query: str
    step: int
    series: int = 1
    """About how many it gives."""


class QueriedHistory:
    def __init__(self, server: Prometheus, span: QueriedSpan, path: Path) -> None:
        self._server, self._path = server, path
        self._known: dict[tuple[str, int, int], list[QueriedSeries]] = {}
        self.resumed = 0
        """How many parts an earlier run has read."""
        self.span = self._resume(span)

    def read(self, asked: RangeQuery, advance: Callable[[], None] = lambda: None) -> list[QueriedSeries]:
        """All of it, each series once. `Unknown` if a part cannot be read; the parts that were read stay."""
        found: dict[tuple[tuple[str, str], ...], QueriedSeries] = {}
        for start, end in self.parts(asked):
            key = (asked.name, start, asked.step)
            if key not in self._known:
                self._keep(key, self._server.ask_range(asked.query, start, end, asked.step))
            for curve in self._known[key]:
                labels = tuple(sorted(curve.metric.items()))
                before = found.get(labels)
                values = curve.values if before is None else before.values + curve.values
                found[labels] = QueriedSeries(curve.metric, values)
            advance()
        return [found[labels] for labels in sorted(found)]

    def parts(self, asked: RangeQuery) -> Iterator[tuple[int, int]]:
        points = max(1, min(POINTS, MOST_SERIES_POINTS // max(asked.series, 1)))
        at = self.span.start
        while at <= self.span.end:
            last = min(at + (points - 1) * asked.step, self.span.end)
            yield at, last
            at = last - (last - at) % asked.step + asked.step

    @property
    def read_any(self) -> bool:
        """Whether another run could use what is in the file."""
        return bool(self._known)

    def done(self) -> None:
        """All was read and written elsewhere, or nothing was read."""
        self._path.unlink(missing_ok=True)

    def _resume(self, span: QueriedSpan) -> QueriedSpan:
        """Where an earlier run for as many days of the same server was cut off, its span continues."""
        try:
            lines = self._path.read_bytes().splitlines()
            kept = typed.decode(lines[0], QueriedSpan) if lines else None
        except (OSError, msgspec.DecodeError):
            lines, kept = [], None
        if kept is None or (kept.url, kept.end - kept.start) != (span.url, span.end - span.start):
            self._write(msgspec.json.encode(span) + b"\n", "wb")
            return span
        for line in lines[1:]:
            try:
                part = typed.decode(line, _SavedPart)
            except msgspec.DecodeError:
                continue
            self._known[part.name, part.start, part.step] = part.curves
        self.resumed = len(self._known)
        # A last line that was cut off must not run into the next.
        self._write(b"\n", "ab")
        return kept

    def _keep(self, key: tuple[str, int, int], curves: list[QueriedSeries]) -> None:
        self._known[key] = curves
        self._write(msgspec.json.encode(_SavedPart(*key, curves)) + b"\n", "ab")

    def _write(self, data: bytes, mode: str) -> None:
        try:
            with self._path.open(mode) as file:
                file.write(data)
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}; nothing was recorded. Name a file in a "
                "folder that you may write to with -o."
            ) from error
