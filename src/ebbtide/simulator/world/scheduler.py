"""The scheduler: puts pending pods on nodes, by the same rules of fit as the core.

It looks only when something changed, and keeps the rooms of nodes that did not. Among the nodes that
a pod fits it takes the emptiest, as the scheduler of Kubernetes does by default; one with a soft taint
only where there is no other.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush

from ebbtide.core.nodes.fit import Placement
from ebbtide.core.nodes.room import Room, room_of
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import TaintEffect
from ebbtide.simulator.world.inventory import Inventory


class Scheduler:
    def __init__(self, inventory: Inventory, bind: Callable[[Pod, str], Pod]) -> None:
        """`bind` puts the pod on the node and returns it as it then is."""
        self._inventory = inventory
        self._bind = bind
        self._placement = Placement()
        self._stale = inventory.follow()

    def run(self) -> None:
        """Bind every pending pod that fits somewhere, oldest first."""
        if not self._inventory.waiting:
            return
        self._refresh()
        emptiest = [_by_space(room) for room in self._placement.rooms.values()]
        heapify(emptiest)
        reluctant = any(entry[0] for entry in emptiest)
        hopeless: set[tuple[str, str]] = set()
        for uid in sorted(self._inventory.waiting):
            pod = self._inventory.waiting[uid]
            # Pods of one controller ask for the same, except where a volume ties one to a zone.
            kin = (pod.namespace, pod.owner_uid or dict(pod.labels).get("app", pod.name))
            if kin in hopeless and not pod.volumes:
                continue
            room = self._choose(pod, emptiest, reluctant)
            if room is None:
                hopeless.add(kin)
            else:
                self._place(pod, room)
                heappush(emptiest, _by_space(room))

    def why_not(self, pod: Pod, node_name: str, without: Container[str] = ()) -> str:
        """Why the pod could not go to this node if it took pods and those with these UIDs were not there;
        empty when it could."""
        there = [other for other in _present(self._inventory, node_name) if other.uid not in without]
        return self._placement.why_not(pod, room_of(self._inventory.nodes[node_name], there))

    def _choose(self, pod: Pod, emptiest: list[tuple[bool, int, str]], reluctant: bool) -> Room | None:
        """The emptiest room that it fits, taken off the heap. `reluctant`: whether any has a soft taint, so
        roomier ones may follow a room with too little CPU; else that is the end."""
        passed_over = []
        found = None
        while emptiest and found is None:
            entry = heappop(emptiest)
            if pod.requests.cpu_milli > max(-entry[1], 0):
                passed_over.append(entry)
                if entry[0] or not reluctant:
                    break
                continue
            room = self._placement.rooms[entry[2]]
            if self._placement.why_not(pod, room):
                passed_over.append(entry)
            else:
                found = room
        for entry in passed_over:
            heappush(emptiest, entry)
        return found

    def _place(self, pod: Pod, room: Room) -> None:
        was_stale = room.name in self._stale
        self._placement.place(self._bind(pod, room.name), room)
        if not was_stale:
            self._stale.discard(room.name)

    def _refresh(self) -> None:
        for name in sorted(self._stale):
            self._placement.close(name)
            node = self._inventory.nodes.get(name)
            if node is None or not node.ready or node.unschedulable:
                continue
            self._placement.open(room_of(node, _present(self._inventory, name)))
        self._stale.clear()


def _present(inventory: Inventory, node_name: str) -> list[Pod]:
    return [pod for pod in inventory.on(node_name) if not pod.finished]


def _by_space(room: Room) -> tuple[bool, int, str]:
    reluctant = any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in room.taints)
    return (reluctant, -room.cpu_milli, room.name)
