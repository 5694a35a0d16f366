"""Headroom: room that is kept free as if so many pods of one size ran there.

It is modelled by phantoms: pods that exist only in a plan. They are placed after all real pods, so they never
take a node from one, and they never count as pending. A scale-up launches what is missing. A removal that
would reduce headroom is refused, unless a maximum keeps a pending pod from a node: then headroom gives way,
one node at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ebbtide.core.nodes.capacity import doomed, held_by_pool, total
from ebbtide.core.nodes.launching import LaunchLimits, LaunchSketch
from ebbtide.core.nodes.offers import all_offers, expected_placement
from ebbtide.core.nodes.pending import MIB_PER_CPU
from ebbtide.core.nodes.room import ZONE_LABEL, Room, given_back, refused_by_node, room_of
from ebbtide.core.schedule import is_open
from ebbtide.core.words import a_while
from ebbtide.model.check import Check, Gate
from ebbtide.model.names import POOL
from ebbtide.model.pod import Pod, PodPhase, Requirement, Resources, Scheduling, SelectorOperator, Toleration
from ebbtide.model.pool import Headroom, HeadroomSeen, Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

NAMESPACE = "headroom"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A headroom that is to be kept now, and where."""

    number: int
    headroom: Headroom
    scheduling: Scheduling


def described(headroom: Headroom) -> str:
    """The headroom in words, as it was configured or is expected."""
    if headroom.expected:
        return headroom.expected
    pods = "1 pod" if headroom.count == 1 else f"{headroom.count} pods"
    parts = [f"{pods} of {headroom.cpu_milli}m CPU and {headroom.memory_mib} MiB"]
    if headroom.pool:
        parts.append(f"in pool {headroom.pool}")
    if headroom.zones:
        parts.append(f"in {' or '.join(headroom.zones)}")
    if window := headroom.window:
        parts.append(f"from {window.cron!r} in {window.zone} for {a_while(window.duration_seconds)}")
    return " ".join(parts)


def wanted_now(settings: Settings, now: int) -> tuple[Wanted, ...]:
    """Largest pods first. A pool that sleeps is kept awake by no headroom."""
    asleep = tuple(pool.name for pool in settings.pools if pool.may_be_empty)
    found = []
    for number, headroom in enumerate(settings.headroom):
        closed = headroom.window is not None and not is_open(headroom.window, now)
        if headroom.count and not closed and headroom.pool not in asleep:
            found.append(Wanted(number, headroom, _scheduling(headroom, settings, asleep)))
    return tuple(sorted(found, key=lambda one: -_weight(one.headroom)))


def _weight(headroom: Headroom) -> float:
    return headroom.cpu_milli / 1000 + headroom.memory_mib / MIB_PER_CPU


def _scheduling(headroom: Headroom, settings: Settings, asleep: tuple[str, ...]) -> Scheduling:
    term = [Requirement(POOL, SelectorOperator.EXISTS)]
    if asleep:
        term.append(Requirement(POOL, SelectorOperator.NOT_IN, asleep))
    if headroom.zones:
        term.append(Requirement(ZONE_LABEL, SelectorOperator.IN, headroom.zones))
    pool = settings.pool_named(headroom.pool)
    if headroom.pool:
        term.append(Requirement(POOL, SelectorOperator.IN, (headroom.pool,)))
    # Who names a pool with taints means pods that tolerate them.
    taints = pool.taints if pool is not None else ()
    tolerations = tuple(Toleration(one.key, value=one.value, effect=one.effect) for one in taints)
    return Scheduling(node_affinity=(tuple(term),), tolerations=tolerations)


def phantoms(settings: Settings, now: int) -> list[Pod]:
    """The pods that model the headroom wanted now. They exist only in a plan."""
    return [
        Pod(
            NAMESPACE,
            f"headroom-{one.number}",
            f"headroom-{one.number}-{each}",
            phase=PodPhase.PENDING,
            requests=requests,
            scheduling=one.scheduling,
        )
        for one in wanted_now(settings, now)
        for requests in [Resources(one.headroom.cpu_milli, one.headroom.memory_mib)]
        for each in range(one.headroom.count)
    ]


