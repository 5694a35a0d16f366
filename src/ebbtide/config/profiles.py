"""Profiles: named sets of values under which every key can still be set by itself.

`classic` is exactly the documents. `balanced` and `eager` are for clusters of any size: batches and budgets
are shares of the cluster, nodes are judged one by one, and consolidation is on. `docs/profiles.md` says
where each stands between waiting, cost and evictions, with the command that measured it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASSIC = "classic"

_BALANCED: Mapping[str, Any] = {
    "interval_sec": 15,
    "pending_up_sec": 5,
    "cooldown_up_sec": 0,
    "batch_up_fraction": 1.0,
    "late_join_sec": 180,
    "settled_sec": 5400,
    "scale_down_by": "node",
    "idle_down_sec": 300,
    "cooldown_down_sec": 60,
    "batch_down_fraction": 0.15,
    "budget_fraction": 0.30,
    "repair": True,
    "replace_drifted": True,
    "consolidation": {
        "enabled": True,
        "cooldown_sec": 300,
        "min_uptime_sec": 600,
        "min_idle_sec": 60,
        "min_savings_per_hour": 0.0,
        "min_savings_fraction": 0.01,
        "max_fill": 0.95,
        "move_cost": 0.0005,
        "moves_fraction": 2.0,
        "at_once_fraction": 0.05,
    },
}
_EAGER: Mapping[str, Any] = {
    "interval_sec": 15,
    "pending_up_sec": 0,
    "cooldown_up_sec": 0,
    "batch_up_fraction": 1.0,
    "late_join_sec": 90,
    "settled_sec": 5400,
    "scale_down_by": "node",
    "idle_down_sec": 30,
    "cooldown_down_sec": 0,
    "batch_down_fraction": 0.25,
    "budget_fraction": 0.50,
    "repair": True,
    "replace_drifted": True,
    "consolidation": {
        "enabled": True,
        "cooldown_sec": 120,
        "min_uptime_sec": 300,
        "min_idle_sec": 30,
        "min_savings_per_hour": 0.0,
        "min_savings_fraction": 0.005,
        "max_fill": 1.0,
        "move_cost": 0.0,
        "moves_fraction": 4.0,
        "at_once_fraction": 0.10,
    },
}
PROFILES: Mapping[str, Mapping[str, Any]] = {CLASSIC: {}, "balanced": _BALANCED, "eager": _EAGER}


def with_profile(values: Mapping[str, Any]) -> tuple[dict[str, Any], frozenset[tuple[str, ...]]]:
    """The values over those of their profile, and the keys that come from it. A profile that does not exist
    changes nothing: the schema refuses it."""
    named = values.get("profile", CLASSIC)
    chosen = PROFILES.get(named, {}) if isinstance(named, str) else {}
    filled = dict(values)
    taken: set[tuple[str, ...]] = set()
    for key, value in chosen.items():
        if not isinstance(value, Mapping):
            if key not in filled:
                filled[key] = value
                taken.add((key,))
            continue
        section = filled.get(key, {})
        if isinstance(section, Mapping):
            missing = {name: each for name, each in value.items() if name not in section}
            filled[key] = {**missing, **section}
            taken |= {(key, name) for name in missing}
    return filled, frozenset(taken)
