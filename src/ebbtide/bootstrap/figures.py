"""`/metrics`, `/healthz` and `/readyz` of a process that stays. What cannot be served is said, and the loop
runs without it: an autoscaler that stands still for the sake of its figures would be worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ebbtide.config import Config
from ebbtide.engine.observers import Observers
from ebbtide.engine.outside import Outside

OFF = "off"
Cluster = tuple[Config, Outside]


@contextmanager
def figures_served(clusters: Sequence[Cluster], say: Callable[[str], None]) -> Iterator[list[Outside]]:
    """The same doors, watched; served where the first configuration says."""
    doors = [outside for _, outside in clusters]
    address = clusters[0][0].metrics_addr
    if address == OFF:
        yield doors
        return
    try:
        from ebbtide.adapters.metrics_export.figures import Figures
        from ebbtide.adapters.metrics_export.health import Health
        from ebbtide.adapters.metrics_export.serving import MetricsServer
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("ebbtide"):
            raise
        say("No figures are served: prometheus-client is not installed. Run: pip install 'ebbtide[kube]'")
        yield doors
        return
    figures = Figures()
    watched = [
        replace(outside, observer=Observers(outside.observer, figures.of(config.settings)))
        for config, outside in clusters
    ]
    host, _, port = address.rpartition(":")
    health = Health(figures, max(config.interval_seconds for config, _ in clusters))
    try:
        server = MetricsServer(health, host.strip("[]"), int(port))
    except OSError as error:
        say(
            f"No figures are served: {address} cannot be listened on ({error.strerror or error}). "
            "Set metrics_addr to another address, or to off."
        )
        yield watched
        return
    say(f"Figures: http://{host}:{server.port}/metrics")
    try:
        yield watched
    finally:
        server.close()
