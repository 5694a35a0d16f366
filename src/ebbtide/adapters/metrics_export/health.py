"""Whether this process is alive (it ticks) and ready (its last tick reached the store and the cluster)."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from ebbtide.adapters.metrics_export.metrics import ClusterMetrics, MetricsRegistry
from ebbtide.core.words import a_while

SLACK_SECONDS = 300.0
"""Beyond three intervals: a tick may last as long as its slowest calls together."""
MISSED_TICKS = 3


@dataclass(frozen=True, slots=True)
class Health:
    metrics: MetricsRegistry
    interval_seconds: float
    """The longest of all clusters."""

    @property
    def registry(self) -> CollectorRegistry:
        return self.metrics.registry

    @property
    def limit_seconds(self) -> float:
        """A replica of a fleet reaches for a cluster less often the more it holds."""
        return MISSED_TICKS * self.interval_seconds * max(1, len(self.metrics.clusters)) + SLACK_SECONDS

    def why_dead(self) -> str:
        """Empty where every loop ticks."""
        now = self.metrics.now()
        for name, cluster in self.metrics.clusters.items():
            silent = now - max(cluster.ticked_at, cluster.started_at)
            if silent > self.limit_seconds:
                limit = a_while(int(self.limit_seconds))
                return f"{name}: no tick for {a_while(int(silent))}, the limit is {limit}"
        return ""

    def why_not_ready(self) -> str:
        for name, cluster in self.metrics.clusters.items():
            if why := _why_not_ready(cluster):
                return f"{name}: {why}"
        return ""


def _why_not_ready(cluster: ClusterMetrics) -> str:
    """Kinds, not sentences: who may ask need not know what stands in our log."""
    if not cluster.ticked_at:
        return "no tick has ended yet"
    if cluster.error:
        return f"the last tick failed ({cluster.error}); the log says why"
    return "" if cluster.sees_cluster else "the cluster could not be read at the last tick; the log says why"
