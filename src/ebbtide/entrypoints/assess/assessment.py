"""What a cluster costs, what of it is asked for, and what could be removed, with every reason against.

Only the core decides: the same choice of targets as in a scale-down, on a cluster in which every node
that is no control plane counts as a worker. Nothing is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.prices.book import PriceBook
from ebbtide.entrypoints.assess.repacking import Repacked, repacked
from ebbtide.model.money import Price
from ebbtide.model.node import Instance, Node
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

POOL = "(no pool)"
HOURS_PER_MONTH = 730
MOST_LOOKED_AT = 300
MOST_REMOVED = 30
"""Enough to see what can be saved; a large cluster is not worked through to the last node."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    name: str
    type: str
    market: str
    zone: str
    cpu_share: float
    """Asked for by pods, of what the node offers."""
    memory_share: float
    pods: int
    price: Price | None
    removable: bool
    reason: str
    """Why it is kept; empty where it could be removed."""

    @property
    def wasted(self) -> Decimal | None:
        """What is paid an hour for the part that nobody asks for: of CPU or memory, the scarcer counts."""
        if self.price is None:
            return None
        used = min(max(self.cpu_share, self.memory_share), 1.0)
        return self.price.per_hour * (1 - Decimal(str(round(used, 4))))


@dataclass(frozen=True, slots=True)
class Assessment:
    nodes: tuple[NodeFigures, ...]
    pods: int
    waiting_pods: int
    notes: tuple[str, ...]
    repacked: Repacked | None = None
    """What packing all pods again would come to; none where nothing cheaper was found."""

    @property
    def unpriced(self) -> tuple[str, ...]:
        return tuple(sorted({node.type or "no type" for node in self.nodes if node.price is None}))

    def cost(self) -> dict[str, Decimal]:
        return _sum((n.price, n.price.per_hour) for n in self.nodes if n.price)

    def waste(self) -> dict[str, Decimal]:
        return _sum((n.price, n.wasted or Decimal(0)) for n in self.nodes if n.price)

    def saving(self) -> dict[str, Decimal]:
        return _sum((n.price, n.price.per_hour) for n in self.nodes if n.price and n.removable)


def _sum(amounts: Iterable[tuple[Price, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for price, amount in amounts:
        total[price.currency] = total.get(price.currency, Decimal(0)) + amount
    return total


def assess(
    view: ClusterView,
    prices: PriceBook,
    now: int,
    notes: tuple[str, ...] = (),
    clock: Callable[[], float] = time.perf_counter,
) -> Assessment:
    view = replace(view, nodes=tuple(replace(n, pool=n.pool or POOL) for n in view.nodes))
    settings = _settings(view)
    looked_at = _emptiest(view)
    removable, reasons, more = _choose(view, looked_at, settings, now)
    figures = tuple(
        _figures(node, view, prices, node.name in removable, _why_kept(node, looked_at, reasons, settings))
        for node in view.nodes
    )
    pods, waiting = sum(map(len, view.pods_on.values())), len(view.waiting_pods)
    return Assessment(figures, pods, waiting, (*notes, *more), repacked(view, prices, now, clock))


def _settings(view: ClusterView) -> Settings:
    pools = {node.pool for node in view.workers}
    return Settings(pools=tuple(Pool(name, (), ()) for name in sorted(pools)))


def _emptiest(view: ClusterView) -> frozenset[str]:
    def used(node: Node) -> float:
        return max(_shares(node, view.pods_on.get(node.name, ())))

    return frozenset(node.name for node in sorted(view.workers, key=used)[:MOST_LOOKED_AT])


def _choose(
    view: ClusterView, looked_at: frozenset[str], settings: Settings, now: int
) -> tuple[frozenset[str], dict[str, str], tuple[str, ...]]:
    others = {node.name for node in view.workers} - looked_at
    nodes = tuple(replace(n, pool="") if n.name in others else n for n in view.nodes)
    instances = tuple(_instance(node) for node in nodes if node.worker)
    matched = tuple(replace(n, provider_id=f"assessed://{n.name}") if n.worker else n for n in nodes)
    snapshot = Snapshot(now, replace(view, nodes=matched), instances)
    ready = sum(1 for node in view.workers if node.ready)
    limit = min(max(ready - settings.min_workers, 0), MOST_REMOVED)
    removals, refusals = choose_targets(snapshot, Record(), settings, now, limit)
    notes = []
    if others:
        notes.append(f"only the {len(looked_at)} emptiest of {len(view.workers)} workers were looked at")
    if len(removals) == MOST_REMOVED:
        notes.append(f"only the first {MOST_REMOVED} removable nodes were worked out; there may be more")
    reasons = {refusal.node_name: refusal.reason for refusal in refusals}
    return frozenset(r.node_name for r in removals), reasons, tuple(notes)


def _instance(node: Node) -> Instance:
    return Instance(node.name, f"assessed://{node.name}", pool=node.pool, zone=node.zone, market=node.market)


def _why_kept(node: Node, looked_at: frozenset[str], reasons: Mapping[str, str], settings: Settings) -> str:
    if node.control_plane:
        return "it is a node of the control plane"
    if node.system:
        return "it is marked as a system node"
    if not node.ready:
        return "it is not ready, so nothing is known about its pods"
    if node.name in reasons:
        return reasons[node.name]
    if node.name not in looked_at:
        return "it was not looked at: emptier nodes come first"
    return f"{settings.min_workers} workers are always kept, and others go first"


def _figures(node: Node, view: ClusterView, prices: PriceBook, removable: bool, reason: str) -> NodeFigures:
    pods = view.pods_on.get(node.name, ())
    cpu, memory = _shares(node, pods)
    return NodeFigures(
        name=node.name,
        type=node.instance_type,
        market=node.market.value,
        zone=node.zone,
        cpu_share=cpu,
        memory_share=memory,
        pods=len(pods),
        price=prices.price(node.instance_type, node.market),
        removable=removable,
        reason="" if removable else reason,
    )


def _shares(node: Node, pods: Iterable[Pod]) -> tuple[float, float]:
    pods = tuple(pods)
    cpu = sum(pod.requests.cpu_milli for pod in pods)
    memory = sum(pod.requests.memory_mib for pod in pods)
    return cpu / max(node.allocatable.cpu_milli, 1), memory / max(node.allocatable.memory_mib, 1)
