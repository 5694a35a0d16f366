"""What of a configuration goes into a recording: what decides about scaling, and no address, no secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ebbtide.config import Config
from ebbtide.core.prices import CATALOGUE
from ebbtide.model.pool import NodeType

LEFT_OUT = frozenset(
    {
        "cloud", "join", "aws", "hetzner", "metrics", "cluster", "store", "state_table", "logs_table", "api",
        "gate", "prices", "log_format", "log_retention_days", "metrics_addr", "scale_to_zero", "policies",
    }
)  # fmt: skip
"""Sections about how Ebbtide reaches the outside, and about workloads that sleep: what is recorded is how
many replicas there were, those at zero among them."""


def settings_of(written: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The keys as they are written, with the prices of the pools, which may stand in another file."""
    kept = {key: value for key, value in written.items() if key not in LEFT_OUT}
    if "pools" in kept:
        kept["pools"] = [_pool(pool, config) for pool in kept["pools"]]
    return kept


def _pool(written: Mapping[str, Any], config: Config) -> dict[str, Any]:
    known = config.settings.pool_named(str(written.get("name", "")))
    types = [_type(one, known.type_named(_name(one)) if known else None) for one in written.get("types", ())]
    return {**written, "types": types}


def _name(written: Any) -> str:
    return str(written["name"] if isinstance(written, Mapping) else written)


def _type(written: Any, known: NodeType | None) -> Any:
    if known is None or known == CATALOGUE.get(known.name):
        return written
    keys: dict[str, Any] = {
        "name": known.name,
        "cpu": f"{known.allocatable.cpu_milli}m",
        "memory": f"{known.allocatable.memory_mib}Mi",
        "pods": known.max_pods,
    }
    for name, price in (("price", known.price), ("spot_price", known.spot_price)):
        if price is not None:
            keys |= {name: str(price.per_hour), "currency": price.currency}
    return keys
