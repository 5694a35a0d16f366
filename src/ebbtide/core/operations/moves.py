"""Moving pods off the sources of a consolidation, a few at a time, and one source: a node that it empties.

    PLANNED   not touched yet                                      -> EVICTING, LEFT
    EVICTING  written, then evicted by UID; its successor starts   -> MOVED, LEFT
    MOVED     its controller has as many ready pods as before      (settled)
    LEFT      gone by itself, or given up                          (settled)

Room is asked for again before every eviction: all pods that are still to move must fit on nodes that are
no sources, the evicted one among them. The next few begin only when those before have all settled, so no
pod is on its way whose room could be counted twice. The states of a source:

    PLANNED    written, nothing done to it                            -> MARKED, RELEASED
    MARKED     a soft taint of ours keeps new pods away; pods move    -> EMPTIED, RELEASING
    EMPTIED    nothing is left on it that counts; it keeps its mark   (settled)
    RELEASING  given up, our soft taint is being lifted               -> RELEASED
    RELEASED   as before                                              (settled)

It is never cordoned here: where there is no other room, a pod may still come back to it. What is looked
at is always this instance with this node UID.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ebbtide.core.consolidation.pace import evicted_lately
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.drain import Disruptions, Treatment, judge
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.room import Room
from ebbtide.core.operations.removals import signed_by
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model.effect import Breach, Broken, Effect, Evict, Outcome, OutcomeKind, SoftTaint, Uncordon
from ebbtide.model.operation import AbortCause, Consolidate, Move, MoveState, Source, SourceState, Stop
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import Node

ALLOWED: dict[MoveState, frozenset[MoveState]] = {
    MoveState.PLANNED: frozenset({MoveState.EVICTING, MoveState.LEFT}),
    MoveState.EVICTING: frozenset({MoveState.MOVED, MoveState.LEFT}),
    MoveState.MOVED: frozenset(),
    MoveState.LEFT: frozenset(),
}
Advance = tuple[Source, tuple[Effect, ...]]

SOURCE_ALLOWED: dict[SourceState, frozenset[SourceState]] = {
    SourceState.PLANNED: frozenset({SourceState.MARKED, SourceState.RELEASED}),
    SourceState.MARKED: frozenset({SourceState.EMPTIED, SourceState.RELEASING}),
    SourceState.EMPTIED: frozenset(),
    SourceState.RELEASING: frozenset({SourceState.RELEASED}),
    SourceState.RELEASED: frozenset(),
}


def check_invariants(before: Move, after: Move) -> tuple[Broken, ...]:
    broken = []
    if after.state is not before.state and after.state not in ALLOWED[before.state]:
        broken.append(
            Broken(
                Breach.STATE,
                before.pod_name,
                f"the move of {before.pod_name} went from {before.state} to {after.state}",
            )
        )
    if (after.pod_uid, after.from_node) != (before.pod_uid, before.from_node):
        broken.append(
            Broken(Breach.IDENTITY, before.pod_name, f"the move of {before.pod_name} changed its pod")
        )
    return tuple(broken)


@dataclass(frozen=True, slots=True)
class Next:
    """Which pods may be evicted now; none if something must be waited for, or rules it out."""

    started: tuple[tuple[Move, Pod], ...] = ()
    waits: str = ""
    forbids: Stop | None = None


def pods_by_uid(situation: Situation) -> Mapping[str, Pod]:
    """Pods that are on a node and not finished."""
    return {pod.uid: pod for pods in situation.snapshot.cluster.pods_on.values() for pod in pods}


def settle(operation: Consolidate, situation: Situation) -> Consolidate:
    """Note what has come to pass: successors that are ready, pods that went, nodes that are empty."""
    there = pods_by_uid(situation)
    ready = _ready_by_owner(situation)
    settled = tuple(_settled(move, there, ready, situation) for move in operation.moves)
    busy = {move.from_node for move in settled if not move.settled}
    return replace(
        operation,
        moves=settled,
        sources=tuple(
            source if source.node_name in busy else emptied(source, situation) for source in operation.sources
        ),
    )


def _settled(move: Move, there: Mapping[str, Pod], ready: Mapping[str, int], situation: Situation) -> Move:
    # Crash table: move-crash. The runner may have died before the eviction: all checks run again.
    if move.pod_uid in there or move.settled:
        return move
    if move.state is MoveState.PLANNED:
        return to(move, MoveState.LEFT, situation, "it is no longer there")
    # Crash table: evicted-crash. The eviction shows in the pods of its controller, not in what a dead runner
    # knew.
    if ready.get(move.owner_uid, 0) >= move.owner_ready:
        return to(move, MoveState.MOVED, situation)
    return move


def _ready_by_owner(situation: Situation) -> Counter[str]:
    pods = situation.snapshot.cluster.pods_on.values()
    return Counter(pod.owner_uid for some in pods for pod in some if pod.ready and not pod.terminating)


def why_stop(operation: Consolidate, situation: Situation) -> Stop | None:
    """The move that did not come off in time, or whose pod has no place; empty while all goes well. What
    is as it should be is noted first, and time that no runner saw does not count."""
    seconds = situation.settings.consolidation.move_timeout_seconds
    operation = settle(operation, situation)
    there = pods_by_uid(situation)
    under_way = [move for move in operation.moves if move.state is MoveState.EVICTING]
    for move in under_way:
        pod = there.get(move.pod_uid)
        gone = pod is None or pod.terminating
        # Crash table: unwatched-time. A pod may have become ready while no runner looked.
        if gone and situation.now - max(move.since, operation.watched_since) >= seconds:
            late = f"{move.pod_name} was not ready elsewhere within {a_while(seconds)}"
            return Stop(AbortCause.NOT_READY, late)
    owners = {move.owner_uid for move in under_way}
    waiting = [pod for pod in situation.snapshot.cluster.waiting_pods if pod.owner_uid in owners]
    if waiting:
        placement = placement_of(situation.snapshot.cluster, _closed(operation, situation))
        for pod in waiting:
            if placement.first_fit(pod) is None:
                return Stop(AbortCause.NO_ROOM, f"{pod.full_name} waits, and fits on no node")
    return None


def next_moves(operation: Consolidate, situation: Situation) -> Next:
    """On a look that can be believed."""
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    healthy = gates.healthy(snapshot, record, settings)
    # A cluster in trouble, or with pods pending, gets no further disruption.
    if not healthy.passed:
        return Next(waits=healthy.says)
    waiting = snapshot.cluster.waiting_pods
    if waiting:
        return Next(waits=f"{waiting[0].full_name} waits for a node")
    there = pods_by_uid(situation)
    started = [move for move in operation.moves if move.state is MoveState.EVICTING]
    for move in started:
        # One that is on its way has no room yet: the next could be counted into the same room.
        if move.pod_uid not in there or there[move.pod_uid].terminating:
            return Next(waits=f"{move.pod_name} is on its way")
    homeless = _why_no_room(operation, there, situation)
    # Crash table: room-goes. Other pods may have taken the room since the plan was made.
    if homeless is not None:
        return Next(forbids=homeless)
    if started:
        return _judged(started, there, situation)
    running = sum(map(len, snapshot.cluster.pods_on.values()))
    most, done = settings.consolidation.moves_allowed(running), evicted_lately(record, situation.now)
    # A cluster in which pods always move serves nobody: the hour has a limit.
    if done >= most:
        return Next(waits=f"{done} pods were moved in the last hour, {most} are allowed")
    most = min(most - done, settings.consolidation.at_once(running))
    return _judged(list(_first_few(operation, most, situation)), there, situation)


def _first_few(operation: Consolidate, most: int, situation: Situation) -> Iterator[Move]:
    """In the order of the plan, only a few of one controller. They begin together, so each is counted
    against the same number of ready pods."""
    rules, ready = situation.settings.consolidation, _ready_by_owner(situation)
    taken: Counter[str] = Counter()
    for move in operation.moves:
        # All that move at a time must become ready elsewhere before the next do.
        if move.state is not MoveState.PLANNED or taken.total() >= most:
            continue
        if taken[move.owner_uid] < rules.at_once_of(ready[move.owner_uid]):
            taken[move.owner_uid] += 1
            yield move


def _judged(moves: list[Move], there: Mapping[str, Pod], situation: Situation) -> Next:
    disruptions = Disruptions(situation.snapshot.cluster.budgets)
    ready = _ready_by_owner(situation)
    players = situation.snapshot.players_of
    started: list[tuple[Move, Pod]] = []
    waits = ""
    for move in moves:
        pod = there[move.pod_uid]
        judgement = judge(pod, disruptions, situation.settings, players)
        if judgement.treatment is Treatment.WAIT:
            waits = judgement.says
        # Protected since the plan was made: its node cannot be emptied any more.
        elif judgement.treatment is not Treatment.EVICT:
            return Next(forbids=Stop(AbortCause.OTHER, judgement.says))
        elif move.state is MoveState.EVICTING:
            started.append((replace(move, since=situation.now), pod))
        else:
            asked = to(move, MoveState.EVICTING, situation)
            # What has no controller may be evicted where it says so; nothing takes its place.
            count = ready[pod.owner_uid] if pod.owner_uid else 0
            started.append((replace(asked, owner_uid=pod.owner_uid, owner_ready=count), pod))
    return Next(tuple(started), waits)


def eviction(pod: Pod) -> Evict:
    return Evict(pod.namespace, pod.name, pod.uid, pod.node_name, pod.grace_seconds)


def _why_no_room(operation: Consolidate, there: Mapping[str, Pod], situation: Situation) -> Stop | None:
    """The first pod that is still to move and would have no place next to the others."""
    placement = placement_of(situation.snapshot.cluster, _closed(operation, situation))
    names = {slot.key: slot.node_name for slot in operation.slots}
    for move in operation.moves:
        pod = there.get(move.pod_uid)
        if move.settled or pod is None or pod.terminating:
            continue
        room = _reserved(pod, placement, names.get(move.to_node, move.to_node))
        if room is None:
            return Stop(AbortCause.NO_ROOM, f"{pod.full_name} would fit on no other node any more")
        placement.place(pod, room)
    return None


def _reserved(pod: Pod, placement: Placement, name: str) -> Room | None:
    """The room that the plan has for it, or any other."""
    planned = placement.rooms.get(name)
    if planned is not None and not placement.why_not(pod, planned):
        return planned
    return placement.first_fit(pod)


def _closed(operation: Consolidate, situation: Situation) -> set[str]:
    """Nodes that nothing is to move to: the sources, and what leaves for another reason."""
    lost = doomed(situation.record)
    names = {source.node_name for source in operation.sources}
    names |= {node.node_name for node in situation.record.leaving}
    names |= {name for name, one in situation.snapshot.instance_of.items() if one.id in lost}
    return names


def to(move: Move, state: MoveState, situation: Situation, reason: str = "") -> Move:
    return replace(move, state=state, since=situation.now, reason=reason)


def check_source(before: Source, after: Source) -> tuple[Broken, ...]:
    broken = []
    if after.state is not before.state and after.state not in SOURCE_ALLOWED[before.state]:
        broken.append(
            Broken(
                Breach.STATE,
                before.node_name,
                f"source {before.node_name} went from {before.state} to {after.state}",
            )
        )
    if (after.instance_id, after.node_uid) != (before.instance_id, before.node_uid):
        broken.append(
            Broken(Breach.IDENTITY, before.node_name, f"source {before.node_name} changed its node")
        )
    return tuple(broken)


def observed_node(source: Source, situation: Situation) -> Node | None:
    """The node of this source, if it is still the same worker of ours on an instance that lives."""
    node = situation.snapshot.cluster.node_named.get(source.node_name)
    # Crash table: name-reused. Another node may have the name by now.
    if node is None or node.uid != source.node_uid or not node.worker:
        return None
    # A machine that is going is no place to take pods from: the cloud or a removal empties it.
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
        fenced = source_to(fenced, SourceState.MARKED, situation)
    return fenced, (SoftTaint(source.node_name, source.node_uid, operation_id),)


def emptied(source: Source, situation: Situation) -> Source:
    """Empty from now on, if it is marked and nothing is left on it that counts."""
    if source.state is not SourceState.MARKED or counting_pods(source.node_name, situation):
        return source
    return source_to(source, SourceState.EMPTIED, situation)


def fence(source: Source, situation: Situation) -> Source:
    """Remember until when evictions from the node may be sent under this token."""
    return replace(source, fence_token=situation.lease.token, fence_until=situation.effects_until)


def release(source: Source, situation: Situation, reason: str) -> Source:
    """Give it up; what was never touched needs nothing more, and what is empty already stays so."""
    match source.state:
        case SourceState.PLANNED:
            return source_to(source, SourceState.RELEASED, situation, reason)
        case SourceState.MARKED:
            return source_to(source, SourceState.RELEASING, situation, reason)
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
    # Crash table: stalled-consolidation. Without the mark, a late eviction would hit a node in use.
    if not same_runner and not passed_on and situation.now < stalled_until:
        return source, ()
    node = situation.snapshot.cluster.node_named.get(source.node_name)
    same = node is not None and node.uid == source.node_uid and signed_by(node, operation_id)
    # Crash table: cordon-crash. Only our own mark is lifted.
    if node is None or node.owner is None or not same:
        return source_to(source, SourceState.RELEASED, situation, source.reason), ()
    return source, (Uncordon(node.name, node.uid, operation_id, node.owner.token),)


def absorb_source(source: Source, outcome: Outcome, situation: Situation) -> Source:
    """Another signed the node since: it is theirs, and must not hold this operation open."""
    match outcome.effect:
        case Uncordon(node_uid=uid) if uid == source.node_uid:
            if outcome.kind is OutcomeKind.REFUSED and source.state is SourceState.RELEASING:
                return source_to(source, SourceState.RELEASED, situation, outcome.detail)
        case _:
            pass
    return source


def source_to(source: Source, state: SourceState, situation: Situation, reason: str = "") -> Source:
    return replace(source, state=state, since=situation.now, reason=reason)
