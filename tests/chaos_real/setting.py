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
    path.write_text(yaml.safe_dump(document))
    return path
