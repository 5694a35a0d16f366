"""What every process needs: the clock, ids, notices as lines, and `/metrics`, `/healthz` and `/readyz` if it
keeps running.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from ebbtide.config import Config
from ebbtide.engine.ports import Observers, Ports
from ebbtide.extras import how_to_add
from ebbtide.model.log import LogEntry
from ebbtide.redact import redact

if TYPE_CHECKING:
    from ebbtide.adapters.metrics_export.serving import Health
    from ebbtide.engine.scale_to_zero.scaling import Scaling

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_DIGITS, _ORDER_DIGITS, _RANDOM_DIGITS = 10, 3, 5
_BITS = 5


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


OFF = "off"
ConfiguredCluster = tuple[Config, Ports]


@dataclass(frozen=True, slots=True)
class Watched:
    """The same ports, with metrics of the calls through them. `health` is None if there are none."""

    opened: tuple[Ports, ...]
    health: Health | None = None

    def follow(self, config: Config, scaling: Scaling | None) -> None:
        """Policies have metrics too, once their store is open."""
        if self.health is not None and scaling is not None:
            self.health.metrics.policies.follow(config.settings.cluster, scaling.ports.policies)


def watched(clusters: Sequence[ConfiguredCluster], say: Callable[[str], None], ticks: bool = True) -> Watched:
    """Metrics, if anyone can scrape them. A process that does not tick (`ebbtide serve`) still counts as
    healthy."""
    opened = tuple(ports for _, ports in clusters)
    if all(config.metrics_addr == OFF and config.api.listen == OFF for config, _ in clusters) and ticks:
        return Watched(opened)
    try:
        from ebbtide.adapters.metrics_export.metrics import MetricsRegistry
        from ebbtide.adapters.metrics_export.serving import Health
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ebbtide"):
            raise
        say(f"No metrics are served: prometheus-client is not installed. Run: {how_to_add('kube')}")
        return Watched(opened)
    metrics = MetricsRegistry()
    seen = []
    for config, ports in clusters:
        told = (ports.observer, metrics.of(config.settings)) if ticks else (ports.observer,)
        notifier = metrics.wakes.counting(config.settings.cluster, ports.notifier)
        seen.append(replace(ports, observer=Observers(*told), notifier=notifier))
    return Watched(tuple(seen), Health(metrics, max(config.interval_seconds for config, _ in clusters)))


@contextmanager
def metrics_served(clusters: Sequence[ConfiguredCluster], say: Callable[[str], None]) -> Iterator[Watched]:
    """Watched, and served where the first configuration says."""
    seen = watched(clusters, say)
    address = clusters[0][0].metrics_addr
    if address == OFF or seen.health is None:
        yield seen
        return
    from ebbtide.adapters.metrics_export.serving import MetricsEndpoint

    host, _, port = address.rpartition(":")
    try:
        server = MetricsEndpoint(seen.health, host.strip("[]"), int(port))
    except OSError as error:
        say(
            f"No metrics are served: {address} cannot be listened on ({error.strerror or error}). "
            "Set metrics_addr to another address, or to off."
        )
        yield seen
        return
    say(f"Metrics: http://{host}:{server.port}/metrics")
    try:
        yield seen
    finally:
        server.close()
