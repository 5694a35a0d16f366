"""Why a consolidation must stop: what cannot wait for its end, and what has made its plan untrue."""

from __future__ import annotations

from ebbtide.core import gates
from ebbtide.core.operations import moves, sources
from ebbtide.core.operations.removals import signed_by
from ebbtide.core.operations.situation import Situation
from ebbtide.model.operation import Consolidate, SlotState, SourceState

LONGEST = 3
"""After so many times the longest that another operation may take, it is given up; the shell would set
aside what takes longer still."""


def why_stop(operation: Consolidate, situation: Situation) -> str:
    """Whatever must not wait for the end of a consolidation, or has made its plan untrue."""
    record, settings, now = situation.record, situation.settings, situation.now
    paused = gates.not_paused(record)
    if not paused.passed:
        return paused.says
    if record.spots:
        return f"{record.spots[0].kind} of {record.spots[0].instance_id} is being answered"
    high = gates.load_is_high(situation.snapshot, settings)
    if high:
        return high
    waited = now - record.pending_since
    if record.pending_since and waited >= settings.pending_up_seconds:
        return f"pods have waited {waited} s meanwhile"
    longest = LONGEST * max(settings.stuck_seconds, settings.join_timeout_seconds)
    if now - operation.started_at >= longest:
        return f"not finished after {longest} s"
    for slot in operation.slots:
        # Another offer than the planned one may be dearer, or too small for what is to move there.
        if slot.refused or slot.terminated or (slot.settled and slot.state is not SlotState.READY):
            return f"{slot.key} did not come: {slot.reason}"
    if not gates.plausible(situation.snapshot, record, settings).passed:
        return ""  # what is missing may only be hidden by a list that is old or not whole
    return _why_sources_changed(operation, situation) or _why_moves_stop(operation, situation)


def _why_sources_changed(operation: Consolidate, situation: Situation) -> str:
    planned = {move.pod_uid for move in operation.moves}
    for source in operation.sources:
        if source.settled:
            continue
        node = sources.observed_node(source, situation)
        if node is None:
            return f"{source.node_name} is not the node it was"
        if node.unschedulable:
            return f"{source.node_name} was cordoned meanwhile"
        if node.owner is not None and not signed_by(node, operation.id):
            return f"{source.node_name} belongs to operation {node.owner.operation_id}"
        for pod in sources.counting_pods(source.node_name, situation):
            if pod.uid not in planned and not pod.terminating:
                return f"{pod.full_name} came onto {source.node_name}"
    return ""


def _why_moves_stop(operation: Consolidate, situation: Situation) -> str:
    reason = moves.why_stop(operation, situation)
    marked = [source.since for source in operation.sources if source.state is SourceState.MARKED]
    if reason or not marked:
        return reason
    seconds = situation.settings.consolidation.move_timeout_seconds
    progress = max([operation.watched_since, *marked, *(move.since for move in operation.moves)])
    if situation.now - progress < seconds or moves.settle(operation, situation) != operation:
        return ""
    following = moves.next_moves(operation, situation)
    if following.begun or following.forbids:
        return following.forbids
    return f"nothing could be moved for {seconds} s" + (f": {following.waits}" if following.waits else "")
