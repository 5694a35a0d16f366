"""A draft asked again, by the rules of `core.nodes.fit` alone: what would happen if its moves were made."""

from __future__ import annotations

from decimal import Decimal

from ebbtide.core.consolidation.drafts import Draft
from ebbtide.core.consolidation.scene import Scene, sum_of
from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.fit import placement_of
from ebbtide.core.nodes.headroom import Spare, wanted_now
from ebbtide.core.nodes.room import residents_of, room_of, room_of_new
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

MOST_ASKED = 500
"""Moves that are asked again one by one; more are made over many rounds, each planned again."""


def why_not_fitting(draft: Draft, scene: Scene, snapshot: Snapshot, record: Record) -> str:
    """The first move that a scheduler would refuse, in the order of the plan; empty when it makes all."""
    lost = doomed(record)
    leaving = [name for name, instance in snapshot.instance_of.items() if instance.id in lost]
    placement = placement_of(snapshot.cluster, leaving)
    pools = {fresh.offer.pool.name: fresh.offer.pool for fresh in draft.fresh}
    residents = {name: residents_of(snapshot.cluster, pool) for name, pool in pools.items()}
    for fresh in draft.fresh:
        offer = fresh.offer
        room = room_of_new(fresh.key, offer.pool, offer.node_type, offer.zone, residents[offer.pool.name])
        placement.open(room)
    for number, to in draft.moves[:MOST_ASKED]:
        pod = scene.parcels[number].pod
        placement.take_out(pod, placement.rooms[pod.node_name])
        room = placement.rooms[to]
        why = placement.why_not(pod, room)
        if why:
            return f"{pod.full_name} would not fit on {to}: {why}"
        placement.place(pod, room)
    return ""


def why_headroom_lost(
    draft: Draft, scene: Scene, snapshot: Snapshot, record: Record, settings: Settings
) -> str:
    """Which headroom would have less room after all moves, by sizes alone; empty where none would."""
    wanted = wanted_now(settings, snapshot.at)
    if not wanted:
        return ""
    lost, view = doomed(record), snapshot.cluster
    leaving = {name for name, instance in snapshot.instance_of.items() if instance.id in lost}
    rooms = {
        node.name: room_of(node, view.pods_on.get(node.name, ()))
        for node in view.nodes
        if node.ready and not node.unschedulable and node.name not in leaving
    }
    before = Spare(rooms, wanted).there()
    for fresh in draft.fresh:
        offer = fresh.offer
        residents = residents_of(view, offer.pool)
        rooms[fresh.key] = room_of_new(fresh.key, offer.pool, offer.node_type, offer.zone, residents)
    for number, to in draft.moves:
        rooms[to].put(scene.parcels[number].pod)
    for number in draft.removed:
        del rooms[scene.sites[number].node.name]
    return Spare(rooms, wanted).why_less(before)


def free_after(draft: Draft, scene: Scene, snapshot: Snapshot) -> Decimal:
    """The scarcer of CPU and memory, as the share of all that the remaining nodes offer."""
    gone = {scene.sites[number].node.name for number in draft.removed}
    left = [site.node for site in scene.sites if site.node.name not in gone]
    offers = [node.allocatable for node in left] + [
        fresh.offer.node_type.allocatable for fresh in draft.fresh
    ]
    used = sum_of(pod for node in left for pod in snapshot.cluster.pods_on.get(node.name, ()))
    moved = sum_of(scene.parcels[number].pod for number, _ in draft.moves)
    free = Decimal(1)
    for number, offered in enumerate((sum(o.cpu_milli for o in offers), sum(o.memory_mib for o in offers))):
        if offered:
            free = min(free, 1 - Decimal(used[number] + moved[number]) / offered)
    return free
