"""Why a pod is pending: what each node lacks for it, and what is done about it. Pure: values in, text out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.offers import all_offers
from ebbtide.core.nodes.pending import why_none_fits
from ebbtide.core.words import count_of
from ebbtide.model.decision import Action, Verdict
from ebbtide.model.operation import Slot
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.scheduling import FitCause, Misfit
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

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


@dataclass(frozen=True, slots=True)
class Against:
    """What the same number of nodes lacks for a pod, whatever each has left of it."""

    cause: FitCause
    nodes: int
    says: str


@dataclass(frozen=True, slots=True)
class PodAnswer:
    cause: PodCause
    says: str
    nodes: tuple[Against, ...] = ()
    """What stands against the nodes that take pods now, what most of them share first."""
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
    fits, nodes = _against(pod, placement)
    if fits:
        have = "has" if fits == 1 else "have"
        says = f"{count_of(fits, 'node')} {have} room for it: the Kubernetes scheduler places it"
        return PodAnswer(PodCause.FITS, says, nodes, fits)
    new = (offer.room("new") for offer in all_offers(snapshot, record, settings))
    if hopeless := why_none_fits(pod, new):
        says = f"no type of any pool can take it ({hopeless.says}), so no node is added for it"
        return PodAnswer(PodCause.HOPELESS, says, nodes)
    coming = sum(not slot.settled for slot in _slots(record))
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


def _against(pod: Pod, placement: Placement) -> tuple[int, tuple[Against, ...]]:
    """How many nodes have room for it, and what the others lack. Nodes that lack the same share a line: a
    line for each amount says no more."""
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
    return fits, tuple(sorted(found, key=lambda each: -each.nodes)[:MOST_REASONS])


def _range(amounts: list[int], unit: str) -> str:
    least, most = min(amounts), max(amounts)
    return f"{least}{unit}" if least == most else f"{least}{unit} to {most}{unit}"


def _slots(record: Record) -> Iterator[Slot]:
    """All nodes on their way, for whatever reason."""
    for operation in (record.launching, record.removing):
        yield from operation.slots if operation else ()
    yield from (spot.slot for spot in record.spots if spot.slot)
