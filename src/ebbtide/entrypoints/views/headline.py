"""What is going on, in one sentence that a person understands in ten seconds, and why a pod is pending.
Pure: values in, text out.

The last tick's own sentence says what was decided; this one says what that means now: how many nodes come
or go, for whom, and how long it usually takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.gates import in_disruption
from ebbtide.core.nodes.offers import all_offers
from ebbtide.core.nodes.pending import why_none_fits
from ebbtide.core.words import a_while, count_of, names_of
from ebbtide.model import operation as ops
from ebbtide.model.decision import Action, Verdict
from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.pod import FitCause, Misfit, Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

MOST_REASONS = 20


class PodCause(StrEnum):
    """What is done about a pod."""

    NOT_PENDING = "not_pending"
    FITS = "fits"
    """Nodes have room for it: the Kubernetes scheduler places it."""
    HOPELESS = "hopeless"
    """No node that could be launched would take it."""
    COMING = "coming"
    """Nodes are being added."""
    HELD = "held"
    """A check of the newest decision does not hold."""
    UNDECIDED = "undecided"
    """The next tick decides."""


class UnschedulableCause(StrEnum):
    """Why a node takes no new pod, whatever room it has."""

    LEAVING = "node_leaving"
    CORDONED = "node_cordoned"
    NOT_READY = "node_not_ready"


CLOSED_TO_PODS = {
    UnschedulableCause.LEAVING: "is being removed and accepts no new pods",
    UnschedulableCause.CORDONED: "cordoned: it accepts no new pods",
    UnschedulableCause.NOT_READY: "not ready",
}


@dataclass(frozen=True, slots=True)
class Against:
    """What the same number of nodes lacks for a pod, whatever each has left of it."""

    cause: FitCause | UnschedulableCause
    nodes: int
    says: str


@dataclass(frozen=True, slots=True)
class PodAnswer:
    cause: PodCause
    says: str
    nodes: tuple[Against, ...] = ()
    """What stands against the nodes, what most of them share first."""
    count: int = 0
    """How many nodes have room for it, or are being added."""
    about: str = ""
    """The check that does not hold."""

    @property
    def pending(self) -> bool:
        return self.cause is not PodCause.NOT_PENDING


def why_pending(
    pod: Pod, snapshot: Snapshot, record: Record, settings: Settings, verdicts: tuple[Verdict, ...]
) -> PodAnswer:
    """`verdicts` are those of the newest decision."""
    if not pod.waiting:
        says = f"it is not pending: it is on {pod.node_name or 'no node and is ending'}"
        return PodAnswer(PodCause.NOT_PENDING, says)
    placement = placement_of(snapshot.cluster, coming=[pod])
    fits, against = _against(pod, placement)
    against += _accepts_no_pods(snapshot.cluster, record)
    nodes = tuple(sorted(against, key=lambda each: -each.nodes)[:MOST_REASONS])
    if fits:
        have = "has" if fits == 1 else "have"
        says = f"{count_of(fits, 'node')} {have} room for it: the Kubernetes scheduler places it"
        return PodAnswer(PodCause.FITS, says, nodes, fits)
    new = (offer.room("new") for offer in all_offers(snapshot, record, settings))
    if hopeless := why_none_fits(pod, new):
        says = f"no type of any pool can take it ({hopeless.says}), so no node is added for it"
        return PodAnswer(PodCause.HOPELESS, says, nodes)
    coming = sum(not slot.settled for slot in slots_of(record))
    if coming:
        verb = "is" if coming == 1 else "are"
        says = f"no node has room for it; {count_of(coming, 'node')} {verb} being added"
        return PodAnswer(PodCause.COMING, says, nodes, coming)
    asked = next((verdict for verdict in verdicts if verdict.action is Action.SCALE_UP), None)
    held = asked.failed if asked else None
    cause = PodCause.HELD if held else PodCause.UNDECIDED
    why = held.says if held else "the next tick decides"
    says = f"no node has room for it, and none is being added: {why}"
    return PodAnswer(cause, says, nodes, about=held.name if held else "")


def _accepts_no_pods(cluster: ClusterView, record: Record) -> list[Against]:
    """Nodes that take no pods now: the table of a pod accounts for every node."""
    leaving = {one.node_name for one in in_disruption(record)}
    found = Counter(
        UnschedulableCause.NOT_READY
        if not node.ready
        else UnschedulableCause.LEAVING
        if node.name in leaving
        else UnschedulableCause.CORDONED
        for node in cluster.nodes
        if node.unschedulable or not node.ready
    )
    return [Against(cause, count, CLOSED_TO_PODS[cause]) for cause, count in found.items()]


def _against(pod: Pod, placement: Placement) -> tuple[int, list[Against]]:
    """How many nodes have room for it, and what the others that take pods lack. Nodes that lack the same
    share a line: a line for each amount says no more."""
    fits, free = 0, dict[FitCause, list[int]]()
    against: Counter[Misfit] = Counter()
    for room in placement.rooms.values():
        why = placement.why_not(pod, room)
        if why is None:
            fits += 1
        elif why.cause in (FitCause.CPU, FitCause.MEMORY):
            free.setdefault(why.cause, []).append(why.limit)
        else:
            against[why] += 1
    cpu, memory = free.get(FitCause.CPU, []), free.get(FitCause.MEMORY, [])
    found = [Against(why.cause, nodes, why.says) for why, nodes in against.items()]
    if cpu:
        says = f"needs {pod.requests.cpu_milli}m CPU, {_range(cpu, 'm')} free"
        found.append(Against(FitCause.CPU, len(cpu), says))
    if memory:
        says = f"needs {pod.requests.memory_mib} MiB memory, {_range(memory, ' MiB')} free"
        found.append(Against(FitCause.MEMORY, len(memory), says))
    return fits, found


def _range(amounts: list[int], unit: str) -> str:
    least, most = min(amounts), max(amounts)
    return f"{least}{unit}" if least == most else f"{least}{unit} to {most}{unit}"


def slots_of(record: Record) -> Iterator[ops.Slot]:
    """All nodes on their way, for whatever reason."""
    for operation in (record.launching, record.removing):
        yield from operation.slots if operation else ()
    yield from (spot.slot for spot in record.spots if spot.slot)


LONG_SECONDS = 90
TO_LEAVE = (ops.RemovalState.PLANNED, ops.RemovalState.DRAINING)


@dataclass(frozen=True, slots=True)
class HeadlineSituation:
    """All that the headline is made of."""

    record: Record
    cluster: ClusterView
    now: int
    unread: tuple[str, ...] = ()
    """What cannot be read now: cluster, cloud."""
    usual_seconds: int = 0
    """How long a launch took lately, until its last node was Ready; 0 where none is known."""
    pending_up_seconds: int = 0
    """How long pods are pending before a node is launched for them."""
    silent_seconds: int = 0
    """Since the last tick, where Ebbtide no longer ticks."""
    unmeasured: bool = False
    """Whether the metrics cannot be read."""


def headline(here: HeadlineSituation) -> str:
    if here.unread:
        return f"The {here.unread[0]} cannot be read: no node is added or removed until it answers"
    if here.silent_seconds:
        since = a_while(here.silent_seconds)
        return f"Ebbtide has not ticked for {since}: no node is added or removed until it ticks again"
    parts = [*_spots(here), *_launching(here), *_removing(here)]
    if parts:
        first, *rest = parts
        return "; ".join([first, *(part[0].lower() + part[1:] for part in rest)])
    return _at_rest(here)


def _at_rest(here: HeadlineSituation) -> str:
    pending, nodes = len(here.cluster.waiting_pods), count_of(len(here.cluster.workers), "node")
    paused = ", and removals are paused" if here.record.paused else ""
    if pending:
        verb = "is" if pending == 1 else "are"
        what = "the next tick decides about nodes" if _undecided(here) else "no node is being added"
        return f"{count_of(pending, 'pod')} {verb} pending; {what}{paused}"
    pods = sum(len(found) for found in here.cluster.pods_on.values())
    what = "Nothing to do"
    if here.unmeasured:
        what = "No node counts as idle while CPU is unknown"
    return f"{what}: {nodes} for {count_of(pods, 'pod')}, none pending{paused}{_empty(here)}"


def _empty(here: HeadlineSituation) -> str:
    """Nodes that a person sees empty while there is nothing to do: their time has not come yet."""
    noted = {one.node_uid for one in here.record.emptied}
    pods_on = here.cluster.pods_on
    count = sum(
        node.uid in noted and all(pod.tied_to_node for pod in pods_on.get(node.name, ()))
        for node in here.cluster.workers
    )
    if not count:
        return ""
    which = "1 node is empty and stays" if count == 1 else f"{count} nodes are empty and stay"
    return f"; {which} for now"


def lease_says(record: Record, now: int) -> str:
    """Who may scale. A lease that ended without being released means a crash."""
    owner, left = record.lock_owner, record.lock_until - now
    if not owner:
        says = "free"
    elif left > 0:
        says = f"held by {owner} for another {a_while(left)}"
    else:
        says = f"free: {owner} had it and let it end {a_while(-left)} ago, as after a crash"
    if not record.spots:
        return says
    have = "has a lease of its own" if len(record.spots) == 1 else "have leases of their own"
    return f"{says}; {count_of(len(record.spots), 'spot notice')} {have}"


def _undecided(here: HeadlineSituation) -> bool:
    """Whether the pods came after the last tick, or were too new for it."""
    record = here.record
    waited = record.ticked_at - record.pending_since
    return bool(record.ticked_at) and (not record.pending_since or waited < here.pending_up_seconds)


def _spots(here: HeadlineSituation) -> Iterator[str]:
    sure = [spot for spot in here.record.spots if spot.kind is ops.SpotKind.INTERRUPTION]
    risky = [spot for spot in here.record.spots if spot.kind is ops.SpotKind.REBALANCE]
    lost = [spot for spot in sure if spot.deadline > here.now]
    late = len(sure) - len(lost)
    if lost:
        left = a_while(min(spot.deadline for spot in lost) - here.now)
        yield f"The cloud takes back {count_of(len(lost), 'spot node')} in {left}; {_pods_of(lost)}"
    elif late:
        yield f"The cloud took back {count_of(late, 'spot node')}; replacing what is needed"
    if risky:
        first = "a replacement comes first" if len(risky) == 1 else "replacements come first"
        how = first if all(map(_awaits_replacement, risky)) else _pods_of(risky)
        yield f"The cloud may soon take back {count_of(len(risky), 'spot node')}; {how}"


def _pods_of(spots: Sequence[ops.Spot]) -> str:
    left = all(spot.removal is not None and spot.removal.state not in TO_LEAVE for spot in spots)
    return "no pod is left to move" if left else "moving the pods"


def _awaits_replacement(spot: ops.Spot) -> bool:
    """Where nothing was taken back yet, no pod moves before its new place is there."""
    moves = spot.removal is not None and spot.removal.state is not ops.RemovalState.PLANNED
    return spot.slot is not None and spot.slot.state is not ops.SlotState.READY and not moves


def _launching(here: HeadlineSituation) -> Iterator[str]:
    work = here.record.launching
    if work is None:
        return
    coming = sum(not slot.settled for slot in work.slots)
    if not coming:
        return
    pending = len(here.cluster.waiting_pods)
    why = f" for {count_of(pending, 'pending pod')}" if pending else ""
    yield f"Adding {count_of(coming, 'node')}{why}{_ready_in(here, work)}"


def _ready_in(here: HeadlineSituation, work: ops.ScaleUp | ops.Consolidate) -> str:
    """By what launches took lately. One that takes longer is reported as that: no promise is broken twice."""
    began = min((slot.since for slot in work.slots if slot.since and not slot.settled), default=0)
    if not here.usual_seconds or not began:
        return ""
    left = began + here.usual_seconds - here.now
    if left <= 0:
        return f"; this takes longer than the usual {_about(here.usual_seconds)}"
    return f"; ready in about {_about(left)}"


def _about(seconds: int) -> str:
    """`40 s`, `2 min`: an estimate has no seconds after its minutes. Rounded as in the timeline below it."""
    if seconds < LONG_SECONDS:
        return f"{max(10, (seconds + 5) // 10 * 10)} s"
    return f"{(seconds + 30) // 60} min"


def _removing(here: HeadlineSituation) -> Iterator[str]:
    match here.record.removing:
        case ops.ScaleDown() as work:
            yield from _scale_down(here, work)
        case ops.Consolidate() as work:
            yield from _consolidation(work)
        case None:
            return


def _scale_down(here: HeadlineSituation, work: ops.ScaleDown) -> Iterator[str]:
    going = [one for one in work.removals if not one.settled and one.dooms]
    back = [one for one in work.removals if one.state is ops.RemovalState.RELEASING]
    if back and not going:
        yield f"Keeping {names_of([_name(one) for one in back])} after all: {work.abort_reason}"
    if not going:
        return
    held = {one.reason for one in going if one.state is ops.RemovalState.DRAINED}
    if all(one.state is ops.RemovalState.DRAINED for one in going) and all(held):
        names = names_of([_name(one) for one in going], 2)
        yield f"Not removing {names} yet: {'; '.join(sorted(held))}"
        return
    left = pods_to_leave(here.cluster, [one for one in going if one.state in TO_LEAVE])
    how = f"{count_of(left, 'pod')} still to move" if left else "no pod is left on them"
    if len(going) == 1 and not left:
        how = "no pod is left on it"
    yield f"Removing {names_of([_name(one) for one in going], 2)}; {how}"


def _consolidation(work: ops.Consolidate) -> Iterator[str]:
    moved = sum(move.state is ops.MoveState.MOVED for move in work.moves)
    open_nodes = [one.node_name for one in work.sources if one.state is not ops.SourceState.RELEASED]
    if not open_nodes:
        yield f"Ending a consolidation: {work.abort_reason or 'its nodes are back in service'}"
        return
    coming = sum(slot.state is not ops.SlotState.READY and not slot.settled for slot in work.slots)
    first = f"{count_of(coming, 'cheaper node')} first, " if coming else ""
    pods = f"{moved} of {count_of(len(work.moves), 'pod')} moved"
    yield f"Consolidating: {first}emptying {names_of(open_nodes, 2)}; {pods}"


def _name(removal: ops.Removal) -> str:
    return removal.node_name or removal.instance_id


def pods_to_leave(cluster: ClusterView, removals: Iterable[ops.Removal]) -> int:
    """Pods that a drain has still to move; what runs on every node stays with its node."""
    return sum(not pod.tied_to_node for one in removals for pod in cluster.pods_on.get(one.node_name, ()))


def usual_seconds(closed: Sequence[tuple[int, OperationClosed]]) -> int:
    """The middle of what scale-ups took lately, by the times at which they were closed."""
    took = [
        at - fact.started_at
        for at, fact in closed
        if fact.operation is OperationKind.SCALE_UP and fact.succeeded and fact.ready
    ]
    return round(median(took)) if took else 0
