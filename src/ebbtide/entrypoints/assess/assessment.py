"""What a cluster costs, how much of it is requested, and what could be removed, with every reason against it.

Only the core decides: the same choice of targets as in a scale-down, on a cluster in which every node
that is no control plane counts as a worker. Nothing is touched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess.pricing import NodePrice, estimated_book, price_node
from ebbtide.entrypoints.assess.repacking import Blockers, RepackedCluster, repacked
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, Node, Snapshot

POOL = "(no pool)"
HOURS_PER_MONTH = 730
MOST_LOOKED_AT = 300
MOST_REMOVED = 30
"""Enough to see what can be saved; a large cluster is not worked through to the last node."""


@dataclass(frozen=True, slots=True)
class Used:
    """What a node really uses, as metrics-server measured it."""

    cpu_milli: int
    memory_mib: int


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
    price: NodePrice | None
    removable: bool
    reason: str
    """Why it is kept; empty where it could be removed."""
    blockers: tuple[str, ...] = ()
    """All that keeps it: every pod that may not be evicted, every budget, every pod without another place."""
    goes_to: tuple[tuple[str, str], ...] = ()
    """Where its pods would go, as pod and node; of a node that could be removed."""
    cpu_used: float | None = None
    """Really used, of what the node offers; None where nobody measured it."""
    memory_used: float | None = None

    @property
    def idle_share(self) -> Decimal:
        """What nobody asks for: of CPU or memory, the scarcer counts."""
        return _idle(self.cpu_share, self.memory_share)

    @property
    def unused_share(self) -> Decimal | None:
        """What nothing uses, where that was measured."""
        if self.cpu_used is None or self.memory_used is None:
            return None
        return _idle(self.cpu_used, self.memory_used)

    @property
    def wasted(self) -> Decimal | None:
        """What is paid an hour for the part that nobody asks for, where the price is known."""
        return None if self.price is None or not self.price.exact else self.price.low * self.idle_share


def _idle(cpu: float, memory: float) -> Decimal:
    return 1 - Decimal(str(round(min(max(cpu, memory), 1.0), 4)))


@dataclass(frozen=True, slots=True)
class Amount:
    """Money an hour, from and to."""

    low: Decimal
    high: Decimal

    @property
    def exact(self) -> bool:
        return self.low == self.high


Amounts = dict[str, Amount]
"""By currency: money of two currencies is never added up."""


@dataclass(frozen=True, slots=True)
class Assessment:
    nodes: tuple[NodeFigures, ...]
    pods: int
    waiting_pods: int
    notes: tuple[str, ...]
    repacked: RepackedCluster | None = None
    """What packing all pods again would come to; none where nothing cheaper was found."""
    pending: tuple[tuple[str, str], ...] = ()
    """Pods that are pending, each with why no node takes it."""
    requested: tuple[float, float] = (0.0, 0.0)
    """Of the CPU and of the memory of all nodes together, what pods ask for."""

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Types without an exact price."""
        found = {node.type or "no type" for node in self.nodes if node.price is None or not node.price.exact}
        return tuple(sorted(found))

    @property
    def without_any_price(self) -> tuple[str, ...]:
        return tuple(node.name for node in self.nodes if node.price is None)

    def cost(self) -> Amounts:
        return _sum((node, Decimal(1)) for node in self.nodes)

    def waste(self) -> Amounts:
        return _sum((node, node.idle_share) for node in self.nodes)

    def unused(self) -> Amounts:
        """Of the nodes that were measured."""
        measured = ((node, node.unused_share) for node in self.nodes)
        return _sum((node, share) for node, share in measured if share is not None)

    def saving(self) -> Amounts:
        return _sum((node, Decimal(1)) for node in self.nodes if node.removable)


def _sum(shares: Iterable[tuple[NodeFigures, Decimal]]) -> Amounts:
    total: Amounts = {}
    for node, share in shares:
        if node.price is not None:
            known = total.get(node.price.currency, Amount(Decimal(0), Decimal(0)))
            low, high = node.price.low * share, node.price.high * share
            total[node.price.currency] = Amount(known.low + low, known.high + high)
    return total


def exact_only(result: Assessment, of: Callable[[Assessment], Amounts]) -> dict[str, Decimal]:
    """The same sum over the nodes whose price is known exactly."""
    known = tuple(node for node in result.nodes if node.price is not None and node.price.exact)
    return {currency: amount.low for currency, amount in of(replace(result, nodes=known)).items()}


def assess(
    view: ClusterView,
    prices: PriceBook,
    now: int,
    notes: tuple[str, ...] = (),
    clock: Callable[[], float] = time.perf_counter,
    used: Mapping[str, Used] | None = None,
) -> Assessment:
    view = replace(view, nodes=tuple(replace(n, pool=n.pool or POOL) for n in view.nodes))
    settings = _settings(view)
    looked_at = _emptiest(view)
    removable, reasons, more = _choose(view, looked_at, settings, now)
    judged = Blockers(view, settings, removable)
    minimum = f"{settings.min_workers} workers are always kept{', and others go first' if removable else ''}"
    findings = []
    for node in view.nodes:
        found = _figures(node, view, prices, used or {})
        if node.name in removable:
            found = replace(found, removable=True, goes_to=judged.goes_to.get(node.name, ()))
        else:
            why = _why_kept(node, looked_at, reasons) or minimum
            others = tuple(each for each in judged.of(node) if each != why)
            found = replace(found, reason=why, blockers=(why, *others))
        findings.append(found)
    pods, waiting = sum(map(len, view.pods_on.values())), view.waiting_pods
    again = repacked(view, estimated_book(view.workers, prices), now, clock)
    notes, pending = (*notes, *more), judged.pending()
    return Assessment(tuple(findings), pods, len(waiting), notes, again, pending, _requested(view))


def _requested(view: ClusterView) -> tuple[float, float]:
    rooms = [node.allocatable for node in view.nodes]
    asked = [pod.requests for pods in view.pods_on.values() for pod in pods]
    cpu = sum(each.cpu_milli for each in asked) / max(sum(each.cpu_milli for each in rooms), 1)
    memory = sum(each.memory_mib for each in asked) / max(sum(each.memory_mib for each in rooms), 1)
    return cpu, memory


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


def _why_kept(node: Node, looked_at: frozenset[str], reasons: Mapping[str, str]) -> str | None:
    """None where nothing keeps it but the number of workers that are kept."""
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
    return None


def _figures(node: Node, view: ClusterView, prices: PriceBook, used: Mapping[str, Used]) -> NodeFigures:
    pods = view.pods_on.get(node.name, ())
    cpu, memory = _shares(node, pods)
    room, measured = node.allocatable, used.get(node.name)
    return NodeFigures(
        name=node.name,
        type=node.instance_type,
        market=node.market.value,
        zone=node.zone,
        cpu_share=cpu,
        memory_share=memory,
        pods=len(pods),
        price=price_node(node, prices),
        removable=False,
        reason="",
        cpu_used=None if measured is None else measured.cpu_milli / max(room.cpu_milli, 1),
        memory_used=None if measured is None else measured.memory_mib / max(room.memory_mib, 1),
    )


def _shares(node: Node, pods: Iterable[Pod]) -> tuple[float, float]:
    pods = tuple(pods)
    cpu = sum(pod.requests.cpu_milli for pod in pods)
    memory = sum(pod.requests.memory_mib for pod in pods)
    return cpu / max(node.allocatable.cpu_milli, 1), memory / max(node.allocatable.memory_mib, 1)
