"""Nodes that consolidation emptied, or found empty, and that are removed once they have been idle long
enough.

They belong to a consolidation that was already decided: its cooldown and its threshold are not checked
again, everything else is. A node that has pods again, or cannot be removed in time, is dropped from the
list; its mark then counts as a stray one and is lifted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import open_removals, standing
from ebbtide.core.nodes.headroom import keeps_headroom
from ebbtide.core.nodes.targets import without_a_pool
from ebbtide.core.words import a_while, count_of, notices_open, short_id
from ebbtide.model.check import Check, NodeCause, Refusal, Values, Why, held_by, refused
from ebbtide.model.operation import Removal, Source
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import EmptiedNode, Record, changed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot

GRACE_SECONDS = 1800
"""How much longer than the idle time a node may take to be removed before it is forgotten."""

Chosen = tuple[tuple[Removal, ...], tuple[Refusal, ...]]


def track_leaving(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """Forget those that are gone, in use again, or out of time, and those that nothing will remove, since
    consolidation or their pool is no longer configured: they would hold up every other removal."""
    if snapshot.problems or not record.leaving:
        return record
    on = settings.consolidation.enabled
    kept = tuple(one for one in record.leaving if on and _still(one, snapshot, settings, now))
    return changed(record, leaving=kept)


def _still(leaving: EmptiedNode, snapshot: Snapshot, settings: Settings, now: int) -> bool:
    node = snapshot.cluster.node_named.get(leaving.node_name)
    # Crash table: emptied-stays. A mark without an end would keep the node empty but paid.
    if node is None or node.uid != leaving.node_uid or now >= leaving.until:
        return False
    if settings.pool_named(node.pool) is None:
        return False
    return all(pod.tied_to_node for pod in snapshot.cluster.pods_on.get(node.name, ()))


def note_leaving(
    record: Record, nodes: Sequence[Removal | Source], operation_id: str, settings: Settings, now: int
) -> Record:
    """These are to go, as soon as each may."""
    until = latest_end(settings, now)
    noted = tuple(
        EmptiedNode(node.node_name, node.node_uid, node.instance_id, operation_id, until) for node in nodes
    )
    return replace(record, leaving=record.leaving + noted)


def latest_end(settings: Settings, now: int) -> int:
    """Until when a node may keep its mark that was emptied by now."""
    return now + settings.consolidation.min_idle_seconds + GRACE_SECONDS


def keeps_mark(node: Node, record: Record) -> bool:
    """Whether the mark on this node is that of the consolidation it is leaving by."""
    return node.owner is not None and any(
        one.node_uid == node.uid and one.operation_id == node.owner.operation_id for one in record.leaving
    )


def stable(snapshot: Snapshot, record: Record, settings: Settings) -> Iterator[Check]:
    """What is asked before any node that leaves is looked at."""
    yield gates.not_paused(record)
    yield gates.complete(snapshot)
    yield gates.plausible(snapshot, record, settings)
    yield gates.healthy(snapshot, record, settings)
    yield gates.no_pod_pending(snapshot)
    yield gates.load_not_high(snapshot, settings)
    spots = len(record.spots)
    yield Check("no spot notice open", not spots, notices_open(spots), Values(spots, 0))


def choose_leaving(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Chosen:
    """As many of one consolidation as may go now, and why the others may not."""
    chosen: list[Removal] = []
    refusals: list[Refusal] = []
    operations = [one.operation_id for one in record.leaving]
    for one in record.leaving:
        if one.operation_id != operations[0]:
            continue
        node = snapshot.cluster.node_named.get(one.node_name)
        if node is None:
            refusals.append(refused(one.node_name, Why(NodeCause.CHANGED, "it left the cluster")))
            continue
        removal = Removal(one.instance_id, node.name, node.uid, node.zone, node.pool)
        why = _why_stays(one, node, snapshot, record, settings, now)
        why = why or _why_gates_hold([*chosen, removal], snapshot, record, settings)
        if why is None:
            chosen.append(removal)
        else:
            refusals.append(refused(one.node_name, why))
    return tuple(chosen), tuple(refusals)


def _why_stays(
    leaving: EmptiedNode, node: Node, snapshot: Snapshot, record: Record, settings: Settings, now: int
) -> Why | None:
    wanted = settings.consolidation
    instance = snapshot.instance_of.get(node.name)
    if node.uid != leaving.node_uid or instance is None or instance.id != leaving.instance_id:
        return Why(NodeCause.CHANGED, "it is no longer the same node")
    # Crash table: refused-leaves. It may be irrevocable: a second removal of it could be taken back.
    if any(removal.instance_id == instance.id for removal in open_removals(record)):
        return Why(NodeCause.GOING, "its removal has already started")
    if settings.pool_named(node.pool) is None:
        return without_a_pool(node)
    age = now - node.created_at
    if age < wanted.min_uptime_seconds:
        says = f"it is {a_while(age)} old, min_uptime is {a_while(wanted.min_uptime_seconds)}"
        return Why(NodeCause.TOO_YOUNG, says)
    not_idle = why_not_idle(node.uid, record, settings, now)
    if not_idle:
        return Why(NodeCause.NOT_IDLE, not_idle)
    if node.unschedulable and not node.cordoned_by_us:
        return Why(NodeCause.CORDONED, "it was cordoned by someone else")
    if node.owner is not None and node.owner.operation_id != leaving.operation_id:
        other = node.owner.operation_id
        return Why(NodeCause.MARKED, f"it belongs to operation {short_id(other)}", other)
    rest = next((one for one in record.rests if one.instance_id == instance.id), None)
    return None if rest is None else Why(NodeCause.BACKED_OFF, f"it rests: {rest.reason}")


def why_not_idle(node_uid: str, record: Record, settings: Settings, now: int) -> str:
    """Asked when it is chosen, and again until its removal is irrevocable."""
    least = settings.consolidation.min_idle_seconds
    since = record.emptied_since(node_uid)
    idle = now - since if since is not None else 0
    if idle >= least:
        return ""
    return f"it has been empty for {a_while(idle)}, consolidation.min_idle_sec is {a_while(least)}"


def _why_gates_hold(
    removals: list[Removal], snapshot: Snapshot, record: Record, settings: Settings
) -> Why | None:
    names = {removal.node_name for removal in removals}
    left = sum(1 for node in standing(snapshot, record) if node.name not in names)
    least = settings.consolidation.min_nodes
    says = f"{count_of(left, 'ready worker')} would be left, consolidation.min_nodes is {least}"
    checks = (
        Check("nodes kept", left >= least, says),
        gates.keeps_minimum(snapshot, record, settings, removals),
        gates.keeps_awake(snapshot, record, settings, removals),
        gates.keeps_zones(snapshot, record, settings, removals),
        gates.within_budget(snapshot, record, settings, removals, RemovalReason.EMPTY),
        keeps_headroom(snapshot, record, settings, sorted(names)),
    )
    return held_by(checks)
