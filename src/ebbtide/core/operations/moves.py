"""Moving pods off the sources of a consolidation, a few at a time.

    PLANNED   not touched yet                                      -> EVICTING, LEFT
    EVICTING  written, then evicted by UID; its successor starts   -> MOVED, LEFT
    MOVED     its controller has as many ready pods as before      (settled)
    LEFT      gone by itself, or given up                          (settled)

Room is asked for again before every eviction: all pods that are still to move must fit on nodes that are
no sources, the evicted one among them. The next few begin only when those before have all settled, so
no pod is on its way whose room could be counted twice.
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
from ebbtide.core.operations import sources
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model.effect import Evict
from ebbtide.model.operation import AbortCause, Consolidate, Move, MoveState, Stop
from ebbtide.model.pod import Pod

ALLOWED: dict[MoveState, frozenset[MoveState]] = {
    MoveState.PLANNED: frozenset({MoveState.EVICTING, MoveState.LEFT}),
    MoveState.EVICTING: frozenset({MoveState.MOVED, MoveState.LEFT}),
    MoveState.MOVED: frozenset(),
    MoveState.LEFT: frozenset(),
}


def check_invariants(before: Move, after: Move) -> tuple[str, ...]:
    broken = []
    if after.state is not before.state and after.state not in ALLOWED[before.state]:
        broken.append(f"the move of {before.pod_name} went from {before.state} to {after.state}")
    if (after.pod_uid, after.from_node) != (before.pod_uid, before.from_node):
        broken.append(f"the move of {before.pod_name} changed its pod")
    return tuple(broken)


@dataclass(frozen=True, slots=True)
class Next:
    """Which pods may be evicted now; none where something must be waited for, or forbids it for good."""

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
            source if source.node_name in busy else sources.emptied(source, situation)
            for source in operation.sources
        ),
    )


def _settled(move: Move, there: Mapping[str, Pod], ready: Mapping[str, int], situation: Situation) -> Move:
    # Crash table: move-crash.
    if move.pod_uid in there or move.settled:
        return move
    if move.state is MoveState.PLANNED:
        return to(move, MoveState.LEFT, situation, "it is no longer there")
    # Crash table: evicted-crash.
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
        # Crash table: unwatched-time.
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
    if not healthy.passed:
        return Next(waits=healthy.says)
    waiting = snapshot.cluster.waiting_pods
    if waiting:
        return Next(waits=f"{waiting[0].full_name} waits for a node")
    there = pods_by_uid(situation)
    started = [move for move in operation.moves if move.state is MoveState.EVICTING]
    for move in started:
        if move.pod_uid not in there or there[move.pod_uid].terminating:
            return Next(waits=f"{move.pod_name} is on its way")
    homeless = _why_no_room(operation, there, situation)
    # Crash table: room-goes.
    if homeless is not None:
        return Next(forbids=homeless)
    if started:
        return _judged(started, there, situation)
    running = sum(map(len, snapshot.cluster.pods_on.values()))
    most, done = settings.consolidation.moves_allowed(running), evicted_lately(record, situation.now)
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
