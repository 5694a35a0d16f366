"""Removals give way to demand: when pods are pending that a node on its way out could take, when headroom
needs it, or load is back.

What is TERMINATING cannot be given back; it rolls forward next to the launches.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.gates import REPLACED, load_fits, load_is_high
from ebbtide.core.nodes.headroom import why_headroom_needs
from ebbtide.core.nodes.room import given_back, room_of
from ebbtide.core.operations.situation import Situation
from ebbtide.model.node import Node
from ebbtide.model.operation import Removal, RemovalState, ScaleDown
from ebbtide.model.pod import Pod
from ebbtide.model.resources import NOTHING

REVOCABLE = (RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED)


def why_yield(operation: ScaleDown, situation: Situation) -> str:
    """Why its nodes are needed after all; empty where giving up would bring back nothing that is asked
    for."""
    nodes = list(_could_come_back(operation, situation))
    drained = [removal for removal in operation.removals if removal.state is RemovalState.DRAINED]
    if not nodes and not drained:
        return ""
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    high = load_is_high(snapshot, settings)
    if high and nodes:
        return high
    fits = load_fits(snapshot, record, settings, drained)
    if drained and snapshot.cpu.value is not None and not fits.passed:
        # The last gate before it is irrevocable would say so too, also of a node that is not Ready: load ends
        # it, so no back-off follows.
        return fits.says
    pod = _pod_that_needs(nodes, situation)
    if pod is not None:
        return f"{pod.full_name} is pending and would fit there"
    if operation.cause in REPLACED:
        return ""  # its successor holds the headroom
    return why_headroom_needs(snapshot, record, settings, [node.name for node in nodes])


def _could_come_back(operation: ScaleDown, situation: Situation) -> Iterator[Node]:
    for removal in operation.removals:
        node = _node(removal, situation)
        if removal.state in REVOCABLE and node is not None and node.ready:
            yield node


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
        if pod.tied_to_node:
            continue
        if _cannot_be_judged(pod):
            if _has_been_pending_long(situation):
                return pod
            continue
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
