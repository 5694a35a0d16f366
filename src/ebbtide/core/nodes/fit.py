"""Whether a pod fits a node, by the rules a scheduler would apply, and why not.

A `Placement` is all rooms together, because spread, affinity and anti-affinity are about the pods on
other nodes. It is temporary: made for one computation, changed by `place`, thrown away. It
is never optimistic: a pod with rules that are not understood does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.core.nodes.neighbours import Neighbours
from ebbtide.core.nodes.room import Room, refused_by_node, room_of
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import Misfit
from ebbtide.model.snapshot import ClusterView


class Placement:
    def __init__(self, rooms: Iterable[Room] = (), coming: Iterable[Pod] = ()) -> None:
        """`coming` are pods that will be asked about; knowing their rules from the start saves a recount."""
        self.rooms = {room.name: room for room in rooms}
        self.neighbours = Neighbours(((room, room.pods) for room in self.rooms.values()), coming)

    def why_not(self, pod: Pod, room: Room) -> Misfit | None:
        """Why the pod does not fit into this room; None when it does."""
        why = room.lacks(pod.requests) or refused_by_node(pod.scheduling, room)
        return why or self.neighbours.why_not(self.neighbours.profile(pod), room)

    def open(self, room: Room) -> None:
        """Add a room with the pods that are in it; one of the same name is replaced."""
        self.close(room.name)
        self.rooms[room.name] = room
        self.neighbours.open_room(room)
        for pod in room.pods:
            self.neighbours.add(self.neighbours.profile(pod), room)

    def close(self, name: str) -> Room | None:
        """Take a room out, with all that is in it."""
        room = self.rooms.pop(name, None)
        if room is not None:
            for pod in room.pods:
                self.neighbours.add(self.neighbours.profile(pod), room, -1)
            self.neighbours.close_room(room)
        return room

    def place(self, pod: Pod, room: Room) -> None:
        """Put the pod into a room that is open here."""
        self.neighbours.add(self.neighbours.profile(pod), room)
        room.put(pod)

    def take_out(self, pod: Pod, room: Room) -> None:
        self.neighbours.add(self.neighbours.profile(pod), room, -1)
        room.take_out(pod)

    def first_fit(self, pod: Pod, rooms: Iterable[Room] | None = None) -> Room | None:
        candidates = self.rooms.values() if rooms is None else rooms
        cpu_milli, memory_mib = pod.requests.cpu_milli, pod.requests.memory_mib
        for room in candidates:
            # The common no first, without a value made for it.
            if cpu_milli > room.cpu_milli > 0 or memory_mib > room.memory_mib > 0:
                continue
            if not self.why_not(pod, room):
                return room
        return None


def placement_of(view: ClusterView, without: Iterable[str] = (), coming: Iterable[Pod] = ()) -> Placement:
    """Rooms of all nodes that take pods now (ready, not cordoned), without those named."""
    left_out = set(without)
    rooms = (
        room_of(node, view.pods_on.get(node.name, ()))
        for node in view.nodes
        if node.ready and not node.unschedulable and node.name not in left_out
    )
    return Placement(rooms, coming)
