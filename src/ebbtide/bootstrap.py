"""The only place where adapters are chosen: from a checked configuration to the ports the engine uses.

The simulator stands above this module, so whoever wants a simulated cluster hands its opener in.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TextIO
from urllib.parse import urlsplit, urlunsplit

from ebbtide.config import Config
from ebbtide.engine.outside import Outside
from ebbtide.errors import ConfigError
from ebbtide.model.log import LogEntry
from ebbtide.ports import Clock, Cloud, Cluster, Inbox, Metrics, Store

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS, _ORDER_DIGITS, _RANDOM_DIGITS = 10, 3, 5
_BITS = 5


@dataclass(frozen=True, slots=True)
class World:
    """What is scaled: everything outside except where the record is kept and who is told."""

    cluster: Cluster
    cloud: Cloud
    metrics: Metrics
    inbox: Inbox
    clock: Clock


OpenWorld = Callable[[Config], World]


def build(config: Config, open_simulated: OpenWorld | None = None) -> Outside:
    """The store is opened first: where it cannot be used, no cluster and no cloud is asked anything."""
    if config.cluster_kind != "simulator" or open_simulated is None:
        raise ConfigError(
            f"a cluster of kind {config.cluster_kind!r} cannot be reached from here; nothing was touched. "
            "Set cluster.kind to a kind that this entry point knows."
        )
    store = open_store(config)
    return assemble(config, store, open_simulated(config))


def assemble(config: Config, store: Store, world: World) -> Outside:
    return Outside(
        store=store,
        cluster=world.cluster,
        cloud=world.cloud,
        metrics=world.metrics,
        inbox=world.inbox,
        notifier=LineNotifier(sys.stderr, as_json=config.log_format == "json"),
        clock=world.clock,
        new_id=TimeOrderedIds(),
    )


def open_store(config: Config) -> Store:
    if config.store_url.startswith("dynamodb"):
        from ebbtide.adapters.stores.dynamodb import DynamoStore

        return DynamoStore.open(with_tables(config), SystemClock(), config.settings.cluster)
    from ebbtide.adapters.stores.sql import SqlStore

    return SqlStore.open(config.store_url, SystemClock(), config.settings.cluster)


def with_tables(config: Config) -> str:
    """The URL with the tables of `state_table` and `logs_table` where it names none itself."""
    parts = urlsplit(config.store_url)
    state, logs = parts.netloc or config.state_table, parts.path.strip("/") or config.logs_table
    return urlunsplit((parts.scheme, state, f"/{logs}", parts.query, ""))


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
            }
            line = json.dumps(said, ensure_ascii=False)
        try:
            print(line, file=self._out, flush=True)
        except (OSError, ValueError):
            return
