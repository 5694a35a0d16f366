"""The only place where adapters are chosen: from a checked configuration to the ports the engine uses.

The simulator stands above this module, so whoever wants a simulated cluster hands its opener in. What a
real cluster needs is imported only for one.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit, urlunsplit

from ebbtide.config import Config
from ebbtide.engine.outside import Outside
from ebbtide.errors import ConfigError, Usage
from ebbtide.model.log import LogEntry
from ebbtide.ports import Clock, Cloud, Cluster, Inbox, Metrics, Store

if TYPE_CHECKING:
    from ebbtide.adapters.clouds.join import Join
    from ebbtide.adapters.kube.connection import Connection

CONNECT_SECONDS = 5
"""Of `request_timeout_sec`, what a connection to the API server may take; the rest is for its answer."""
PROMETHEUS_SECONDS = 10
HETZNER_TOKEN = "HCLOUD_TOKEN"
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


def build(
    config: Config, open_simulated: OpenWorld | None = None, watching: bool = False, asking: bool = False
) -> Outside:
    """Nothing outside is asked before the store is known to be usable, except with `asking`: then the API
    server must answer first, so that a mistake in its address leaves no store behind."""
    if config.cluster_kind == "kubernetes":
        world = open_kubernetes(config, watching, asking)
        try:
            return assemble(config, open_store(config), world)
        except BaseException:
            close_doors(world)
            raise
    if open_simulated is None:
        raise ConfigError(
            f"a cluster of kind {config.cluster_kind!r} cannot be reached from here; nothing was touched. "
            "Set cluster.kind to a kind that this entry point knows."
        )
    store = open_store(config)
    return assemble(config, store, open_simulated(config))


def open_kubernetes(config: Config, watching: bool = False, asking: bool = False) -> World:
    """The doors of a real cluster. `watching` keeps a view current, `asking` insists on an answer now."""
    clock = SystemClock()
    connection = connect_kubernetes(config)
    try:
        with needing("kube"):
            from ebbtide.adapters.kube.cluster import KubeCluster
        if asking:
            connection.get("/version", "the version")
        cluster = KubeCluster(connection, watching)
        metrics = _open_metrics(config, connection, cluster)
        return World(cluster, open_cloud(config), metrics, _open_inbox(config, clock), clock)
    except BaseException:
        connection.close()
        raise


def connect_kubernetes(config: Config) -> Connection:
    with needing("kube"):
        from ebbtide.adapters.kube.connection import connect

        kubeconfig = Path(config.kubeconfig).expanduser() if config.kubeconfig else None
        return connect(kubeconfig, config.context or None, max(1, _limit(config) - CONNECT_SECONDS))


def open_cloud(config: Config) -> Cloud:
    keys, settings = config.adapters, config.settings
    if keys.cloud.kind == "aws":
        from ebbtide.adapters.clouds.aws import Ec2Cloud, Ec2Settings

        own = keys.aws.model_dump(exclude={"region", "endpoint", "queue_url"})
        return Ec2Cloud(
            cloud_client(config), Ec2Settings(settings.cluster, settings.pools, _join(config), **own)
        )
    from ebbtide.adapters.clouds.hetzner import HetznerCloud, HetznerSettings

    own = keys.hetzner.model_dump(exclude={"token_file", "endpoint"})
    return HetznerCloud(
        cloud_client(config),
        HetznerSettings(cluster=settings.cluster, pools=settings.pools, join=_join(config), **own),
    )


def cloud_client(config: Config, service: str = "ec2") -> Any:
    """The client of the configured cloud; `service` is one of AWS."""
    keys = config.adapters
    if keys.cloud.kind == "aws":
        from ebbtide.adapters.clouds import aws

        with needing("aws"):
            return aws.make_client(service, keys.aws.region, keys.aws.endpoint, _limit(config))
    if keys.cloud.kind == "hetzner":
        from ebbtide.adapters.clouds import hetzner

        with needing("hetzner"):
            return hetzner.make_client(_hetzner_token(config), keys.hetzner.endpoint, _limit(config))
    raise ConfigError("no cloud is configured; nothing was touched. Set cloud.kind to aws or hetzner.")


def close_doors(doors: World | Outside) -> None:
    for door in (doors.cloud, doors.cluster, doors.metrics, doors.inbox):
        if shut := getattr(door, "close", None):
            shut()


def _open_metrics(config: Config, connection: Connection, cluster: Any) -> Metrics:
    from ebbtide.adapters.kube.usage import MetricsServer
    from ebbtide.adapters.prometheus import FirstKnown, PrometheusMetrics, Source

    keys = config.adapters.metrics
    of_cluster = MetricsServer(connection, lambda: cluster.cpu_milli_of)
    if not keys.prometheus_url:
        return of_cluster
    token_file = Path(keys.token_file).expanduser() if keys.token_file else None
    seconds = min(PROMETHEUS_SECONDS, _limit(config))
    return FirstKnown(
        PrometheusMetrics(Source(keys.prometheus_url, keys.query, token_file, seconds)), of_cluster
    )


def _open_inbox(config: Config, clock: Clock) -> Inbox:
    if config.adapters.aws.queue_url:
        from ebbtide.adapters.clouds.sqs import SqsInbox

        return SqsInbox(cloud_client(config, "sqs"), config.adapters.aws.queue_url, clock)
    from ebbtide.adapters.clouds.inbox import HandedInbox

    return HandedInbox()


def _join(config: Config) -> Join | None:
    from ebbtide.adapters.clouds.join import Join

    keys = config.adapters.join
    return Join(**keys.model_dump()) if keys.server_url else None


def _hetzner_token(config: Config) -> str:
    if found := os.environ.get(HETZNER_TOKEN, "").strip():
        return found
    name = config.adapters.hetzner.token_file
    if not name:
        raise ConfigError(
            "there is no Hetzner token; nothing was touched. Set HCLOUD_TOKEN, or hetzner.token_file to its file."
        )
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the Hetzner token cannot be read from {name}; nothing was touched. Correct hetzner.token_file."
        ) from error


def _limit(config: Config) -> int:
    return config.settings.request_timeout_seconds


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Turns a library that is not installed into a sentence with the command that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ebbtide"):
            raise
        raise Usage(
            f"{error.name} is not installed; nothing was touched. Run: pip install 'ebbtide[{extra}]'"
        ) from error


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
