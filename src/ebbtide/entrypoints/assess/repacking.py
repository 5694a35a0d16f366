"""What an assessed cluster would cost if its pods were packed again, and what it must cost at the least.

The planner of consolidation is asked, without its waiting times and thresholds, and with the minimum of
workers that holds for the removal of single nodes. Only types that are in the cluster already are launched:
others may not suit it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.consolidation.evaluate import explore
from ebbtide.core.nodes.question import Question
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL
from ebbtide.core.packing.pack import installed_packer
from ebbtide.core.prices import PriceBook
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.node import Instance, Market, Node
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

MOST = 1_000_000
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class RepackedCluster:
    currency: str
    cost: Decimal
    """Of the nodes that a plan can touch, as they are."""
    cost_after: Decimal
    bound: Decimal
    moves: int
    removed: int
    launched: int

    @property
    def savings(self) -> Decimal:
        return self.cost - self.cost_after


def repacked(
    view: ClusterView, prices: PriceBook, now: int, clock: Callable[[], float]
) -> RepackedCluster | None:
    """None where nothing cheaper was found. Every worker of the view has a pool."""
    workers = tuple(
        replace(node, provider_id=f"assessed://{node.name}", uid=node.name) if node.worker else node
        for node in view.nodes
    )
    instances = tuple(instance_of(node) for node in workers if node.worker)
    snapshot = Snapshot(now, replace(view, nodes=workers), instances)
    pods_on = view.pods_on
    empty = [n for n in workers if n.worker and all(p.tied_to_node for p in pods_on.get(n.name, ()))]
    record = Record(emptied=tuple(Emptied(node.uid, 1) for node in empty))
    report = explore(Question(snapshot, record, settings_of(workers, prices), now, "assessed"), {}, clock)
    plan = report.candidate
    if plan is None:
        return None
    removed = len(plan.empties) + len(plan.sources)
    return RepackedCluster(
        plan.currency,
        plan.cost_before,
        plan.cost_after,
        plan.bound,
        len(plan.moves),
        removed,
        len(plan.slots),
    )


def instance_of(node: Node) -> Instance:
    return Instance(node.name, f"assessed://{node.name}", pool=node.pool, zone=node.zone, market=node.market)


def settings_of(nodes: tuple[Node, ...], prices: PriceBook) -> Settings:
    names = sorted({node.pool for node in nodes if node.worker})
    rules = ConsolidationSettings(
        enabled=True,
        min_uptime_seconds=0,
        min_idle_seconds=0,
        min_savings_per_hour=NOTHING,
        move_cost=NOTHING,
        moves_per_hour=MOST,
    )
    pools = tuple(_pool(name, [n for n in nodes if n.worker and n.pool == name], prices) for name in names)
    return Settings(pools=pools, max_workers=MOST, consolidation=rules, packer=installed_packer())


def _pool(name: str, nodes: list[Node], prices: PriceBook) -> Pool:
    """Of the types in it; what such a node offers is what the least of them does."""
    least: dict[str, Node] = {}
    for node in nodes:
        known = least.setdefault(node.instance_type, node)
        if node.allocatable.memory_mib < known.allocatable.memory_mib:
            least[node.instance_type] = node
    types = tuple(
        NodeType(
            type_name,
            node.allocatable,
            node.max_pods,
            prices.price(type_name, Market.ON_DEMAND),
            prices.price(type_name, Market.SPOT),
        )
        for type_name, node in sorted(least.items())
    )
    shared = {pair for pair in nodes[0].labels if pair[0] not in (HOSTNAME_LABEL, ZONE_LABEL)}
    shared = shared.intersection(*(node.labels for node in nodes))
    zones = tuple(sorted({node.zone for node in nodes}))
    taints = nodes[0].taints if all(node.taints == nodes[0].taints for node in nodes) else ()
    on_spot = all(node.market is Market.SPOT for node in nodes)
    market = Market.SPOT if on_spot else Market.ON_DEMAND
    return Pool(name, types, zones, market, labels=tuple(sorted(shared)), taints=taints)
