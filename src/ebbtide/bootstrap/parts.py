"""What is the same everywhere: the ports of a cluster as one value, the clock, ids, and notices as lines."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO

from ebbtide.engine.ports import never, nothing_urgent
from ebbtide.model.log import LogEntry
from ebbtide.ports import (
    Clock,
    Cloud,
    Cluster,
    Declarations,
    Inbox,
    Metrics,
    NodeUses,
    Observer,
    Players,
    Services,
    Signals,
    Workloads,
)
from ebbtide.redact import redact

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS, _ORDER_DIGITS, _RANDOM_DIGITS = 10, 3, 5
_BITS = 5


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """What is scaled: everything outside except where the record is kept and who is told."""

    cluster: Cluster
    cloud: Cloud
    metrics: Metrics
    inbox: Inbox
    clock: Clock
    observers: tuple[Observer, ...] = ()
    workloads: Workloads | None = None
    signals: Signals | None = None
    players: Players | None = None
    urgencies: Callable[[], int] = nothing_urgent
    services: Services | None = None
    declarations: Declarations | None = None
    arrived_at: Callable[[], float] = never
    launches_at_once: int = 1
    uses: NodeUses | None = None


class SystemClock:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class TimeOrderedIds:
    """Ids that sort by the time they were made, also within a millisecond and where the clock steps back."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._last = (0, 0)

    def __call__(self) -> str:
        with self._lock:
            moment, order = int(self._now() * 1000), 0
            if moment <= self._last[0]:
                moment, order = self._last[0], self._last[1] + 1
            self._last = (moment, order)
        chance = secrets.randbits(_BITS * _RANDOM_DIGITS)
        return _text(moment, _TIME_DIGITS) + _text(order, _ORDER_DIGITS) + _text(chance, _RANDOM_DIGITS)


def _text(number: int, length: int) -> str:
    """The number in letters and digits that sort like it and are hard to mistake for one another."""
    shifts = range(_BITS * (length - 1), -1, -_BITS)
    return "".join(_DIGITS[number >> shift & 0b11111] for shift in shifts)


class LineNotifier:
    """Tells people by one line for each entry."""

    def __init__(self, out: TextIO, as_json: bool = False) -> None:
        self._out = out
        self._as_json = as_json

    def notify(self, entry: LogEntry) -> None:
        at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        line = f"{at} {entry.kind}: {entry.says}"
        if self._as_json:
            said = {
                "at": at,
                "kind": entry.kind,
                "id": entry.id,
                "subject": entry.subject,
                "says": entry.says,
                "data": dict(entry.data),
            }
            line = json.dumps(said, ensure_ascii=False)
        try:
            print(redact(line), file=self._out, flush=True)
        except (OSError, ValueError):
            return
