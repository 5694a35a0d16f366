"""A cluster that was packed well and then lost half of its pods, for the consolidation benchmark."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count
from pathlib import Path

from bench.packing_data import catalogues, resampled
from ebbtide.core.packing import NodeType as PackingType
from ebbtide.core.packing import Pod as PackingPod
from ebbtide.core.packing import group, pack
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import Pod, Resources
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, Node, Reading, Snapshot

NOW = 1_700_000_000
DAY_SECONDS = 86_400
ZONE = "zone-a"
_SEED = 20_260
_LOOKS = 400.0
_NO_LIMIT = 100_000


@dataclass(frozen=True)
class Case:
    name: str
    snapshot: Snapshot
    settings: Settings


def halved(folder: Path | None, catalogue: str, pods: int, plan_seconds: float) -> Case:
    """So many pods packed with the types of a catalogue; every second one, by lot, is then gone."""
    rows = catalogues(folder)[catalogue]
    types = [PackingType(*row) for row in rows]
    sizes = resampled(folder, pods, False)
    items = group(PackingPod(str(number), *size) for number, size in enumerate(sizes))
    # By looks at a counter and not by time: the same cluster on every machine.
    full = pack(items, types, deadline=_LOOKS, clock=count().__next__)
    stays = set(random.Random(_SEED).sample(range(pods), pods // 2))
    nodes: list[Node] = []
    placed: list[Pod] = []
    requests = {size: Resources(*size) for size in set(sizes)}
    for number, planned in enumerate(full.nodes):
        name, type_ = f"node-{number}", planned.type
        offer = Resources(type_.cpu_milli, type_.memory_mib)
        nodes.append(_node(name, type_, offer))
        placed.extend(_pod(pod, requests[sizes[int(pod)]], name) for pod in planned.pods if int(pod) in stays)
    instances = tuple(
        Instance(f"i-{node.name}", f"bench://i-{node.name}", pool=node.pool, zone=ZONE, launched_at=0)
        for node in nodes
    )
    view = ClusterView(tuple(nodes), tuple(placed))
    snapshot = Snapshot(NOW, view, instances, Reading(0.3, NOW))
    return Case(catalogue, snapshot, _settings(types, plan_seconds))


def _node(name: str, type_: PackingType, offer: Resources) -> Node:
    return Node(
        name=name,
        uid=f"uid-{name}",
        provider_id=f"bench://i-{name}",
        zone=ZONE,
        pool="bench",
        instance_type=type_.name,
        created_at=NOW - DAY_SECONDS,
        allocatable=offer,
        max_pods=type_.pods,
    )


def _pod(number: str, requests: Resources, node_name: str) -> Pod:
    return Pod(
        namespace="default",
        name=f"pod-{number}",
        uid=f"uid-{number}",
        node_name=node_name,
        created_at=NOW - DAY_SECONDS,
        requests=requests,
        controller="ReplicaSet",
        labels=(("app", f"app-{int(number) % 200}"),),
    )


def _settings(types: list[PackingType], plan_seconds: float) -> Settings:
    """As Karpenter works: nodes may be filled, and any number of pods moved."""
    offered = tuple(
        NodeType(
            t.name,
            Resources(t.cpu_milli, t.memory_mib),
            t.pods,
            Price(Decimal(str(t.price)), "USD", "bench"),
        )
        for t in types
    )
    rules = ConsolidationSettings(
        enabled=True,
        max_fill=Decimal(1),
        moves_per_hour=_NO_LIMIT,
        move_cost=Decimal(0),
        plan_seconds=plan_seconds,
    )
    pool = Pool("bench", offered, (ZONE,))
    return replace(Settings(), pools=(pool,), max_workers=_NO_LIMIT, consolidation=rules)
