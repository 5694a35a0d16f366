"""Why an operation stops early: a consolidation must stop (something more urgent, or its plan is no longer
valid), a removal gives way to demand (pods are pending that its node could take, headroom needs it, or load
has returned), or a node is not replaced after all.

What is TERMINATING cannot be given back; it rolls forward next to the launches. A replacement that is no
longer needed stays as a worker: an ordinary scale-down removes it when nothing needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.gates import REPLACED, load_fits, load_is_high
from ebbtide.core.nodes.headroom import why_headroom_needs
from ebbtide.core.nodes.room import given_back, room_of
from ebbtide.core.nodes.targets import Elsewhere
from ebbtide.core.nodes.unwell import conditions_of, outdated
from ebbtide.core.operations import moves
from ebbtide.core.operations.removals import observed_node, signed_by
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Removal,
    RemovalState,
    ScaleDown,
    SlotState,
    SourceState,
    Stop,
)
from ebbtide.model.pod import NOTHING, Pod
from ebbtide.model.pool import RemovalReason
from ebbtide.model.snapshot import Node

LONGEST = 3
"""After so many times the longest that another operation may take, it is given up; the shell would set
aside what takes longer still."""
REVOCABLE = (RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED)
UNTOUCHED = RemovalState.PLANNED


def why_stop(operation: Consolidate, situation: Situation) -> Stop | None:
    """Whatever must not wait for the end of a consolidation, or has made its plan untrue."""
    record, settings, now = situation.record, situation.settings, situation.now
    paused = gates.not_paused(record)
    if not paused.passed:
        return Stop(AbortCause.PAUSED, paused.says)
    # A person who turns it off does so because of what it is doing.
    if not settings.consolidation.enabled:
        return Stop(AbortCause.NOT_ALLOWED, "consolidation was turned off")
    if record.spots:
        notice = record.spots[0]
        return Stop(AbortCause.SPOT, f"{notice.kind} of {notice.instance_id} is being answered")
    high = gates.load_is_high(situation.snapshot, settings)
    if high:
        return Stop(AbortCause.LOAD, high)
    waited = now - record.pending_since
    if record.pending_since and waited >= settings.pending_up_seconds:
        return Stop(AbortCause.PODS_WAITING, f"there have been pending pods for {a_while(waited)}")
    longest = LONGEST * max(settings.stuck_seconds, settings.join_timeout_seconds)
    # Marked nodes take few new pods: that must not last forever.
    if now - operation.started_at >= longest:
        return Stop(AbortCause.TOO_LONG, f"not finished after {a_while(longest)}")
    for slot in operation.slots:
        # Another offer than the planned one may be more expensive, or too small for what is to move there.
        if slot.refused or slot.terminated or (slot.settled and slot.state is not SlotState.READY):
            return Stop(AbortCause.NO_NODE, f"{slot.key} did not come: {slot.reason}")
    if not gates.plausible(situation.snapshot, record, settings).passed:
        return None  # what is missing may only be hidden by a list that is old or not whole
    return _why_sources_changed(operation, situation) or _why_moves_stop(operation, situation)


def _why_sources_changed(operation: Consolidate, situation: Situation) -> Stop | None:
    planned = {move.pod_uid for move in operation.moves}
    for source in operation.sources:
        if source.settled:
            continue
        node = moves.observed_node(source, situation)
        if node is None:
            return Stop(AbortCause.CHANGED, f"{source.node_name} is no longer the same node")
        # A person has plans for it, and nothing could come back to it if a move fails.
        if node.unschedulable:
            return Stop(AbortCause.CHANGED, f"{source.node_name} was cordoned meanwhile")
        if node.owner is not None and not signed_by(node, operation.id):
            owner = node.owner.operation_id
            return Stop(AbortCause.CHANGED, f"{source.node_name} belongs to operation {owner}")
        for pod in moves.counting_pods(source.node_name, situation):
            # The plan has no place for it, so the node cannot be emptied.
            if pod.uid not in planned and not pod.terminating:
                return Stop(AbortCause.CHANGED, f"{pod.full_name} came onto {source.node_name}")
    return None


def _why_moves_stop(operation: Consolidate, situation: Situation) -> Stop | None:
    stop = moves.why_stop(operation, situation)
    marked = [source.since for source in operation.sources if source.state is SourceState.MARKED]
    if stop is not None or not marked:
        return stop
    seconds = situation.settings.consolidation.move_timeout_seconds
    progress = max([operation.watched_since, *marked, *(move.since for move in operation.moves)])
    if situation.now - progress < seconds or moves.settle(operation, situation) != operation:
        return None
    following = moves.next_moves(operation, situation)
    if following.started or following.forbids:
        return following.forbids
    why = f": {following.waits}" if following.waits else ""
    return Stop(AbortCause.STUCK, f"nothing could be moved for {a_while(seconds)}{why}")


def why_yield(operation: ScaleDown, situation: Situation) -> Stop | None:
    """Why its nodes are needed after all; None where giving up would bring back nothing that is asked
    for."""
    nodes = list(_could_come_back(operation, situation))
    drained = [removal for removal in operation.removals if removal.state is RemovalState.DRAINED]
    if not nodes and not drained:
        return None
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    high = load_is_high(snapshot, settings)
    if high and nodes:
        return Stop(AbortCause.LOAD, high)
    fits = load_fits(snapshot, record, settings, drained)
    if drained and snapshot.cpu.value is not None and not fits.passed:
        # The last gate before it is irrevocable would say so too, also of a node that is not Ready: load ends
        # it, so no back-off follows.
        return Stop(AbortCause.LOAD, fits.says)
    pod = _pod_that_needs(nodes, situation)
    if pod is not None:
        says = f"{pod.full_name} is pending and would fit there"
        return Stop(AbortCause.PODS_WAITING, says, pod.full_name)
    if operation.cause in REPLACED:
        return None  # its successor holds the headroom
    lost = why_headroom_needs(snapshot, record, settings, [node.name for node in nodes])
    return Stop(AbortCause.HEADROOM, lost) if lost else None


def why_may_not_go(operation: ScaleDown, situation: Situation) -> Stop | None:
    """Another worker was lost meanwhile, a minimum was raised, or its pool is no longer configured, so it is
    not ours to touch (row 26). The last gate before it is irrevocable asks for the minimum and the zone too,
    but by then pods were evicted for nothing, and a node was launched although there is one."""
    going = tuple(
        replace(removal, node_name=node.name, zone=node.zone, pool=node.pool)
        for removal in operation.removals
        if (node := _could_return(removal, situation)) and situation.notice_for(removal.instance_id) is None
    )
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    for removal in going:
        if settings.pool_named(removal.pool) is None:
            says = f"pool {removal.pool} of {removal.node_name} is no longer configured"
            return Stop(AbortCause.NOT_ALLOWED, says, removal.node_name)
    if not going or not gates.plausible(snapshot, record, settings).passed:
        return None  # what is missing may only be hidden by a list that is old or not whole
    checks = (
        gates.keeps_minimum(snapshot, record, settings, going),
        gates.keeps_zones(snapshot, record, settings, going),
    )
    failed = next((check for check in checks if not check.passed), None)
    return Stop(AbortCause.NOT_ALLOWED, failed.says, failed.name) if failed else None


def _could_come_back(operation: ScaleDown, situation: Situation) -> Iterator[Node]:
    for removal in operation.removals:
        node = _could_return(removal, situation)
        if node is not None:
            yield node


def _could_return(removal: Removal, situation: Situation) -> Node | None:
    node = _node(removal, situation)
    return node if removal.state in REVOCABLE and node is not None and node.ready else None


def _node(removal: Removal, situation: Situation) -> Node | None:
    node = situation.snapshot.node_of.get(removal.instance_id)
    return node if node is not None and removal.node_uid in ("", node.uid) else None


def _pod_that_needs(nodes: list[Node], situation: Situation) -> Pod | None:
    """A pod that no node takes as things are, and that one of these would take. A pod that was just
    evicted, or just made, fits elsewhere and needs nothing."""
    view = situation.snapshot.cluster
    rooms = [room_of(given_back(node), view.pods_on.get(node.name, ())) for node in nodes]
    placement: Placement | None = None
    for pod in view.waiting_pods:
        # It waits for its own node, and no other can help.
        if pod.tied_to_node:
            continue
        if _cannot_be_judged(pod):
            if _has_been_pending_long(situation):
                return pod
            continue
        # Cheaper to ask first, and true for most pods of a large cluster.
        if all(room.lacks(pod.requests) for room in rooms):
            continue
        if placement is None:
            placement = placement_of(view, [node.name for node in nodes])
            elsewhere = list(placement.rooms.values())
            for room in rooms:
                placement.open(room)
        fits_here = any(not placement.why_not(pod, room) for room in rooms)
        if fits_here and placement.first_fit(pod, elsewhere) is None:
            return pod
    return None


def _cannot_be_judged(pod: Pod) -> bool:
    return pod.requests == NOTHING or bool(pod.scheduling.unsupported)


def _has_been_pending_long(situation: Situation) -> bool:
    since = situation.record.pending_since
    return bool(since) and situation.now - since >= situation.settings.pending_up_seconds


@dataclass(frozen=True, slots=True)
class NotReplaced:
    stop: Stop
    blamed: bool = False
    """The node is left alone for a while."""
    excused: bool = False
    """That is no failure."""


def why_not_replaced(operation: ScaleDown, situation: Situation) -> NotReplaced | None:
    if operation.cause not in gates.REPLACED:
        return None
    for slot in operation.slots:
        # Crash table: replacement-never-joins. Without a replacement the old node stays.
        if slot.terminated or (slot.settled and not operation.replaced):
            says = f"{slot.key} did not come: {slot.reason}"
            return NotReplaced(Stop(AbortCause.NO_NODE, says, slot.key))
    if not gates.plausible(situation.snapshot, situation.record, situation.settings).passed:
        return None  # what is missing may only be hidden by a list that is old or not whole
    for removal in operation.removals:
        node = observed_node(removal, situation)
        # Crash table: replacement-interrupted. The cloud takes it in any case.
        if node is None or removal.state not in REVOCABLE or situation.notice_for(removal.instance_id):
            continue
        why = _why_stays(operation, removal, node, situation)
        if why is not None:
            return why
    return None


def _why_stays(
    operation: ScaleDown, removal: Removal, node: Node, situation: Situation
) -> NotReplaced | None:
    # A person who turns it off may doubt that the node is unwell.
    if operation.cause is RemovalReason.UNHEALTHY and not situation.settings.repair:
        off = Stop(AbortCause.FIT_AGAIN, "repair was turned off", node.name)
        return NotReplaced(off, excused=True)
    # Crash table: unwell-recovers. A node that is well again need not go.
    if _is_fit_again(operation.cause, node, situation):
        again = "well again" if operation.cause is RemovalReason.UNHEALTHY else f"no longer {operation.cause}"
        return NotReplaced(Stop(AbortCause.FIT_AGAIN, f"{node.name} is {again}", node.name), excused=True)
    # Crash table: replacement-crash. Asked when the replacement is Ready, before the old node is touched.
    if removal.state is not UNTOUCHED or not operation.slots or not operation.replaced:
        return None
    # Another offer than the planned one may have come, or pods that waited may have taken its room.
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    checks = (
        gates.keeps_minimum(snapshot, record, settings, (removal,)),
        gates.keeps_zones(snapshot, record, settings, (removal,)),
    )
    why = next((check.says for check in checks if not check.passed), "")
    if not why and node.ready:
        lost = Elsewhere(snapshot, record).why_not([node])
        why = lost.says if lost is not None else ""
    says = f"{node.name} cannot go: {why}"
    return NotReplaced(Stop(AbortCause.NOT_ALLOWED, says, node.name), blamed=True) if why else None


def _is_fit_again(cause: RemovalReason, node: Node, situation: Situation) -> bool:
    if cause is RemovalReason.UNHEALTHY:
        instance = situation.snapshot.instance_of.get(node.name)
        return (
            instance is not None
            and instance.alive
            and not conditions_of(node, situation.snapshot, situation.settings)
        )
    found = outdated(node, situation.snapshot, situation.settings, situation.now)
    return node.name in situation.snapshot.instance_of and all(one.cause is not cause for one in found)
