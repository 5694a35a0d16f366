"""Nodes and instances that nobody looks after: what a crash may leave behind (instances of ours that no
operation knows and that never became a node, Node objects whose instance is gone, soft taints and cordons
of closed operations), removals that the cloud refuses although they cannot be taken back, and workers
that no pool claims although one could.

Each is acted on only after a grace period and on positive evidence; a Ready node is never treated as an
orphan.

Removals that the cloud refuses although they cannot be taken back. After `stuck_sec` such a removal is set
aside: its operation closes, other removals and launches continue, and its node stays cordoned. It is kept in
the record and tried again at a slow pace, by the operation that began it, until its instance is gone. It is
never released.

Nodes that a pool could adopt but has not: before `ebbtide adopt`, these are the existing workers. They are
neither counted nor touched. While there are any, nothing is launched only to reach the minimum: otherwise
the cluster would get all of its workers a second time. Nodes that are marked as system are excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ebbtide.core.consolidation.emptied_nodes import keeps_mark
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import expected_slots, open_removals
from ebbtide.core.nodes.question import Answer, Question, no_removal
from ebbtide.core.words import count_of
from ebbtide.model.check import Check, Values
from ebbtide.model.decision import Decision
from ebbtide.model.names import SYSTEM
from ebbtide.model.operation import Removal, RemovalState, ScaleDown
from ebbtide.model.pool import Pool
from ebbtide.model.record import Missing, Record, Refused, changed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, InstanceState, Node, Ownership, Snapshot


def set_aside(
    record: Record, removals: Iterable[Removal], operation_id: str, settings: Settings, now: int
) -> Record:
    """The record with those of these removals that were set aside by their operation, which is being
    closed."""
    kept = tuple(
        Refused(operation_id, replace(one, state=RemovalState.TERMINATING), now + settings.stuck_seconds)
        for one in removals
        if one.state is RemovalState.SET_ASIDE
    )
    return replace(record, refused=record.refused + kept)


def retry(q: Question, answer: Answer) -> Iterator[Check]:
    """Ask again for what was refused; at once where its instance is gone, since only its Node object is
    left."""
    yield no_removal(q)
    yield gates.complete(q.snapshot)
    yield gates.not_paused(q.record)
    due = [one for one in q.record.refused if q.now >= one.retry_at or _is_gone(one, q)]
    says = "the cloud refused no removal"
    if known := len(q.record.refused):
        are = "is" if known == 1 else "are"
        says = f"{len(due)} of {count_of(known, 'removal')} that the cloud refused {are} due"
    yield Check("refused removal due", bool(due), says, Values(len(due), 1))
    same = [one.removal for one in due if one.operation_id == due[0].operation_id]
    answer.removals = tuple(replace(removal, retry_at=0, since=q.now) for removal in same)
    names = ", ".join(removal.node_name or removal.instance_id for removal in same)
    answer.reason = f"terminate {names} again: the cloud refused it before ({same[0].reason})"


def _is_gone(one: Refused, q: Question) -> bool:
    instance = q.snapshot.instance_with_id.get(one.removal.instance_id)
    return instance is not None and not instance.alive


def taken_up_again(record: Record, decision: Decision) -> Record:
    """The operation that signed the cordon is open again. It has failed once already: no back-off follows."""
    ids = {removal.instance_id for removal in decision.removals}
    again = [one for one in record.refused if one.removal.instance_id in ids]
    operation = ScaleDown(
        again[0].operation_id, decision.at, decision.removals, decision.reason, excused=True
    )
    left = tuple(one for one in record.refused if one not in again)
    return replace(record, removing=operation, refused=left)


def lone_instances(snapshot: Snapshot, record: Record) -> tuple[Instance, ...]:
    """Alive, launched by us, no node, and not the business of an open operation."""
    if not snapshot.lone:
        return ()
    slots = expected_slots(record)
    known_ids = {slot.instance_id for slot in slots}
    known_ids |= {removal.instance_id for removal in open_removals(record)}
    known_ids |= {spot.instance_id for spot in record.spots}
    known_ids |= {rest.instance_id for rest in record.rests}
    # Crash table: given-up-appears. A key cannot be in one scale-up twice: adopted when that is closed.
    known_keys = {slot.key for slot in (*slots, *(record.launching.slots if record.launching else ()))}
    return tuple(
        instance
        for instance in snapshot.lone
        if instance.id not in known_ids and instance.key not in known_keys
    )


def may_be_foreign(instance: Instance, settings: Settings) -> bool:
    """Whether a lone instance may be a worker of another cluster that has the same name and is in the same
    account: it was launched with a configuration, or for a pool, that this one does not have. What a crash of
    ours left behind was launched with ours, unless that was changed just then."""
    pool = settings.pool_named(instance.pool)
    if pool is None:
        return True
    return bool(instance.launch_hash and pool.launch_hash) and instance.launch_hash != pool.launch_hash


@dataclass(frozen=True, slots=True)
class Foreign:
    """A warning: an instance with the tag of this cluster that may be of another, and is left alone."""

    cluster: str
    instance_id: str
    pool: str

    def __str__(self) -> str:
        return (
            f"{self.instance_id} has the tag of cluster {self.cluster} but no node here, and was launched "
            f"with another configuration of pool {self.pool}: it is left alone. If another cluster has the "
            "same cluster.name, rename one of them; else remove the instance by hand"
        )


def newly_foreign(
    snapshot: Snapshot, before: Record, record: Record, settings: Settings, now: int
) -> Iterator[Foreign]:
    """Those whose grace ended since the tick before: each is told once."""
    for one in lone_instances(snapshot, record) if record.orphans else ():
        is_over = overdue(record, one.id, settings, now)
        was_over = overdue(record, one.id, settings, before.ticked_at)
        if is_over and not was_over and may_be_foreign(one, settings):
            yield Foreign(settings.cluster, one.id, one.pool)


def dead_nodes(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Workers that are not ready and whose instance is gone: the cloud says so, or no longer lists the id
    that was set as a label when it joined. A machine that merely lacks our tag is not one of them."""
    if not snapshot.cluster.unready_workers:
        return ()
    removals = (*open_removals(record), *(spot.removal for spot in record.spots if spot.removal))
    # Crash table: two-owners. A machine that was given up before it joined is known by its id alone.
    uids, ids = ({one.node_uid for one in removals}, {one.instance_id for one in removals})
    return tuple(
        node
        for node in snapshot.cluster.unready_workers
        if node.uid not in uids
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
        for node in snapshot.cluster.signed_workers
        if node.owner is not None
        and node.owner.operation_id not in open_ids
        and node.uid not in answered
        and not keeps_mark(node, record)
    )


