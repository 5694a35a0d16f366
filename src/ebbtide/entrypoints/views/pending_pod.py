"""Why a pod is pending: what each node lacks for it, and what is done about it. Pure: values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.offers import all_offers
from ebbtide.core.nodes.room import refused_by_node
from ebbtide.core.words import count_of
from ebbtide.model.decision import Action, Verdict
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class PodAnswer:
    pending: bool
    says: str
    nodes: tuple[tuple[str, int], ...] = ()
    """What stands against the nodes that take pods now, and how many of them share it."""


def why_pending(
    pod: Pod, snapshot: Snapshot, record: Record, settings: Settings, verdicts: tuple[Verdict, ...]
) -> PodAnswer:
    """`verdicts` are those of the newest decision."""
    if not pod.waiting:
        return PodAnswer(False, f"it is not pending: it is on {pod.node_name or 'no node and is ending'}")
    placement = placement_of(snapshot.cluster, coming=[pod])
    against = _against(pod, placement)
    fits = against.pop("", 0)
    nodes = tuple(against.most_common(MOST_REASONS))
    if fits:
        have = "has" if fits == 1 else "have"
        says = f"{count_of(fits, 'node')} {have} room for it: the Kubernetes scheduler places it"
        return PodAnswer(True, says, nodes)
    if hopeless := _why_hopeless(pod, snapshot, record, settings):
        says = f"no type of any pool can take it ({hopeless}), so no node is added for it"
        return PodAnswer(True, says, nodes)
    coming = sum(not slot.settled for slot in _slots(record))
    if coming:
        verb = "is" if coming == 1 else "are"
        return PodAnswer(
            True, f"no node has room for it; {count_of(coming, 'node')} {verb} being added", nodes
        )
    asked = next((verdict for verdict in verdicts if verdict.action is Action.SCALE_UP), None)
    held = asked.failed.says if asked and asked.failed else "the next tick decides"
    return PodAnswer(True, f"no node has room for it, and none is being added: {held}", nodes)


def _against(pod: Pod, placement: Placement) -> Counter[str]:
    """Nodes that lack the same share a line, whatever each has left of it: a line for each amount says no
    more."""
    against: Counter[str] = Counter()
    cpu, memory = [], []
    for room in placement.rooms.values():
        if pod.requests.cpu_milli > max(room.cpu_milli, 0):
            cpu.append(max(room.cpu_milli, 0))
        elif pod.requests.memory_mib > max(room.memory_mib, 0):
            memory.append(max(room.memory_mib, 0))
        else:
            against[placement.why_not(pod, room)] += 1
    if cpu:
        against[f"needs {pod.requests.cpu_milli}m CPU, {_range(cpu, 'm')} free"] = len(cpu)
    if memory:
        against[f"needs {pod.requests.memory_mib} MiB memory, {_range(memory, ' MiB')} free"] = len(memory)
    return against


def _range(amounts: list[int], unit: str) -> str:
    least, most = min(amounts), max(amounts)
    return f"{least}{unit}" if least == most else f"{least}{unit} to {most}{unit}"


def _slots(record: Record) -> Iterator[Slot]:
    """All nodes on their way, for whatever reason."""
    for operation in (record.launching, record.removing):
        yield from operation.slots if operation else ()
    yield from (spot.slot for spot in record.spots if spot.slot)


def _why_hopeless(pod: Pod, snapshot: Snapshot, record: Record, settings: Settings) -> str:
    """Why no node that could be launched would take it; empty when one would."""
    reason = "no pool is configured"
    for offer in all_offers(snapshot, record, settings):
        room = offer.room("new")
        reason = room.lacks(pod.requests) or refused_by_node(pod.scheduling, room)
        if not reason:
            return ""
    return reason
