"""One way to rearrange the cluster, while it is being worked out.

A `Draft` starts with every node kept. Emptying a site moves each of its pods to another site, following every
rule, or changes nothing. A site that received pods is kept, so no pod is moved twice.

Rooms that are free on the nodes that stay can also be filled by counts of kinds: each is filled greedily
a few times, large kinds first but not always the largest; the fill that wastes least is taken. What is
left over belongs on new nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.consolidation.outline import Size
from ebbtide.core.consolidation.scene import Offered, Parcel, PodShape, Scene
from ebbtide.core.nodes.fit import Neighbours
from ebbtide.core.nodes.headroom import NO_ROOM, Free, Wanted, room_for, why_less
from ebbtide.core.nodes.room import Room, refused_by_node

Content = list[tuple[int, int]]
"""Kinds with their counts."""

_STARTS = 10
_WELL = 0.995
"""Share of a room's worth that is good enough at once."""


@dataclass(frozen=True, slots=True)
class Floors:
    """How many nodes must be left: in all, by pool, and one in every zone where workers are in several."""

    nodes: int
    pools: tuple[tuple[str, int], ...] = ()
    several_zones: bool = False


@dataclass(frozen=True, slots=True)
class Fresh:
    """A node to be launched."""

    key: str
    offer: Offered


@dataclass(frozen=True, slots=True)
class Draft:
    removed: tuple[int, ...]
    """Sites, in the order in which they are to be emptied."""
    moves: tuple[tuple[int, str], ...]
    """Parcel, and the node or the key of the new node that has room for it."""
    fresh: tuple[Fresh, ...] = ()
    cost: Decimal = Decimal(0)