Place = TypeVar("Place")
Free = tuple[int, int, int]
"""CPU in milli, memory in MiB, pod slots."""


def room_for(
    wanted: Sequence[Wanted], holders: Sequence[Sequence[Place]], free: Callable[[Place], Free]
) -> tuple[int, ...]:
    """For how many pods of each that is wanted there is room in its places, next to all before it."""
    taken: dict[int, Free] = {}
    found = []
    for one, places in zip(wanted, holders, strict=True):
        asked, left = one.headroom, one.headroom.count
        for place in places:
            if not left:
                break
            cpu, memory, slots = free(place)
            used = taken.get(id(place), (0, 0, 0))
            by_cpu, by_memory = (cpu - used[0]) // asked.cpu_milli, (memory - used[1]) // asked.memory_mib
            count = min(left, by_cpu, by_memory, slots - used[2])
            if count > 0:
                left -= count
                cpu, memory = count * asked.cpu_milli, count * asked.memory_mib
                taken[id(place)] = (used[0] + cpu, used[1] + memory, used[2] + count)
        found.append(asked.count - left)
    return tuple(found)


NO_ROOM: Free = (0, 0, 0)


class Spare:
    """How much of the headroom there is room for, asked again and again while nodes are chosen. Rooms may
    be closed and filled meanwhile, but none gets emptier than it was at first."""

    def __init__(self, rooms: MutableMapping[str, Room], wanted: Sequence[Wanted]) -> None:
        self._rooms = rooms
        self.wanted = wanted
        self._holders = [[room for room in rooms.values() if _holds(room, one)] for one in wanted]

    def there(self) -> tuple[int, ...]:
        """For each that is wanted, for how many of its pods there is room."""
        return room_for(self.wanted, self._holders, self._free)

    def _free(self, room: Room) -> Free:
        is_open = self._rooms.get(room.name) is room
        return (room.cpu_milli, room.memory_mib, room.slots) if is_open else NO_ROOM

    def why_less(self, before: tuple[int, ...]) -> str:
        """Which headroom has less room than before, with both numbers; empty where none has."""
        return why_less(self.wanted, self.there(), before)

    def why_more_with(self, rooms: Iterable[Room], without: tuple[int, ...]) -> str:
        """Which headroom would have more room with these nodes."""
        self._rooms.update({room.name: room for room in rooms})
        return why_less(self.wanted, without, Spare(self._rooms, self.wanted).there())


def why_less(wanted: Sequence[Wanted], after: tuple[int, ...], before: tuple[int, ...]) -> str:
    for one, had, has in zip(wanted, before, after, strict=True):
        if has < had:
            asked = described(one.headroom)
            return f"headroom for {asked} would have room for {has} without it, {had} with it"
    return ""


def _holds(room: Room, one: Wanted) -> bool:
    asked = one.headroom
    if asked.cpu_milli > room.cpu_milli or asked.memory_mib > room.memory_mib or room.slots < 1:
        return False
    return not refused_by_node(one.scheduling, room)


def rooms_given_back(snapshot: Snapshot, record: Record) -> Iterator[Room]:
    """Nodes that we cordoned and are about to give back: nothing is launched in their place."""
    lost, pods_on = doomed(record), snapshot.cluster.pods_on
    for node in snapshot.cluster.workers:
        instance = snapshot.instance_of.get(node.name)
        if node.ready and node.cordoned_by_us and instance is not None and instance.id not in lost:
            yield room_of(given_back(node), pods_on.get(node.name, ()))


def expected_spare(
    snapshot: Snapshot, record: Record, settings: Settings, without: Collection[str] = ()
) -> Spare:
    """With the pods that are pending where they will be and the nodes on their way, without those named."""
    wanted = wanted_now(settings, snapshot.at)
    if not wanted:
        return Spare({}, ())
    pending = [pod for pod in snapshot.cluster.waiting_pods if pod.controller != "DaemonSet"]
    placement = expected_placement(snapshot, record, settings, pending)
    for name in without:
        placement.close(name)
    nothing_new = LaunchLimits(0, 0, Counter(), Counter())
    LaunchSketch(placement, (), nothing_new, settings).serve(pending)
    for room in rooms_given_back(snapshot, record):
        if room.name not in without:
            placement.open(room)
    return Spare(placement.rooms, wanted)


