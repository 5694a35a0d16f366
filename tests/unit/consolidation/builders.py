"""Clusters of the policy's own types: a pool of cpx nodes in one zone, consolidation on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.model.check import NodeCause
from ebbtide.model.consolidation import ConsolidationReport, ConsolidationSettings
from ebbtide.model.pod import Pod
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    CheckValues,
    make_node,
    make_pod,
    make_pool,
    make_settings,
    make_snapshot,
    make_type,
    values_of,
)

PRICES = {
    "cpx22": ("0.0096", 2000, 4096),
    "cpx32": ("0.0168", 4000, 8192),
    "cpx42": ("0.0312", 8000, 16384),
    "cpx52": ("0.0624", 12000, 24576),
    "cpx62": ("0.1056", 16000, 32768),
}
TYPES = tuple(make_type(name, cpu, memory, price) for name, (price, cpu, memory) in PRICES.items())
HOUR = 3600


def rules(**overrides: Any) -> ConsolidationSettings:
    return ConsolidationSettings(**{"enabled": True, **overrides})


def settings_with(consolidation: ConsolidationSettings | None = None, **overrides: Any) -> Settings:
    pool = make_pool(types=TYPES, zones=("a",))
    given = {"pools": (pool,), "min_workers": 1, "consolidation": consolidation or rules(), **overrides}
    return make_settings(**given)


def cheap(**overrides: Any) -> ConsolidationSettings:
    """Any saving will do, and moves cost next to nothing."""
    given = {"min_savings_per_hour": Decimal("0.0001"), "move_cost": Decimal("0.00001"), **overrides}
    return rules(**given)


def node(name: str, type_name: str = "cpx32", **overrides: Any) -> Node:
    _, cpu, memory = PRICES[type_name]
    offer = make_type(type_name, cpu, memory).allocatable
    return make_node(name, **{"instance_type": type_name, "allocatable": offer, **overrides})


def pod(name: str, on: Node, cpu_milli: int = 500, memory_mib: int = 1024, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, memory_mib, **{"node_name": on.name, "owner_uid": "rs", **overrides})


def cluster(nodes: Iterable[Node], pods: Iterable[Pod] = (), **overrides: Any) -> Snapshot:
    """With the DaemonSet pod that every node carries."""
    nodes = tuple(nodes)
    agents = [replace(pod(f"agent-{n.name}", n, 10, 16), controller="DaemonSet") for n in nodes]
    return make_snapshot(nodes, [*agents, *pods], **overrides)


def idle(*nodes: Node, seconds: int = HOUR, **overrides: Any) -> Record:
    return Record(emptied=tuple(Emptied(n.uid, NOW - seconds) for n in nodes), **overrides)


def report_on(
    snapshot: Snapshot, record: Record | None = None, settings: Settings | None = None, **players: int
) -> ConsolidationReport:
    known = {f"default/{name}": count for name, count in players.items()}
    return evaluate(snapshot, record or Record(), settings or settings_with(), NOW, "op", known)


def removed(report: ConsolidationReport) -> list[str]:
    assert report.plan is not None, report.failed
    return sorted(removal.node_name for removal in (*report.plan.empties, *report.plan.sources))


def fate(report: ConsolidationReport, name: str) -> NodeCause:
    return next(each.cause for each in report.nodes if each.node_name == name)


def fate_in_words(report: ConsolidationReport, name: str) -> str:
    return next(each.why for each in report.nodes if each.node_name == name)


def refusal(report: ConsolidationReport) -> CheckValues:
    """Of the check that failed."""
    assert report.plan is None
    return values_of(report.failed)
