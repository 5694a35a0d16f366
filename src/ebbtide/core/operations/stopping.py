"""Why a consolidation must stop: what cannot wait for its end, and what has made its plan untrue."""

from __future__ import annotations

from ebbtide.core.nodes import gates
from ebbtide.core.operations import moves, sources
from ebbtide.core.operations.removals import signed_by
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model.operation import AbortCause, Consolidate, SlotState, SourceState, Stop

LONGEST = 3
"""After so many times the longest that another operation may take, it is given up; the shell would set
aside what takes longer still."""


def why_stop(operation: Consolidate, situation: Situation) -> Stop | None:
    """Whatever must not wait for the end of a consolidation, or has made its plan untrue."""
    record, settings, now = situation.record, situation.settings, situation.now
    paused = gates.not_paused(record)
    if not paused.passed:
        return Stop(AbortCause.PAUSED, paused.says)
    if record.spots:
        notice = record.spots[0]
        return Stop(AbortCause.SPOT, f"{notice.kind} of {notice.instance_id} is being answered")
    high = gates.load_is_high(situation.snapshot, settings)
    if high:
        return Stop(AbortCause.LOAD, high)
    waited = now - record.pending_since
    if record.pending_since and waited >= settings.pending_up_seconds:
        return Stop(AbortCause.PODS_WAITING, f"pods have been pending for {a_while(waited)}")
    longest = LONGEST * max(settings.stuck_seconds, settings.join_timeout_seconds)
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
        node = sources.observed_node(source, situation)
        if node is None:
            return Stop(AbortCause.CHANGED, f"{source.node_name} is not the node it was")
        if node.unschedulable:
            return Stop(AbortCause.CHANGED, f"{source.node_name} was cordoned meanwhile")
        if node.owner is not None and not signed_by(node, operation.id):
            owner = node.owner.operation_id
            return Stop(AbortCause.CHANGED, f"{source.node_name} belongs to operation {owner}")
        for pod in sources.counting_pods(source.node_name, situation):
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
