"""`/metrics`, `/healthz` and `/readyz` of a process that stays. What cannot be served is said, and the loop
runs without it: an autoscaler that stops because it cannot export metrics would be worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ebbtide.config import Config
from ebbtide.engine.ports import Observers, Ports
from ebbtide.extras import how_to_add

if TYPE_CHECKING:
    from ebbtide.adapters.metrics_export.serving import Health
    from ebbtide.engine.scale_to_zero.scaling import Scaling

OFF = "off"
Cluster = tuple[Config, Ports]


@dataclass(frozen=True, slots=True)
class Watched:
    """The same ports, with metrics of the calls through them. `health` is None if there are none."""

    opened: tuple[Ports, ...]
    health: Health | None = None

    def follow(self, config: Config, scaling: Scaling | None) -> None:
        """Policies have metrics too, once their store is open."""
        if self.health is not None and scaling is not None:
            self.health.metrics.policies.follow(config.settings.cluster, scaling.ports.policies)


def watched(clusters: Sequence[Cluster], say: Callable[[str], None], ticks: bool = True) -> Watched:
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
def metrics_served(clusters: Sequence[Cluster], say: Callable[[str], None]) -> Iterator[Watched]:
    """Watched, and served where the first configuration says."""
    seen = watched(clusters, say)
    address = clusters[0][0].metrics_addr
    if address == OFF or seen.health is None:
        yield seen
        return
    from ebbtide.adapters.metrics_export.serving import MetricsServer

    host, _, port = address.rpartition(":")
    try:
        server = MetricsServer(seen.health, host.strip("[]"), int(port))
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
