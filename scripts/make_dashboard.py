"""Write deploy/grafana/dashboard.json: one panel for each thing an operator asks. `make dashboard` does it.

Made by a program, so every panel has the same look and no name is mistyped; a test checks that the
names it uses are names that Ebbtide exports, and that Prometheus understands every query.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, COLUMNS = 8, 7, 3
C = 'cluster=~"$cluster"'
PANELS: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Nodes by state", "short", "timeseries", ((f"sum by (state) (ebbtide_nodes{{{C}}})", "{{state}}"),)),
    ("Pending pods", "short", "timeseries", ((f"sum(ebbtide_pods_waiting{{{C}}})", "pending"),)),
    ("CPU of the workers", "percentunit", "timeseries", ((f"ebbtide_cpu_ratio{{{C}}}", "{{cluster}}"),)),
    (
        "Cost an hour",
        "short",
        "timeseries",
        ((f"sum by (currency) (ebbtide_cost_per_hour{{{C}}})", "{{currency}}"),),
    ),
    ("Operations in progress", "short", "timeseries", ((f"sum(ebbtide_operations_open{{{C}}})", "open"),)),
    (
        "Operations closed in an hour",
        "short",
        "timeseries",
        (
            (
                f"sum by (kind, result) (increase(ebbtide_operations_closed_total{{{C}}}[1h]))",
                "{{kind}} {{result}}",
            ),
        ),
    ),
    (
        "Why not: actions refused in an hour",
        "short",
        "timeseries",
        (
            (
                f"topk(10, sum by (action, check) (increase(ebbtide_actions_refused_total{{{C}}}[1h])))",
                "{{action}}: {{check}}",
            ),
        ),
    ),
    (
        "Effects in an hour",
        "short",
        "timeseries",
        (
            (
                f"sum by (effect, outcome) (increase(ebbtide_effects_total{{{C}}}[1h]))",
                "{{effect}} {{outcome}}",
            ),
        ),
    ),
    (
        "Churn in a day",
        "short",
        "timeseries",
        (
            (f"sum(increase(ebbtide_nodes_provisioned_total{{{C}}}[1d]))", "provisioned"),
            (f"sum(increase(ebbtide_nodes_decommissioned_total{{{C}}}[1d]))", "decommissioned"),
        ),
    ),
    (
        "Consolidations in a day",
        "short",
        "timeseries",
        ((f"sum by (result) (increase(ebbtide_consolidations_total{{{C}}}[1d]))", "{{result}}"),),
    ),
    (
        "Asleep",
        "short",
        "timeseries",
        ((f"sum(philotes_scaling_is_scaled_to_zero{{{C}}})", "policies at zero"),),
    ),
    (
        "Wake, 95th percentile",
        "s",
        "timeseries",
        (
            (
                f"histogram_quantile(0.95, sum by (le) (rate(ebbtide_wake_seconds_bucket{{{C}}}[1h])))",
                "seconds",
            ),
        ),
    ),
    (
        "Tick, 95th percentile",
        "s",
        "timeseries",
        (
            (
                f"histogram_quantile(0.95, sum by (le) (rate(ebbtide_tick_seconds_bucket{{{C}}}[5m])))",
                "seconds",
            ),
        ),
    ),
    (
        "Seconds since a tick",
        "s",
        "stat",
        ((f"time() - max(ebbtide_last_tick_timestamp_seconds{{{C}}})", "ago"),),
    ),
    (
        "Errors in an hour",
        "short",
        "timeseries",
        ((f"sum by (kind) (increase(ebbtide_errors_total{{{C}}}[1h]))", "{{kind}}"),),
    ),
)


def panel(
    number: int, title: str, unit: str, kind: str, queries: tuple[tuple[str, str], ...]
) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    return {
        "id": number + 1,
        "title": title,
        "type": kind,
        "datasource": source,
        "gridPos": {
            "x": number % COLUMNS * WIDTH,
            "y": number // COLUMNS * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend, "datasource": source}
            for at, (query, legend) in enumerate(queries)
        ],
    }


def dashboard() -> dict[str, Any]:
    return {
        "uid": "ebbtide",
        "title": "Ebbtide",
        "tags": ["ebbtide", "autoscaler"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                {
                    "name": "cluster",
                    "label": "Cluster",
                    "type": "query",
                    "datasource": {"type": "prometheus", "uid": "${source}"},
                    "query": "label_values(ebbtide_nodes, cluster)",
                    "multi": True,
                    "includeAll": True,
                    "refresh": 2,
                },
            ]
        },
        "panels": [panel(number, *each) for number, each in enumerate(PANELS)],
    }


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "deploy/grafana/dashboard.json")
    target.write_text(json.dumps(dashboard(), indent=2) + "\n", encoding="utf-8")
