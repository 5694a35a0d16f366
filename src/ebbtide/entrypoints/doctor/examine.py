"""What `ebbtide doctor` asks next to the cluster: cloud, store, metrics, queue, prices. Nothing is changed.

Each answers by itself: one that fails keeps no other from being examined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ebbtide.adapters.kube.doctor import Finding
from ebbtide.errors import EbbtideError, LeaseLost
from ebbtide.model.record import CLUSTER_LEASE, Lease
from ebbtide.model.snapshot import ClusterView, Snapshot

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.model.policy import Policy, ServiceRef
    from ebbtide.model.settings import Settings
    from ebbtide.model.snapshot import Instance, Node

NOBODY = Lease(CLUSTER_LEASE, "ebbtide doctor", 0, 0)
"""A lease that no runner can hold: renewing it fails with a refusal if writing is allowed, and is forbidden
otherwise."""


def scales_workloads(config: Config) -> bool:
    """Whether there are policies for workloads, in the configuration or in the store. What is wrong with the
    store is said by `examine_store`."""
    if config.sleep_policies or config.sleep_annotations:
        return True
    if any(policy.target.workloads for policy in config.policies):
        return True
    return any(policy.target.workloads for policy in stored_policies(config))


def gated_services(config: Config) -> dict[str, tuple[ServiceRef, ...]]:
    """The Services of each policy that has a gate, in the configuration or in the store."""
    found = {
        policy.name: policy.gate.services for policy in stored_policies(config) if policy.gate is not None
    }
    written = {keys.name: keys.gate.refs() for keys in config.policies if keys.gate is not None}
    return dict(sorted({**found, **written}.items()))


def stored_policies(config: Config) -> list[Policy]:
    """None where the store cannot be read: `examine_store` says that."""
    from ebbtide import bootstrap
    from ebbtide.bootstrap.scaling import HasPolicies
    from ebbtide.engine.scale_to_zero.policies import Policies

    if _is_not_there_yet(config.store_url):
        return []
    try:
        store = bootstrap.open_store(config)
    except EbbtideError:
        return []
    try:
        assert isinstance(store, HasPolicies)  # every store that can be configured has them
        return list(Policies(store.policies(), bootstrap.SystemClock(), str).all())
    except EbbtideError:
        return []
    finally:
        store.close()


def simulated(config: Config) -> Finding:
    """The finding about cluster, cloud and metrics if they are simulated."""
    where = f" in {config.source}" if config.source else ", since nothing is configured"
    says = f"cluster, cloud and metrics are simulated{where}: there is no access to examine"
    fix = "set cluster.kind to kubernetes for a real cluster"
    return Finding(
        True, says, fix if config.source else "`ebbtide init` writes a configuration for your cluster"
    )


def examine_unfilled(config: Config) -> Iterator[Finding]:
    """What `ebbtide init` could not know."""
    from ebbtide.config.problems import unfilled

    for key in unfilled(config):
        yield Finding(False, f"{key} is still to be filled in: nothing is launched without it", f"set {key}")


def examine_cloud(config: Config, nodes: Sequence[Node]) -> Iterator[Finding]:
    """`nodes` are those of the cluster; none where they could not be read."""
    from ebbtide.bootstrap.kubernetes import open_cloud

    kind = config.adapters.cloud.kind
    try:
        instances = open_cloud(config).list_instances()
    except EbbtideError as error:
        yield refused("the cloud does not answer", error, f"check the access to {kind}")
        return
    yield Finding(True, f"{kind} shows {len(instances)} instances of cluster {config.settings.cluster!r}")
    if nodes and (loose := without_a_node(instances, nodes, config.settings, int(time.time()))):
        yield loose


def without_a_node(
    instances: Sequence[Instance], nodes: Sequence[Node], settings: Settings, now: int
) -> Finding | None:
    """Machines of our name that should have joined by now. They may be workers of another cluster that has
    the same name, which a tick would take for what a crash left behind."""
    from ebbtide.core.words import count_of, names_of

    seen = Snapshot(now, ClusterView(tuple(nodes)), tuple(instances))
    late = [one.id for one in seen.lone if now - one.launched_at >= settings.join_timeout_seconds]
    if not late:
        return None
    says = f"{count_of(len(late), 'instance')} with the tag of cluster {settings.cluster!r} and no node here"
    fix = (
        "if another cluster of this account has the same cluster.name, stop both autoscalers: each would "
        "take the other's workers for what a crash left behind, and terminate them. Give one another "
        "name, change the tag ebbtide.dev/cluster of its machines to it, and start them again"
    )
    return Finding(False, f"{says}: {names_of(late)}", fix)


def refused(what: str, error: EbbtideError, fix: str) -> Finding:
    """An error of a cloud may name the next step itself, which is more exact than ours."""
    return Finding(False, f"{what}: {error.message.rstrip('.')}", error.step or fix)


def examine_store(config: Config) -> Iterator[Finding]:
    from ebbtide import bootstrap
    from ebbtide.config.problems import mask
    from ebbtide.entrypoints.cli.db import check_store

    url = config.store_url
    if _is_not_there_yet(url):
        yield Finding(True, f"the store {mask(url)} is not there yet: the first run makes it")
        return
    try:
        yield Finding(True, check_store(bootstrap.with_tables(config) if _on_dynamodb(url) else url))
        store = bootstrap.open_store(config)
    except EbbtideError as error:
        yield Finding(False, f"the store cannot be used: {error}", _store_fix(url))
        return
    try:
        store.load()
        store.renew(NOBODY, 1)
    except LeaseLost:
        yield Finding(True, "the record can be read and may be written")
    except EbbtideError as error:
        yield Finding(False, f"the record may not be written: {error}", _store_fix(url))
    finally:
        store.close()


def _is_not_there_yet(url: str) -> bool:
    """A file that a first run would make."""
    parts = urlsplit(url)
    return parts.scheme == "sqlite" and not Path(parts.path.removeprefix("/")).exists()


def _on_dynamodb(url: str) -> bool:
    return url.startswith("dynamodb")


def _store_fix(url: str) -> str:
    if _on_dynamodb(url):
        return "run `ebbtide db create`, and allow what deploy/lambda/template.yaml allows on the tables"
    return "run `ebbtide db upgrade`, and check the address, the password and the rights of the user"


def examine_webhooks(config: Config) -> Finding | None:
    """None where none are taken."""
    from ebbtide.config.api import webhook_secrets

    path = config.api.webhook_secrets_file
    if not path:
        return None
    try:
        count = len(webhook_secrets(path))
    except EbbtideError as error:
        return Finding(False, str(error), "correct that line, and start Ebbtide again")
    if not count:
        return Finding(False, f"there is no secret in {path}", "write one into it, as whsec_ and base64")
    return Finding(True, f"webhooks are signed with {count} {'secret' if count == 1 else 'secrets'}")


def examine_metrics(config: Config, workers: Sequence[str]) -> Finding | None:
    """Of Prometheus; None where none is configured: metrics-server has been asked with the cluster."""
    from ebbtide.bootstrap.kubernetes import open_prometheus
    from ebbtide.engine.ports import fresh

    prometheus = open_prometheus(config)
    if prometheus is None:
        return None
    url = config.adapters.metrics.prometheus_url
    try:
        if not workers:
            problem = prometheus.why_not()
            fix = "check metrics.prometheus_url and the token"
            return Finding(not problem, problem or f"Prometheus at {url} answers", fix if problem else "")
        now = int(time.time())
        reading = fresh(prometheus.read_cpu(workers), config.settings, now)
        if reading.value is None:
            fix = "see that Prometheus scrapes node-exporter on every worker, or set metrics.query"
            return Finding(False, reading.problem, fix)
        age = max(0, now - reading.at)
        return Finding(True, f"Prometheus at {url} knows the CPU of all {len(workers)} workers, {age} s old")
    finally:
        prometheus.close()


def examine_queue(config: Config) -> Finding | None:
    """None where no queue is configured. Receiving would hide messages from the daemon, so the queue is only
    asked about itself."""
    url = config.adapters.aws.queue_url
    if not url:
        return None
    from ebbtide.adapters.clouds.notices import count_messages
    from ebbtide.bootstrap.kubernetes import cloud_client

    try:
        count = count_messages(cloud_client(config, "sqs"), url)
    except EbbtideError as error:
        fix = "check aws.queue_url, and allow sqs:GetQueueAttributes, ReceiveMessage and DeleteMessage on it"
        return refused("the queue of spot notices does not answer", error, fix)
    return Finding(True, f"the queue of spot notices answers, {count} messages wait")


def examine_prices(config: Config, today: Callable[[], date] | None = None) -> Iterator[Finding]:
    from ebbtide.config.prices import price_warnings
    from ebbtide.entrypoints.prices import in_short, rows_of

    day = (today or (lambda: datetime.now(UTC).date()))()
    rows = rows_of(config.settings.pools, config.prices)
    unknown = sorted({row.type_name for row in rows if row.price is None})
    fix = "run `ebbtide prices update`, or give the types a price" if unknown else ""
    yield Finding(not unknown, f"prices: {in_short(rows)}", fix)
    for warning in price_warnings(config, day):
        yield Finding(False, warning, "run `ebbtide prices update`")
