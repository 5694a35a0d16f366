"""What Prometheus knows: the CPU use of the workers, and whether a workload is used."""

from ebbtide.adapters.prometheus.asking import Source
from ebbtide.adapters.prometheus.cpu import CPU_QUERY, FirstKnown, PrometheusMetrics
from ebbtide.adapters.prometheus.signals import NoSignals, PrometheusPlayers, PrometheusSignals

__all__ = [
    "CPU_QUERY",
    "FirstKnown",
    "NoSignals",
    "PrometheusMetrics",
    "PrometheusPlayers",
    "PrometheusSignals",
    "Source",
]
