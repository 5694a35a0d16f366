"""Random clusters with all that a scheduler knows: taints, selectors, zones, spread, anti-affinity, budgets,
volumes, DaemonSets, pods that must not move, nodes that may not go."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random

from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import (
    AntiAffinity,
    Pod,
    Requirement,
    Scheduling,
    SelectorOperator,
    Spread,
    Taint,
    TaintEffect,
    Toleration,
)
from ebbtide.model.pool import Pool
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    make_budget,
    make_node,
    make_pod,
    make_pool,
    make_selector,
    make_snapshot,
    make_type,
)

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
BATCH = Taint("batch", TaintEffect.NO_SCHEDULE, "yes")
TYPES = (
    make_type("small", 2000, 4096, "0.0096", max_pods=12),
    make_type("middle", 4000, 8192, "0.0168", max_pods=20),
    make_type("large", 16000, 32768, "0.1056", max_pods=40),
)


def random_settings(chance: Random) -> Settings:
    pools = (
        make_pool(
            "workers",
            types=TYPES,
            zones=("a", "b"),
            min_workers=chance.choice((0, 0, 1)),
            labels=(("disk", "ssd"),),
        ),
        make_pool("batch", types=TYPES[1:], zones=("b",), taints=(BATCH,)),
    )
    rules = ConsolidationSettings(
        enabled=True,
        min_savings_per_hour=Decimal("0.001"),
        max_fill=Decimal(chance.choice(("0.7", "0.7", "1"))),
        replace=chance.random() < 0.7,
        move_cost=Decimal(chance.choice(("0", "0.0005", "0.005"))),
        moves_per_hour=chance.choice((3, 60)),
    )
    return Settings(pools=pools, min_workers=chance.choice((0, 1, 2)), max_workers=30, consolidation=rules)


def random_cluster(chance: Random, settings: Settings) -> tuple[Snapshot, Record]:
    nodes = [_node(chance, settings.pools, number) for number in range(chance.randint(2, 9))]
    pods = [
        replace(
            make_pod(f"agent-{node.name}", chance.choice((50, 100)), 64),
            controller="DaemonSet",
            node_name=node.name,
        )
        for node in nodes
    ]
    for node in nodes:
        if chance.random() < 0.8:
            pods.extend(_pods(chance, node))
    budgets = [
        make_budget(chance.choice((0, 1, 2)), f"budget-{app}", app=app)
        for app in "xyz"
        if chance.random() < 0.3
    ]
    emptied = tuple(Emptied(node.uid, NOW - chance.choice((60, 900, 5000))) for node in nodes)
    snapshot = make_snapshot(nodes, pods, budgets=budgets)
    return snapshot, Record(emptied=emptied)


def _node(chance: Random, pools: tuple[Pool, ...], number: int) -> Node:
    pool = chance.choice((pools[0], pools[0], pools[1]))
    type_, zone = chance.choice(pool.types), chance.choice(pool.zones)
    return make_node(
        f"{zone}{number}",
        pool=pool.name,
        instance_type=type_.name,
        allocatable=type_.allocatable,
        max_pods=type_.max_pods,
        labels=pool.labels,
        taints=pool.taints,
        created_at=NOW - chance.choice((600, 1800, 90_000, 90_000, 90_000)),
        ready=chance.random() < 0.95,
        unschedulable=chance.random() < 0.05,
        system=chance.random() < 0.03,
    )


def _pods(chance: Random, node: Node) -> list[Pod]:
    """Some pods that are on the node, however they got there, as long as they fit its size."""
    found: list[Pod] = []
    cpu, memory = node.allocatable.cpu_milli - 100, node.allocatable.memory_mib - 64
    for number in range(chance.randint(0, 6)):
        size = chance.choice(((100, 128), (250, 512), (500, 2048), (1000, 1024), (1500, 6000), (6000, 9000)))
        if size[0] <= cpu and size[1] <= memory:
            cpu, memory = cpu - size[0], memory - size[1]
            found.append(_pod(chance, node, f"p{number}-{node.name}", size))
    return found


def _pod(chance: Random, node: Node, name: str, size: tuple[int, int]) -> Pod:
    app = chance.choice("wxyz")
    return make_pod(
        name,
        *size,
        node_name=node.name,
        labels=(("app", app),),
        namespace=chance.choice(("default", "default", "other")),
        scheduling=_scheduling(chance, node, app),
        controller="" if chance.random() < 0.03 else "ReplicaSet",
        do_not_disrupt=chance.random() < 0.03,
        local_storage=chance.random() < 0.03,
        terminating=chance.random() < 0.02,
        owner_uid=f"rs-{app}",
    )


def _scheduling(chance: Random, node: Node, app: str) -> Scheduling:
    rules = Scheduling()
    if node.taints or chance.random() < 0.2:
        rules = replace(rules, tolerations=(Toleration("batch", exists=True),))
    drawn = chance.random()
    if drawn < 0.15:
        key = chance.choice((ZONE, HOST, HOST))
        return replace(rules, anti_affinity=(AntiAffinity(key, make_selector(app=app)),))
    if drawn < 0.3:
        spread = Spread(chance.choice((ZONE, HOST)), chance.choice((1, 2)), make_selector(app=app))
        return replace(rules, spread=(spread,))
    if drawn < 0.4:
        return replace(rules, volume_zones=(node.zone,))
    if drawn < 0.5 and node.pool == "workers":
        return replace(rules, node_selector=(("disk", "ssd"),))
    if drawn < 0.6:
        term = (Requirement(ZONE, SelectorOperator.IN, (node.zone,)),)
        return replace(rules, node_affinity=(term,))
    return rules
