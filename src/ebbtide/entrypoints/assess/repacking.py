"""What an assessed cluster would cost if its pods were packed again, and all that keeps a node. Nothing is
touched.

The planner of consolidation is asked, without its waiting times and thresholds, and with the minimum of
workers that holds for the removal of single nodes. Only types that are in the cluster already are launched:
others may not suit it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property

from ebbtide.core.consolidation.evaluate import explore
from ebbtide.core.nodes.drain import Disruptions, Treatment, plan_drain
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.question import Question
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL
from ebbtide.core.packing.pack import installed_packer
from ebbtide.core.prices import PriceBook
from ebbtide.core.words import count_of
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import Pod
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, Market, Node, Snapshot

MOST_REASONS = 3
MOST_PENDING = 200


class Blockers:
    def __init__(self, view: ClusterView, settings: Settings, removable: Collection[str]) -> None:
        self._view = view
        self._settings = settings
        self._removable = set(removable)
        self._disruptions = Disruptions(view.budgets, spends=False)

    def of(self, node: Node) -> tuple[str, ...]:
        """Every pod on it that may not be evicted now, with the rule or the budget, and every pod that no
        other node takes; none where its pods do not keep it."""
        if node.control_plane or node.system or not node.ready:
            return ()
        pods = self._view.pods_on.get(node.name, ())
        plan = plan_drain(node, pods, self._disruptions, self._settings, {})
        held = [each for treatment in (Treatment.BLOCK, Treatment.WAIT) for each in plan.treated(treatment)]
        return (*(each.says for each in held), *self._without_a_place(node))

    def _without_a_place(self, node: Node) -> list[str]:
        placement = self._left
        room = placement.close(node.name)
        try:
            movable = [pod for pod in self._view.pods_on.get(node.name, ()) if not pod.tied_to_node]
            return [
                f"{pod.full_name} would fit on no other node"
                for pod in movable
                if placement.first_fit(pod) is None
            ]
        finally:
            if room is not None:
                placement.open(room)

    @cached_property
    def _left(self) -> Placement:
        """The nodes that stay, with their pods and those of the nodes that go."""
        return self._moved[0]

    @property
    def goes_to(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return self._moved[1]

    @cached_property
    def _moved(self) -> tuple[Placement, dict[str, tuple[tuple[str, str], ...]]]:
        """To workers where they have room: nobody wants the control plane full, even if it takes pods."""
        last = {node.name for node in self._view.nodes if not node.worker}
        placement, moved, left_over = self._moved_to(last)
        if left_over:
            placement, moved, _ = self._moved_to(set())
        return placement, moved

    def _moved_to(
        self, last: Collection[str]
    ) -> tuple[Placement, dict[str, tuple[tuple[str, str], ...]], list[Pod]]:
        placement = placement_of(self._view, self._removable)
        rooms = sorted(placement.rooms.values(), key=lambda room: room.name in last)
        moved: dict[str, tuple[tuple[str, str], ...]] = {}
        left_over = []
        for name in sorted(self._removable):
            for pod in self._view.pods_on.get(name, ()):
                room = None if pod.tied_to_node else placement.first_fit(pod, rooms)
                if room is not None:
                    placement.place(pod, room)
                    moved[name] = (*moved.get(name, ()), (pod.full_name, room.name))
                elif not pod.tied_to_node:
                    left_over.append(pod)
        return placement, moved, left_over

    def pending(self) -> tuple[tuple[str, str], ...]:
        placement = placement_of(self._view)
        found = []
        for pod in self._view.waiting_pods[:MOST_PENDING]:
            against = Counter(placement.why_not(pod, room) for room in placement.rooms.values())
            fits = against.pop(None, 0)
            told = "; ".join(
                f"{why.says} ({count_of(nodes, 'node')})"
                for why, nodes in against.most_common(MOST_REASONS)
                if why is not None
            )
            says = f"{count_of(fits, 'node')} with room for it; the scheduler places it" if fits else told
            found.append((pod.full_name, says or "no node takes pods now"))
        return tuple(found)


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