class FreeRoom:
    """Free room of a site or of a planned node."""

    __slots__ = ("closed", "cpu", "extended", "memory", "name", "room", "shape", "slots", "taken_in")

    def __init__(self, name: str, size: Size, shape: int, room: Room) -> None:
        self.name = name
        self.cpu, self.memory, self.slots = size
        self.shape = shape
        self.room = room
        self.extended = dict(room.extended)
        self.taken_in = 0
        self.closed = False
        """Going, or just being emptied: nothing is put here."""

    def lacks(self, cpu: int, memory: int, slots: int = 1) -> bool:
        return (cpu > self.cpu and cpu > 0) or (memory > self.memory and memory > 0) or slots > self.slots

    def holds(self, kind: PodShape) -> int:
        """How many pods of this kind find room, one after the other."""
        if not kind.admitted >> self.shape & 1:
            return 0
        count = self.slots
        if kind.cpu_milli:
            count = min(count, self.cpu // kind.cpu_milli)
        if kind.memory_mib:
            count = min(count, self.memory // kind.memory_mib)
        return max(count, 0)


def _free(place: tuple[FreeRoom, Size]) -> Free:
    space, slack = place
    return NO_ROOM if space.closed else (space.cpu + slack[0], space.memory + slack[1], space.slots)


class Layout:
    """A draft while it is computed."""

    def __init__(
        self, scene: Scene, neighbours: Neighbours, floors: Floors, wanted: Sequence[Wanted] = ()
    ) -> None:
        self.scene = scene
        self.neighbours = neighbours
        self.floors = floors
        self.spaces = [
            FreeRoom(site.node.name, site.room, site.shape, room)
            for site, room in zip(scene.sites, scene.rooms, strict=True)
        ]
        self._wanted = wanted
        self._holders = [
            [
                (space, site.slack)
                for space, site in zip(self.spaces, scene.sites, strict=True)
                if not refused_by_node(one.scheduling, space.room)
            ]
            for one in wanted
        ]
        self._spare_before = self._spare()
        self.removed: list[int] = []
        self.moves: list[tuple[int, FreeRoom]] = []
        self._pools = Counter(site.node.pool for site in scene.sites)
        self._zones = Counter(site.node.zone for site in scene.sites)
        self.cost = scene.cost
        self.looks = 0
        """Rooms that were looked at, as a measure of effort."""

    def allows(self, number: int) -> bool:
        """Whether enough would be left without this site."""
        node = self.scene.sites[number].node
        if len(self.spaces) - len(self.removed) - 1 < self.floors.nodes:
            return False
        if self.floors.several_zones and self._zones[node.zone] <= 1:
            return False
        return self._pools[node.pool] - 1 >= dict(self.floors.pools).get(node.pool, 0)

    def loses_headroom(self) -> bool:
        """Whether less headroom would be left than there was before anything was moved."""
        return bool(self._wanted and why_less(self._wanted, self._spare(), self._spare_before))

    def _spare(self) -> tuple[int, ...]:
        return room_for(self._wanted, self._holders, _free)

    def drop(self, number: int) -> None:
        """Take a site away; the caller places its pods."""
        site = self.scene.sites[number]
        self.spaces[number].closed = True
        self.removed.append(number)
        self._pools[site.node.pool] -= 1
        self._zones[site.node.zone] -= 1
        self.cost -= site.price

    def fits(self, parcel: Parcel, space: FreeRoom) -> bool:
        kind = self.scene.kinds[parcel.kind]
        if space.lacks(kind.cpu_milli, kind.memory_mib) or not kind.admitted >> space.shape & 1:
            return False
        if not parcel.alone:
            return True
        if any(amount > space.extended.get(name, 0) for name, amount in parcel.pod.requests.extended):
            return False
        return not self.neighbours.why_not(parcel.profile, space.room)

    def lift(self, parcel: Parcel, count: int = -1) -> None:
        """Count the parcel no longer where it was; with 1, count it there again."""
        if not parcel.profile.free:
            self.neighbours.add(parcel.profile, self.spaces[parcel.site].room, count)

    def put(self, number: int, space: FreeRoom) -> None:
        parcel = self.scene.parcels[number]
        self._take(parcel, space, 1)
        self.moves.append((number, space))

    def take_back(self) -> None:
        number, space = self.moves.pop()
        parcel = self.scene.parcels[number]
        self._take(parcel, space, -1)
        self.lift(parcel, 1)

    def _take(self, parcel: Parcel, space: FreeRoom, count: int) -> None:
        kind = self.scene.kinds[parcel.kind]
        space.cpu -= count * kind.cpu_milli
        space.memory -= count * kind.memory_mib
        space.slots -= count
        space.taken_in += count
        for name, amount in parcel.pod.requests.extended:
            space.extended[name] = space.extended.get(name, 0) - count * amount
        if not parcel.profile.free:
            self.neighbours.add(parcel.profile, space.room, count)

    def first_fit(self, number: int, spaces: Iterable[FreeRoom]) -> FreeRoom | None:
        parcel = self.scene.parcels[number]
        for space in spaces:
            self.looks += 1
            if not space.closed and self.fits(parcel, space):
                return space
        return None

    def reset(self) -> None:
        """Back to where every pod is where it was seen."""
        while self.moves:
            self.take_back()
        for number in self.removed:
            self.spaces[number].closed = False
            site = self.scene.sites[number]
            self._pools[site.node.pool] += 1
            self._zones[site.node.zone] += 1
        self.removed.clear()
        self.cost = self.scene.cost
        self.looks = 0


def fill(scene: Scene, spaces: Sequence[FreeRoom], left: list[int]) -> list[tuple[FreeRoom, Content]]:
    """What goes where; `left` is what is still without a place afterwards."""
    worths = scene.worths
    order = sorted((k for k, count in enumerate(left) if count), key=lambda k: -worths[k])
    found: list[tuple[FreeRoom, Content]] = []
    for space in sorted(spaces, key=lambda s: -scene.worth((s.cpu, s.memory, s.slots))):
        order = [kind for kind in order if left[kind]]
        if not order:
            break
        content = _best(scene, space, order, left)
        if content:
            for kind, count in content:
                left[kind] -= count
            found.append((space, content))
    return found


def _best(scene: Scene, space: FreeRoom, order: Sequence[int], left: Sequence[int]) -> Content:
    kinds = scene.kinds
    fitting = [
        (number, kinds[number].cpu_milli, kinds[number].memory_mib, scene.worths[number])
        for number in order
        if kinds[number].cpu_milli <= space.cpu
        and kinds[number].memory_mib <= space.memory
        and kinds[number].admitted >> space.shape & 1
    ]
    enough = scene.worth((space.cpu, space.memory, 0)) * _WELL
    best: Content = []
    best_worth = -1.0
    for start in range(min(_STARTS, len(fitting))):
        cpu, memory, slots = space.cpu, space.memory, space.slots
        content: Content = []
        worth = 0.0
        for number, kind_cpu, kind_memory, kind_worth in fitting[start:]:
            if kind_cpu > cpu or kind_memory > memory:
                continue
            by_cpu = cpu // kind_cpu if kind_cpu else slots
            by_memory = memory // kind_memory if kind_memory else slots
            take = min(left[number], slots, by_cpu, by_memory)
            if take:
                cpu -= take * kind_cpu
                memory -= take * kind_memory
                slots -= take
                worth += take * kind_worth
                content.append((number, take))
        if worth > best_worth:
            best, best_worth = content, worth
        if best_worth >= enough:
            break
    return best
