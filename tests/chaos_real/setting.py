"""The cluster of this run: small, hasty and always in motion, so there is much to interrupt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.servers.moto import REGION

MIN_WORKERS, MAX_WORKERS = 3, 9
ZONES = (f"{REGION}a", f"{REGION}b")
QUERY = "avg(cluster_cpu_use)"
CPU_CALM, CPU_BUSY = 0.1, 0.65
TYPE = {"name": "m7i.large", "cpu": "2", "memory": "8Gi", "price": 0.1, "spot_price": 0.04}
INTERVAL_SECONDS = 0.8

PLAIN = "plain.yaml"
"""The configuration of the other version."""
KEYS: dict[str, Any] = {
    "min_workers": MIN_WORKERS,
    "max_workers": MAX_WORKERS,
    "max_batch_up": 3,
    "max_batch_down": 2,
    "budget_fraction": 0.34,
    "pending_up_sec": 1,
    "idle_down_sec": 2,
    "cpu_down": 0.5,
    "cpu_up": 0.9,
    "cooldown_up_sec": 1,
    "cooldown_down_sec": 1,
    "lock_ttl_sec": 6,
    "spot_lock_ttl_sec": 6,
    "daemon_lock_ttl_sec": 6,
    "lease_margin_sec": 1,
    "request_timeout_sec": 14,
    "join_timeout_sec": 60,
    "launch_timeout_sec": 60,
    "drain_timeout_sec": 30,
    "drain_retry_sec": 1,
    "settle_sec": 5,
    "stuck_sec": 90,
    "gone_grace_sec": 3,
    "orphan_grace_sec": 30,
    "node_rest_sec": 5,
    "backoff_sec": 1,
    "backoff_max_sec": 3,
    "shrink_accepted_sec": 5,
    "metric_max_age_sec": 60,
    "interval_sec": 1,
    "metrics_addr": "off",
}


SLEEPER = "reports"
REQUESTS = "reports_requests"
GATES, GATE_ADDRESS = "ebbtide/ebbtide-gate", "192.0.2.251"
EVERYTHING: dict[str, Any] = {
    "repair": True,
    "repair_after_sec": 60,
    "consolidation": {
        "enabled": True,
        "cooldown_sec": 10,
        "backoff_max_sec": 0,
        "min_uptime_sec": 5,
        "min_idle_sec": 2,
        "min_savings_per_hour": 0.001,
        "move_cost": 0.0001,
        "move_timeout_sec": 20,
        "moves_per_hour": 100_000,
    },
    "scale_to_zero": {
        "idle_threshold": "5s",
        "keep_alive": "1s",
        "check_interval": "1s",
        "max_keep_alive": "5s",
    },
    "gate": {"service": GATES, "namespaces": ["default"], "ports": "20000-20015"},
    "policies": [
        {
            "name": SLEEPER,
            "target": {"workloads": [{"kind": "Deployment", "namespace": "default", "name": SLEEPER}]},
            "scale_to_zero": True,
            "grace_seconds": 0,
            "signals": [{"kind": "promql_rate", "query": f"sum({REQUESTS})"}],
            "gate": {"services": [{"namespace": "default", "name": SLEEPER}]},
        }
    ],
}
"""All that is off by default. An earlier version may not know it, so it runs without."""


def write_config(folder: Path, cluster: str, kubeconfig: Path, **places: str) -> Path:
    """`ebbtide.yaml`, with every address that of the network in between."""
    document = {
        **KEYS,
        "cluster": {"name": cluster, "kind": "kubernetes", "kubeconfig": str(kubeconfig)},
        "store": {"url": places["store"]},
        "cloud": {"kind": "aws"},
        "aws": {
            "region": REGION,
            "endpoint": places["cloud"],
            "image": places["image"],
            "queue_url": places["queue"],
        },
        "metrics": {"prometheus_url": places["metrics"], "query": QUERY},
        "pools": [
            {"name": "general", "types": [TYPE], "zones": list(ZONES)},
            {"name": "spot", "types": [TYPE], "zones": list(ZONES), "market": "spot", "max": 5},
        ],
    }
    path = folder / "ebbtide.yaml"
    path.write_text(yaml.safe_dump({**document, **EVERYTHING}))
    path.with_name(PLAIN).write_text(yaml.safe_dump(document))
    return path
