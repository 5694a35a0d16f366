"""What each worker costs and holds, and what of it may be touched.

Whatever is not understood, not priced or not allowed to move stays where it is, with the reason said,
and keeps its node; nothing else is disturbed by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ebbtide.core.consolidation import game_servers
from ebbtide.core.consolidation.build import Judged, build, offers_of, share_of
from ebbtide.core.consolidation.scene import Scene, Size
from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.drain import Disruptions, Treatment, judge
from ebbtide.core.nodes.neighbours import Neighbours
from ebbtide.core.words import a_time, a_while, short_id
from ebbtide.model.check import Refusal
from ebbtide.model.consolidation import NodeAnalysis
from ebbtide.model.money import Price
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

SYSTEM = "kube-system"


@dataclass(frozen=True)
class Look:
    scene: Scene
    neighbours: Neighbours
    nodes: tuple[NodeAnalysis, ...]
    """Every worker, as kept: a plan says which go."""
    refusals: tuple[Refusal, ...]
    currency: str


def look(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, players: Mapping[str, int]
) -> Look:
    judging = _Judging(snapshot, record, settings, now, players)
    weights = {pool.name: pool.weight for pool in settings.pools}
    judged = [
        Judged(
            node,
            price_of(node, settings),
            zone_rank=settings.zone_rank(node.zone),
            weight=weights.get(node.pool, 0),
        )
        for node in snapshot.cluster.workers
    ]
    currency = main_currency(each.price for each in judged)
    for each in judged:
        each.left_out = judging.why_left_out(each, currency)
    offers = offers_of(snapshot.cluster, record, settings, currency)
    fill = settings.consolidation.max_fill
    sizes = [offer.room for offer in offers]
    sizes += [share_of(e.node.allocatable, e.node.max_pods, fill) for e in judged if not e.left_out]
    most = (max((s[0] for s in sizes), default=0), max((s[1] for s in sizes), default=0), 0)
    for each in judged:
        judging.sort_pods(each, most)
    nodes = tuple(judging.analysis(each) for each in judged)
    scene, neighbours = build(snapshot.cluster, judged, offers, fill)
    reasons = ((each.node.name, each.left_out or each.kept) for each in judged)
    refusals = tuple(Refusal(name, reason) for name, reason in reasons if reason)
    return Look(scene, neighbours, nodes, refusals, currency)


def price_of(node: Node, settings: Settings) -> Price | None:
    pool = settings.pool_named(node.pool)
    known = pool.type_named(node.instance_type) if pool else None
    return known.price_in(node.market) if known else None


def main_currency(prices: Iterable[Price | None]) -> str:
    """That of most nodes: amounts in another are never added to them."""
    counts = Counter(price.currency for price in prices if price is not None)
    return min(counts, key=lambda currency: (-counts[currency], currency), default="")


class _Judging:
    def __init__(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, players: Mapping[str, int]
    ) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._now = now
        self._players = players
        self._doomed = doomed(record)
        self._rests = {rest.instance_id: rest for rest in record.rests}
        self._leaving = {node.node_uid for node in record.leaving}
        self._emptied = {node.node_uid: node.since for node in record.emptied}
        self._disruptions = Disruptions(snapshot.cluster.budgets, spends=False)
        self._free: set[tuple[object, ...]] = set()

    def why_left_out(self, each: Judged, currency: str) -> str:
        node, instance = each.node, self._snapshot.instance_of.get(each.node.name)
        each.target = node.uid not in self._leaving
        if not node.ready:
            return "it is not ready"
        if instance is None:
            return "the cloud lists no instance of ours for it"
        if instance.id in self._doomed or not instance.alive:
            return "it is already going"
        if node.unschedulable:
            return "it is cordoned"
        if node.owner is not None and each.target:
            return f"it still carries the mark of operation {short_id(node.owner.operation_id)}"
        if instance.id in self._rests:
            rest = self._rests[instance.id]
            each.kept = f"it is skipped until {a_time(rest.until)}: {rest.reason}"
        if self._settings.pool_named(node.pool) is None:
            return f"its pool {node.pool} is not configured"
        if each.price is None or each.price.per_hour <= 0:
            return f"no price is known for {node.instance_type or 'its type'} on {node.market}"
        if each.price.currency != currency:
            return f"its price is in {each.price.currency}, those of most nodes are in {currency}"
        return ""

    def sort_pods(self, each: Judged, most: Size) -> None:
        first, more = "", 0
        for pod in self._snapshot.cluster.pods_on.get(each.node.name, ()):
            if pod.tied_to_node:
                each.tied.append(pod)
                continue
            why = self._why_stays(pod, most)
            if not why:
                each.movable.append(pod)
                continue
            each.staying.append(pod)
            first, more = first or why, more + 1
        if first and not each.kept:
            each.kept = first + (f" (and {more - 1} more)" if more > 1 else "")

    def _why_stays(self, pod: Pod, most: Size) -> str:
        asked = pod.requests
        if asked.cpu_milli < 0 or asked.memory_mib < 0 or any(amount < 0 for _, amount in asked.extended):
            return f"{pod.full_name} asks for less than nothing"
        if not asked.cpu_milli and not asked.memory_mib:
            return f"{pod.full_name} asks for neither CPU nor memory: nobody knows whether it fits elsewhere"
        alike = _alike(pod)
        if alike not in self._free or self._players:
            judgement = judge(pod, self._disruptions, self._settings, self._players)
            if judgement.treatment is not Treatment.EVICT:
                return judgement.says
            if not game_servers.labels_of(pod):
                self._free.add(alike)
        if asked.cpu_milli > most[0] or asked.memory_mib > most[1]:
            size, fill = f"{asked.cpu_milli}m CPU and {asked.memory_mib} MiB", self._settings.consolidation
            return f"{pod.full_name} asks for {size}, more than {fill.max_fill:.0%} of any node offers"
        return ""

    def analysis(self, each: Judged) -> NodeAnalysis:
        node, rules = each.node, self._settings.consolidation
        age = max(0, self._now - node.created_at)
        pods = len(each.movable) + len(each.staying)
        each.idle_since = 0 if pods else self._emptied.get(node.uid, 0)
        idle = max(0, self._now - each.idle_since) if each.idle_since else 0
        if not each.kept and age < rules.min_uptime_seconds:
            each.kept = (
                f"it is {a_while(age)} old, at least {a_while(rules.min_uptime_seconds)} are asked for"
            )
        if not each.kept and not pods and idle < rules.min_idle_seconds:
            least = a_while(rules.min_idle_seconds)
            each.kept = f"it has been empty for {a_while(idle)}, at least {least} are asked for"
        price = each.price.per_hour if each.price else None
        why = each.left_out or each.kept
        return NodeAnalysis(node.name, node.instance_type, age, idle, pods, price, True, why)


def _alike(pod: Pod) -> tuple[object, ...]:
    """All that the drain rules look at: what holds for one of many equal pods holds for all of them."""
    return (
        pod.namespace,
        pod.name if pod.namespace == SYSTEM else "",
        pod.labels,
        pod.controller,
        pod.phase,
        pod.terminating,
        pod.priority_class,
        pod.local_storage,
        pod.safe_to_evict,
        pod.do_not_disrupt,
        pod.annotations,
        id(pod.scheduling),
    )