def stale_mark(node: Node, record: Record) -> Ownership | None:
    """The signature of a closed operation: a stray one, or that of the consolidation that emptied the
    node."""
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
    return record if orphans == record.orphans else changed(record, orphans=orphans)


MANY_TIMES = 4
"""How many times the grace is waited where much of the cluster seems to have no node."""


def graces(snapshot: Snapshot, record: Record, settings: Settings) -> int:
    """How many times the grace a lone instance is waited for. A crash leaves one or two behind; where nearly
    half of all are without a node it is rather the list of nodes that is wrong, and they are full of pods."""
    lone = len(lone_instances(snapshot, record))
    return MANY_TIMES if lone > 1 and lone > settings.unready_fraction * len(snapshot.alive) else 1


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


_NAMED = 3


def uncounted(view: ClusterView) -> tuple[Node, ...]:
    """All nodes that Ebbtide does not count, except control plane and system nodes."""
    return tuple(node for node in view.nodes if not (node.worker or node.control_plane or node.system))


def claimable(view: ClusterView, pools: Iterable[Pool]) -> Mapping[str, str]:
    """Nodes that could be adopted, by name, with the first pool that has their type, zone and market."""
    found: dict[str, str] = {}
    known = tuple(pools)
    for node in uncounted(view):
        if (pool := pool_for(node, known)) and node.ready and not node.unschedulable:
            found[node.name] = pool
    return found


def pool_for(node: Node, pools: Iterable[Pool]) -> str:
    """Empty where no pool would launch such a node."""
    return next(
        (
            pool.name
            for pool in pools
            if pool.type_named(node.instance_type) is not None
            and location_of(node.zone, pool.zones)
            and pool.market is node.market
        ),
        "",
    )


def location_of(zone: str, zones: Iterable[str]) -> str:
    """The pool's zone that the node's is in: Hetzner labels nodes with a data centre of the location."""
    return next((one for one in zones if zone == one or zone.startswith(f"{one}-dc")), "")


def in_place_of_minimum(view: ClusterView, pools: Iterable[Pool]) -> Counter[str]:
    """How many of them there are for each pool."""
    return Counter(claimable(view, pools).values())


def says_uncounted(names: Iterable[str]) -> str:
    """The sentence for people: which nodes, and what to do about them."""
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    it, are = ("it", "is") if len(listed) == 1 else ("them", "are")
    return (
        f"{count_of(len(listed), 'node')} that no pool claims {are} not counted "
        f"({', '.join(listed[:_NAMED])}{more}): take {it} over with `ebbtide adopt`, "
        f"or label {it} {SYSTEM}=true"
    )
