"""Asking Prometheus: one query, its samples, or why it gave none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec
import urllib3

from ebbtide import typed
from ebbtide.errors import UNREADABLE, AddressRefused
from ebbtide.outgoing import checked, guarded
from ebbtide.redact import keep, redact

MOST_BYTES = 64 * 2**20
MOST_POINTS = 11_000
"""Of one series in one answer: Prometheus refuses more."""


class Sample(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


class Curve(msgspec.Struct, frozen=True):
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
class Source:
    url: str
    query: str = ""
    """A query of the user's own: CPU use from 0 to 1, by node, or one value for all workers."""
    token_file: Path | None = None
    timeout_seconds: float = 10.0


class Prometheus:
    def __init__(self, source: Source, connections: int = 1) -> None:
        self._source = source
        self._pool = guarded(urllib3.PoolManager(maxsize=connections))

    def close(self) -> None:
        self._pool.clear()

    def ask(self, query: str) -> list[Sample]:
        """`Unknown` where there is no answer, or not all of one."""
        code, body = self._post("query", {"query": query})
        return read_answer(code, body)

    def ask_range(self, query: str, start: int, end: int, step: int) -> list[Curve]:
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


def read_curves(code: int, body: bytes) -> list[Curve]:
    if len(body) >= MOST_BYTES:
        raise Unknown(f"the answer is longer than {MOST_BYTES // 2**20} MiB", failed=True)
    data = _data(code, body)
    try:
        return typed.decode(data.result, list[Curve])
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
