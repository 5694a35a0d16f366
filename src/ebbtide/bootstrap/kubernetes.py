"""The ports of a real cluster: Kubernetes, its cloud, its metrics and its notices.

Adapters and their libraries are imported where they are used, so only a real cluster needs them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebbtide.bootstrap.parts import SystemClock
from ebbtide.config import Config
from ebbtide.config.adapters import INSTALL
from ebbtide.engine.ports import ClusterPorts, Ports
from ebbtide.errors import ConfigError, Usage
from ebbtide.extras import how_to_add
from ebbtide.ports import Clock, Cloud, Declarations, Inbox, Players, Services, Signals

if TYPE_CHECKING:
    from ebbtide.adapters.clouds.joins import Join
    from ebbtide.adapters.clouds.looking import Adopter
    from ebbtide.adapters.kube.cluster import KubeCluster
    from ebbtide.adapters.kube.connection import Connection
    from ebbtide.adapters.kube.usage import MetricsServer
    from ebbtide.adapters.prometheus import FirstKnown, PrometheusMetrics, PrometheusSource
    from ebbtide.model.snapshot import ClusterView

CONNECT_SECONDS = 5
"""Of `request_timeout_sec`, what a connection to the API server may take; the rest is for its answer."""
PROMETHEUS_SECONDS = 10
LAUNCHES_AT_ONCE = 8
"""Of EC2, whose client may be used by several threads; it keeps ten connections."""
HETZNER_TOKEN = "HCLOUD_TOKEN"
LAST_TO_CLOSE_FIRST = (
    "store",
    "players",
    "signals",
    "workloads",
    "inbox",
    "metrics",
    "cluster",
    "cloud",
    "notifier",
)


def open_kubernetes(config: Config, watching: bool = False, asking: bool = False) -> ClusterPorts:
    """The ports of a real cluster. `watching` keeps a view current, `asking` insists on an answer now."""
    clock = SystemClock()
    connection = connect_kubernetes(config)
    try:
        from ebbtide.adapters.kube.cluster import KubeCluster
        from ebbtide.adapters.kube.workloads import KubeWorkloads

        cluster = KubeCluster(connection, watching)
        metrics = _open_metrics(config, connection, cluster)
        inbox = _open_inbox(config, clock)
        world = ClusterPorts(
            cluster,
            open_cloud(config),
            metrics,
            inbox,
            clock,
            (cluster.teller,),
            KubeWorkloads(connection, watching),
            open_signals(config),
            open_players(config),
            cluster.urgencies,
            open_services(config, connection),
            open_declarations(config, connection),
            cluster.arrived_at,
            LAUNCHES_AT_ONCE if config.adapters.cloud.kind == "aws" else 1,
            metrics,
        )
        if asking:
            connection.get("/version", "the version")
        return world
    except BaseException:
        connection.close()
        raise


def open_services(config: Config, connection: Connection) -> Services | None:
    """None where no gate is configured."""
    from ebbtide.adapters.kube.services import KubeServices

    gate = config.gate.service_ref
    return None if gate is None else KubeServices(connection, gate, config.gate.namespaces)


def open_declarations(config: Config, connection: Connection) -> Declarations | None:
    """None where no object of the cluster may declare a policy."""
    if not (config.sleep_policies or config.sleep_annotations):
        return None
    from ebbtide.adapters.kube.declared import KubeDeclarations
    from ebbtide.config.declared import policy_of_line, policy_of_spec

    return KubeDeclarations(
        connection,
        policy_of_spec if config.sleep_policies else None,
        policy_of_line if config.sleep_annotations else None,
    )


def connect_kubernetes(config: Config) -> Connection:
    from ebbtide.adapters.kube.connection import connect

    kubeconfig = Path(config.kubeconfig).expanduser() if config.kubeconfig else None
    return connect(kubeconfig, config.context or None, max(1, _limit(config) - CONNECT_SECONDS))


def read_cluster(config: Config) -> ClusterView:
    """The cluster as it is now, without any of the other ports."""
    connection = connect_kubernetes(config)
    try:
        from ebbtide.adapters.kube.cluster import list_view

        return list_view(connection)
    finally:
        connection.close()


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


def open_adopter(config: Config) -> Adopter:
    """Who finds and tags machines that others launched."""
    from ebbtide.adapters.clouds.looking import Ec2Adopter, HetznerAdopter

    client = cloud_client(config)
    return Ec2Adopter(client) if config.adapters.cloud.kind == "aws" else HetznerAdopter(client)


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


def close_ports(opened: ClusterPorts | Ports) -> None:
    """Close every port that can be closed, the store last. If one fails, the others are still closed."""
    with ExitStack() as last_first:
        for name in LAST_TO_CLOSE_FIRST:
            if close := getattr(getattr(opened, name, None), "close", None):
                last_first.callback(close)


def _open_metrics(config: Config, connection: Connection, cluster: KubeCluster) -> MetricsServer | FirstKnown:
    from ebbtide.adapters.kube.usage import MetricsServer
    from ebbtide.adapters.prometheus import FirstKnown

    oldest = config.settings.metric_max_age_seconds
    of_cluster = MetricsServer(connection, lambda: cluster.cpu_milli_of, max_age_seconds=oldest)
    prometheus = open_prometheus(config)
    return of_cluster if prometheus is None else FirstKnown(prometheus, of_cluster)


def open_prometheus(config: Config) -> PrometheusMetrics | None:
    """None where none is configured."""
    from ebbtide.adapters.prometheus import PrometheusMetrics

    source = _prometheus_source(config)
    oldest = config.settings.metric_max_age_seconds
    return None if source is None else PrometheusMetrics(source, max_age_seconds=oldest)


def open_signals(config: Config) -> Signals:
    from ebbtide.adapters.prometheus import NoSignals, PrometheusSignals

    source = _prometheus_source(config)
    return NoSignals() if source is None else PrometheusSignals(source)


def open_players(config: Config) -> Players | None:
    """None where no Prometheus is configured, or nothing is to be asked of it."""
    from ebbtide.adapters.prometheus import PrometheusPlayers

    source = _prometheus_source(config) if config.settings.consolidation.players_query else None
    return None if source is None else PrometheusPlayers(source)


def _prometheus_source(config: Config) -> PrometheusSource | None:
    from ebbtide.adapters.prometheus import PrometheusSource

    keys = config.adapters.metrics
    token_file = Path(keys.token_file).expanduser() if keys.token_file else None
    seconds = min(PROMETHEUS_SECONDS, _limit(config))
    return (
        PrometheusSource(keys.prometheus_url, keys.query, token_file, seconds)
        if keys.prometheus_url
        else None
    )


def _open_inbox(config: Config, clock: Clock) -> Inbox:
    if config.adapters.aws.queue_url:
        from ebbtide.adapters.clouds.notices import SqsInbox

        return SqsInbox(cloud_client(config, "sqs"), config.adapters.aws.queue_url, clock)
    from ebbtide.adapters.clouds.notices import HandedInbox

    return HandedInbox()


def _join(config: Config) -> Join | None:
    from ebbtide.adapters.clouds.joins import Join, JoinKind

    keys = config.adapters.join
    if not (keys.server_url or keys.template):
        return None
    own = keys.model_dump()
    if keys.kind != "k3s" and keys.install_command == INSTALL:
        own["install_command"] = ""  # nobody set it: that of the kind
    return Join(**{**own, "kind": JoinKind(keys.kind)})


def _hetzner_token(config: Config) -> str:
    if found := os.environ.get(HETZNER_TOKEN, "").strip():
        return found
    name = config.adapters.hetzner.token_file
    if not name:
        raise ConfigError(
            "there is no Hetzner token; nothing was touched. "
            "Set HCLOUD_TOKEN, or hetzner.token_file to the file that holds it."
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
            f"{error.name} is not installed; nothing was touched. Run: {how_to_add(extra)}"
        ) from error