def look(snapshot: Snapshot, record: Record, settings: Settings) -> tuple[HeadroomSeen, ...]:
    """What is wanted and what is there, for each headroom in the order of the configuration."""
    if not settings.headroom:
        return ()
    spare = expected_spare(snapshot, record, settings)
    there = dict(zip((one.number for one in spare.wanted), spare.there(), strict=True))
    return tuple(
        HeadroomSeen(described(each), each.count if number in there else 0, there.get(number, 0))
        for number, each in enumerate(settings.headroom)
    )


def lacking(seen: Iterable[HeadroomSeen]) -> str:
    """What is missing, with both numbers; empty where nothing is."""
    return "; ".join(
        f"headroom for {one.says} has room for {one.there} of {one.wanted}" for one in seen if one.missing > 0
    )


def keeps_headroom(snapshot: Snapshot, record: Record, settings: Settings, nodes: Sequence[str]) -> Check:
    """Whether there is as much headroom without these nodes as there would be with them. They may be cordoned
    by us, and their pods may have been moved already."""
    why = why_headroom_needs(snapshot, record, settings, nodes)
    return Check(Gate.HEADROOM_KEPT, not why, why or "headroom is not reduced")


def why_headroom_needs(snapshot: Snapshot, record: Record, settings: Settings, nodes: Sequence[str]) -> str:
    """Which headroom these nodes hold, with both numbers; empty where the others hold all of it."""
    way, known = gives_way(snapshot, record, settings), snapshot.cluster.node_named
    nodes = [name for name in nodes if name not in known or known[name].pool not in way]
    if not nodes:
        return ""
    spare = expected_spare(snapshot, record, settings, nodes)
    if not spare.wanted:
        return ""
    without = spare.there()
    if without == tuple(one.headroom.count for one in spare.wanted):
        return ""
    view = snapshot.cluster
    back = [view.node_named[name] for name in nodes if name in view.node_named]
    rooms = [room_of(given_back(node), view.pods_on.get(node.name, ())) for node in back if node.ready]
    return spare.why_more_with(rooms, without)


def gives_way(snapshot: Snapshot, record: Record, settings: Settings) -> frozenset[str]:
    """Pools whose nodes are not kept for headroom now: a pod is pending that the maximum of the cluster, or
    of these pools, keeps from a node. Pods come first, and headroom may have filled all of the maximum."""
    pending = [pod for pod in snapshot.cluster.waiting_pods if pod.controller != "DaemonSet"]
    if not settings.headroom or not pending:
        return frozenset()
    # What is gone already makes room: the last look, which may still count it, must not cost a second node.
    at_maximum = total(snapshot, record) >= settings.max_workers
    full = frozenset(pool.name for pool in settings.pools if _is_full(pool, snapshot, record))
    if not at_maximum and not full:
        return frozenset()
    placement = expected_placement(snapshot, record, settings, pending)
    nothing_new = LaunchLimits(0, 0, Counter(), Counter())
    launching = LaunchSketch(placement, all_offers(snapshot, record, settings), nothing_new, settings)
    launching.serve(pending)
    held_up = [launching.pools_for(pod) for pod in launching.unserved]
    if at_maximum and held_up:
        return frozenset(pool.name for pool in settings.pools)
    return frozenset(name for pools in held_up if pools <= full for name in pools)


def _is_full(pool: Pool, snapshot: Snapshot, record: Record) -> bool:
    if not pool.takes_more(total(snapshot, record, pool.name)):
        return True
    if pool.limits is None:
        return False
    held, limits = held_by_pool(snapshot, record, pool, cautious=False), pool.limits
    return all(limits.why_over(held.plus(node_type.allocatable)) for node_type in pool.types)
