"""One node that consolidation empties.

    PLANNED    written, nothing done to it                            -> MARKED, RELEASED
    MARKED     a soft taint of ours keeps new pods away; pods move    -> EMPTIED, RELEASING
    EMPTIED    nothing is left on it that counts; it keeps its mark   (settled)
    RELEASING  given up, our soft taint is being lifted               -> RELEASED
    RELEASED   as before                                              (settled)

It is never cordoned here: where there is no other room, a pod may still come back to it. What is looked
at is always this instance with this node UID.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.operations.removals import signed_by
from ebbtide.core.operations.situation import Situation
from ebbtide.model.effect import Effect, Outcome, OutcomeKind, SoftTaint, Uncordon
from ebbtide.model.node import Node
from ebbtide.model.operation import Source, SourceState
from ebbtide.model.pod import Pod

Advance = tuple[Source, tuple[Effect, ...]]

ALLOWED: dict[SourceState, frozenset[SourceState]] = {
    SourceState.PLANNED: frozenset({SourceState.MARKED, SourceState.RELEASED}),
    SourceState.MARKED: frozenset({SourceState.EMPTIED, SourceState.RELEASING}),
    SourceState.EMPTIED: frozenset(),
    SourceState.RELEASING: frozenset({SourceState.RELEASED}),
    SourceState.RELEASED: frozenset(),
}


def check_invariants(before: Source, after: Source) -> tuple[str, ...]:
    broken = []
    if after.state is not before.state and after.state not in ALLOWED[before.state]:
        broken.append(f"source {before.node_name} went from {before.state} to {after.state}")
    if (after.instance_id, after.node_uid) != (before.instance_id, before.node_uid):
        broken.append(f"source {before.node_name} changed its node")
    return tuple(broken)


def observed_node(source: Source, situation: Situation) -> Node | None:
    """The node of this source, if it is still the same worker of ours on an instance that lives."""
    node = situation.snapshot.cluster.node_named.get(source.node_name)
    # Crash table: name-reused.
    if node is None or node.uid != source.node_uid or not node.worker:
        return None
    instance = situation.snapshot.instance_with_id.get(source.instance_id)
    return node if instance is not None and instance.alive else None


def counting_pods(node_name: str, situation: Situation) -> tuple[Pod, ...]:
    """What keeps the node from being empty."""
    pods = situation.snapshot.cluster.pods_on.get(node_name, ())
    return tuple(pod for pod in pods if not pod.tied_to_node)


def mark(source: Source, operation_id: str, situation: Situation) -> Advance:
    """Ask for the soft taint, for as long as it is not seen."""
    node = observed_node(source, situation)
    if source.state is SourceState.MARKED and node is not None and signed_by(node, operation_id):
        return source, ()
    fenced = replace(source, fence_token=situation.lease.token, fence_until=situation.effects_until)
    if source.state is SourceState.PLANNED:
        fenced = to(fenced, SourceState.MARKED, situation)
    return fenced, (SoftTaint(source.node_name, source.node_uid, operation_id),)


def emptied(source: Source, situation: Situation) -> Source:
    """Empty from now on, if it is marked and nothing is left on it that counts."""
    if source.state is not SourceState.MARKED or counting_pods(source.node_name, situation):
        return source
    return to(source, SourceState.EMPTIED, situation)


def fence(source: Source, situation: Situation) -> Source:
    """Remember until when evictions from the node may be sent under this token."""
    return replace(source, fence_token=situation.lease.token, fence_until=situation.effects_until)


def release(source: Source, situation: Situation, reason: str) -> Source:
    """Give it up; what was never touched needs nothing more, and what is empty already stays so."""
    match source.state:
        case SourceState.PLANNED:
            return to(source, SourceState.RELEASED, situation, reason)
        case SourceState.MARKED:
            return to(source, SourceState.RELEASING, situation, reason)
        case _:
            return source


def advance_release(source: Source, operation_id: str, situation: Situation) -> Advance:
    """Lift the mark, once a runner that stalled can no longer be sending anything about the node; a node
    that the cloud is reclaiming is handed to the answer to its notice at once."""
    if source.state is not SourceState.RELEASING:
        return source, ()
    stalled_until = source.fence_until + situation.settings.request_timeout_seconds
    same_runner = source.fence_token == situation.lease.token
    passed_on = situation.notice_for(source.instance_id) is not None
    # Crash table: stalled-consolidation.
    if not same_runner and not passed_on and situation.now < stalled_until:
        return source, ()
    node = situation.snapshot.cluster.node_named.get(source.node_name)
    same = node is not None and node.uid == source.node_uid and signed_by(node, operation_id)
    # Crash table: cordon-crash.
    if node is None or node.owner is None or not same:
        return to(source, SourceState.RELEASED, situation, source.reason), ()
    return source, (Uncordon(node.name, node.uid, operation_id, node.owner.token),)


def absorb_source(source: Source, outcome: Outcome, situation: Situation) -> Source:
    """Another signed the node since: it is theirs, and must not hold this operation open."""
    match outcome.effect:
        case Uncordon(node_uid=uid) if uid == source.node_uid:
            if outcome.kind is OutcomeKind.REFUSED and source.state is SourceState.RELEASING:
                return to(source, SourceState.RELEASED, situation, outcome.detail)
        case _:
            pass
    return source


def to(source: Source, state: SourceState, situation: Situation, reason: str = "") -> Source:
    return replace(source, state=state, since=situation.now, reason=reason)
