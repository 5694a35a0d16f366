"""What a crash may leave behind: instances of ours that no operation knows and that never became a
node, Node objects whose instance is gone, soft taints and cordons of ours whose operation is closed.

Each is acted on only after a grace period and on positive evidence; a Ready node is never treated as an
orphan.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.consolidation.emptied_nodes import keeps_mark
from ebbtide.core.nodes.capacity import expected_slots, open_removals
from ebbtide.model.node import Instance, InstanceState, Node, Ownership
from ebbtide.model.record import Missing, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


def lone_instances(snapshot: Snapshot, record: Record) -> tuple[Instance, ...]:
    """Alive, launched by us, no node, and not the business of an open operation."""
    slots = expected_slots(record)
    known_ids = {slot.instance_id for slot in slots}
    known_ids |= {removal.instance_id for removal in open_removals(record)}
    known_ids |= {spot.instance_id for spot in record.spots}
    known_ids |= {rest.instance_id for rest in record.rests}
    # Crash table: given-up-appears. A key cannot be in one scale-up twice: adopted when that is closed.
    known_keys = {slot.key for slot in (*slots, *(record.launching.slots if record.launching else ()))}
    return tuple(
        instance
        for instance in snapshot.instances
        if instance.id not in snapshot.node_of
        and instance.alive
        and instance.pool
        and instance.key
        and instance.id not in known_ids
        and instance.key not in known_keys
    )


def dead_nodes(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Workers that are not ready and whose instance is gone: the cloud says so, or no longer lists the id
    that was set as a label when it joined. A machine that merely lacks our tag is not one of them."""
    removals = (*open_removals(record), *(spot.removal for spot in record.spots if spot.removal))
    # Crash table: two-owners. A machine that was given up before it joined is known by its id alone.
    uids, ids = ({one.node_uid for one in removals}, {one.instance_id for one in removals})
    return tuple(
        node
        for node in snapshot.cluster.workers
        if not node.ready
        and node.uid not in uids
        and _instance_id(node, snapshot) not in ids
        and _instance_is_gone(node, snapshot)
    )


def _instance_id(node: Node, snapshot: Snapshot) -> str:
    instance = snapshot.instance_of.get(node.name)
    return node.instance_id if instance is None else instance.id


def _instance_is_gone(node: Node, snapshot: Snapshot) -> bool:
    instance = snapshot.instance_of.get(node.name)
    if instance is not None:
        return not instance.alive
    return bool(node.instance_id) and not is_partial(snapshot)


def is_partial(snapshot: Snapshot) -> bool:
    """Whether the cloud's list cannot be whole: it is empty, or a Ready worker is missing from it. Then not
    being listed means nothing, also for those that are not Ready: their zone may only be dark."""
    nodes = snapshot.cluster.workers
    ready = any(n.ready and n.instance_id and n.name not in snapshot.instance_of for n in nodes)
    return ready or not snapshot.instances


def says_gone(node: Node, snapshot: Snapshot) -> bool:
    """Whether the cloud lists its instance as gone, which is more than not listing it."""
    instance = snapshot.instance_of.get(node.name)
    return instance is not None and instance.state is InstanceState.GONE


def stray_cordons(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Workers that carry the signature of an operation that is not open: tainted, and perhaps cordoned.
    What consolidation has emptied keeps its mark until it is removed or forgotten."""
    open_ids = _open_ids(record)
    # Crash table: two-owners. The answer to a notice lifts the mark itself.
    answered = {spot.removal.node_uid for spot in record.spots if spot.removal is not None}
    return tuple(
        node
        for node in snapshot.cluster.workers
        if node.owner is not None
        and node.owner.operation_id not in open_ids
        and node.uid not in answered
        and not keeps_mark(node, record)
    )


def stale_mark(node: Node, record: Record) -> Ownership | None:
    """The signature of an operation that is closed, be it stray or that of a consolidation it leaves by."""
    owner = node.owner
    return owner if owner is not None and owner.operation_id not in _open_ids(record) else None


def _open_ids(record: Record) -> set[str]:
    open_ids = {op.id for op in record.operations + record.all_set_aside}
    return open_ids | {spot.id for spot in record.spots} | {one.operation_id for one in record.refused}


def cordon_id(node: Node) -> str:
    return f"cordon:{node.uid}"


def track_orphans(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """Remember since when each has been seen; forget those that are no longer."""
    if snapshot.problems:
        return record
    seen = {missing.id: missing.since for missing in record.orphans}
    since = {id: min(at, now) for id, at in seen.items()}
    dead = dead_nodes(snapshot, record)
    ids = [instance.id for instance in lone_instances(snapshot, record)]
    ids += [node.uid for node in dead]
    ids += [cordon_id(node) for node in stray_cordons(snapshot, record)]
    # One list may lag behind; what it leaves out for longer is gone.
    certain = {
        node.uid
        for node in dead
        if says_gone(node, snapshot) or now - since.get(node.uid, now) >= settings.gone_grace_seconds
    }
    orphans = tuple(Missing(id, since.get(id, now), id in certain) for id in ids)
    return record if orphans == record.orphans else replace(record, orphans=orphans)


MANY_TIMES = 4
"""How many times the grace is waited where much of the cluster seems to have no node."""


def graces(snapshot: Snapshot, record: Record, settings: Settings) -> int:
    """How many times the grace a lone instance is waited for. A crash leaves one or two behind; where nearly
    half of all are without a node it is rather the list of nodes that is wrong, and they are full of pods."""
    lone = len(lone_instances(snapshot, record))
    alive = sum(1 for instance in snapshot.instances if instance.alive and instance.pool)
    return MANY_TIMES if lone > 1 and lone > settings.unready_fraction * alive else 1


def to_forget(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> tuple[Node, ...]:
    """Node objects whose time is over. That is soon where the cloud lists the instance as gone: a machine
    that gets its name cannot join before."""
    since = {missing.id: missing.since for missing in record.orphans}
    grace, soon = settings.orphan_grace_seconds, settings.gone_grace_seconds
    return tuple(
        node
        for node in dead_nodes(snapshot, record)
        if now - since.get(node.uid, now) >= (soon if says_gone(node, snapshot) else grace)
    )


def overdue(record: Record, orphan_id: str, settings: Settings, now: int, times: int = 1) -> bool:
    return any(
        missing.id == orphan_id and now - missing.since >= settings.orphan_grace_seconds * times
        for missing in record.orphans
    )
