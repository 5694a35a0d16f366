"""What Prometheus knows: the CPU use of the workers, and whether a workload is used."""

from ebbtide.adapters.prometheus.asking import PrometheusSource
from ebbtide.adapters.prometheus.usage import (
    CPU_QUERY,
    FirstKnown,
    NoSignals,
    PrometheusMetrics,
    PrometheusPlayers,
    PrometheusSignals,
)

__all__ = [
    "CPU_QUERY",
    "FirstKnown",
    "NoSignals",
    "PrometheusMetrics",
    "PrometheusPlayers",
    "PrometheusSignals",
    "PrometheusSource",
]
