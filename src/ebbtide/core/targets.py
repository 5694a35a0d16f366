"""Which nodes to remove: from the fullest zone, the oldest first, only what can be drained and whose
pods fit elsewhere. Every node passed over is named with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ebbtide.core.capacity import doomed, standing
from ebbtide.core.drain import Disruptions, Treatment, plan_drain
from ebbtide.core.fit import Placement, placement_of
from ebbtide.model.decision import Refusal
from ebbtide.model.node import Node
from ebbtide.model.operation import Removal
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


def choose_targets(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, limit: int
) -> tuple[tuple[Removal, ...], tuple[Refusal, ...]]:
    remaining = list(standing(snapshot, record))
    zones = {node.zone for node in snapshot.cluster.workers}
    disruptions = Disruptions(snapshot.cluster.budgets, spends=False)
    chosen: list[Node] = []
    refusals: dict[str, str] = {}
    while len(chosen) < limit:
        for node in _in_order(remaining, now):
            if node.name in refusals:
                continue
            alone = len(zones) > 1 and sum(1 for other in remaining if other.zone == node.zone) == 1
            reason = f"it is the last ready worker in zone {node.zone}" if alone else ""
            reason = reason or _why_kept(node, snapshot, record)
            reason = reason or _why_pool_keeps(node, remaining, settings)
            reason = reason or _why_not_drainable(node, snapshot, settings, disruptions)
            reason = reason or _why_pods_stay(snapshot, record, [*chosen, node])
            if not reason:
                chosen.append(node)
                remaining.remove(node)
                break
            refusals[node.name] = reason
        else:
            break
    removals = tuple(_removal(node, snapshot) for node in chosen)
    return removals, tuple(Refusal(name, reason) for name, reason in refusals.items())


def _in_order(nodes: list[Node], now: int) -> Iterator[Node]:
    """Fullest zone first, and in it the oldest; a node from the future counts as new."""
    counts = Counter(node.zone for node in nodes)
    yield from sorted(nodes, key=lambda n: (-counts[n.zone], n.zone, min(n.created_at, now), n.name))


def _removal(node: Node, snapshot: Snapshot) -> Removal:
    return Removal(snapshot.instance_of[node.name].id, node.name, node.uid, node.zone, node.pool)


def _why_kept(node: Node, snapshot: Snapshot, record: Record) -> str:
    instance = snapshot.instance_of.get(node.name)
    if instance is None:
        return "the cloud lists no instance of ours for it"
    if node.unschedulable:
        return "it was cordoned by someone else"
    for rest in record.rests:
        if rest.instance_id == instance.id:
            return f"it rests until {rest.until}: {rest.reason}"
    return ""


def _why_pool_keeps(node: Node, remaining: list[Node], settings: Settings) -> str:
    pool = settings.pool_named(node.pool)
    if pool is None:
        return f"its pool {node.pool} is not configured"
    left = sum(1 for other in remaining if other.pool == node.pool) - 1
    if left < pool.min_workers:
        return f"{left} would be left in pool {pool.name}, its minimum is {pool.min_workers}"
    return ""


def _why_not_drainable(node: Node, snapshot: Snapshot, settings: Settings, disruptions: Disruptions) -> str:
    plan = plan_drain(node, snapshot.cluster.pods_on.get(node.name, ()), disruptions, settings)
    for treatment in (Treatment.BLOCK, Treatment.WAIT):
        for judgement in plan.treated(treatment):
            return judgement.says
    return ""


def _why_pods_stay(snapshot: Snapshot, record: Record, leaving: list[Node]) -> str:
    lost = doomed(record)
    names = {name for name, instance in snapshot.instance_of.items() if instance.id in lost}
    placement = placement_of(snapshot.cluster, names | {n.name for n in leaving})
    for gone in leaving:
        reason = _place_elsewhere(gone, snapshot, placement)
        if reason:
            return reason
    return ""


def _place_elsewhere(node: Node, snapshot: Snapshot, placement: Placement) -> str:
    for pod in snapshot.cluster.pods_on.get(node.name, ()):
        if pod.mirror or pod.controller == "DaemonSet":
            continue
        room = placement.first_fit(pod)
        if room is None:
            return f"{pod.full_name} would fit on no other node"
        placement.place(pod, room)
    return ""
