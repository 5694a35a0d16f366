"""The nodes and pods that are there now, indexed, the view of them, and the scheduler that puts pending pods
on nodes by the same rules of fit as the core.

Every change is announced with `put_*` or `drop_*`; only what changed is computed again. The view stays
the same object for as long as nothing changed. The scheduler looks only when something changed, and keeps
the rooms of nodes that did not. Among the nodes that a pod fits it takes the emptiest, as the scheduler
of Kubernetes does by default; one with a soft taint only where there is no other.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heapify, heappop, heappush

from ebbtide.core.nodes.fit import Placement
from ebbtide.core.nodes.room import Room, room_of
from ebbtide.model.pod import Budget, Misfit, Pod, TaintEffect
from ebbtide.model.snapshot import ClusterView, Load, Node
from ebbtide.simulator.world.clock import Timeline

_Space = tuple[bool, int, str]
"""Whether it has a soft taint, less its free CPU, and its name: the scheduler takes the least first."""
OF_NODES = ("workers", "ready_names", "unready_workers", "signed_workers", "node_named")
"""What a view derives from nodes alone."""
OF_PODS = ("pods_on", "loads", "waiting_pods", "unplaced_pods", "placed_count", "empty_workers")
"""What it derives from pods, where no node changed either."""


class Inventory:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        """By UID, in the order of their making."""
        self.waiting: dict[str, Pod] = {}
        self.waited_seconds = 0.0
        self._waiting_since = timeline.now
        self.empty_since: dict[str, float] = {}
        """Since when a node has had no pod but those that are tied to it, by node name."""
        self._on: dict[str, dict[str, Pod]] = {}
        self._followers: list[set[str]] = []
        self._stale = self.follow()
        self._loads: dict[str, Load] = {}
        self._pods_on: dict[str, tuple[Pod, ...]] = {}
        self._changed = self._nodes_changed = True
        self._view = ClusterView()
        self.nodes_version = 0
        """Grows with every change of a node."""

    def follow(self) -> set[str]:
        """A set that from now on collects the names of nodes where anything changed."""
        follower: set[str] = set(self.nodes)
        self._followers.append(follower)
        return follower

    def put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._note_empty(node.name)
        self._mark_node(node.name)

    def drop_node(self, name: str) -> None:
        del self.nodes[name]
        self.empty_since.pop(name, None)
        self._mark_node(name)

    def put_pod(self, pod: Pod) -> None:
        before = self.pods.get(pod.uid)
        if before is not None and before.node_name and before.node_name != pod.node_name:
            self._leave(before)
        self.pods[pod.uid] = pod
        if pod.node_name:
            self._on.setdefault(pod.node_name, {})[pod.uid] = pod
            self._note_empty(pod.node_name)
        self._wait(pod.uid, pod if pod.waiting else None)
        self._mark(pod.node_name)

    def drop_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self._leave(pod)
        self._wait(uid, None)
        self._mark(pod.node_name)

    def on(self, node_name: str) -> tuple[Pod, ...]:
        """All pods of a node, the finished among them, oldest first."""
        there = self._on.get(node_name, {})
        return tuple(map(there.__getitem__, sorted(there)))

    @property
    def changed(self) -> bool:
        """Whether there are other nodes or pods than in the last view."""
        return self._changed

    @property
    def placed(self) -> int:
        """How many pods have a node, the finished among them."""
        return sum(map(len, self._on.values()))

    def view(self, budgets: tuple[Budget, ...]) -> ClusterView:
        if self._changed or budgets is not self._view.budgets:
            self._view = self._new_view(budgets)
            self._changed = self._nodes_changed = False
        return self._view

    def _new_view(self, budgets: tuple[Budget, ...]) -> ClusterView:
        """What did not change is taken from the last. What is derived from all nodes or pods would be found
        by going through every one; here it is known what changed."""
        last, derived = self._view, vars(self._view)
        nodes = tuple(self.nodes.values()) if self._nodes_changed else last.nodes
        pods = tuple(self.pods.values()) if self._changed else last.pods
        view = ClusterView(nodes, pods, budgets)
        kept = OF_NODES if not self._nodes_changed else ()
        if not self._changed:
            kept = (*kept, *OF_PODS)
        else:
            self._refresh_loads()
            vars(view).update(loads=dict(self._loads), pods_on=dict(self._pods_on))
            waiting = tuple(pod for _, pod in sorted(self.waiting.items()))
            vars(view)["waiting_pods"] = vars(view)["unplaced_pods"] = waiting
            empty = (node.uid for name in self.empty_since if (node := self.nodes[name]).worker)
            vars(view)["empty_workers"] = tuple(sorted(filter(None, empty)))
        vars(view).update({name: derived[name] for name in kept if name in derived})
        return view

    @property
    def pending_pod_seconds(self) -> float:
        return self.waited_seconds + len(self.waiting) * (self._timeline.now - self._waiting_since)

    def _refresh_loads(self) -> None:
        for name in sorted(self._stale):
            pods = tuple(pod for pod in self.on(name) if not pod.finished)
            if pods:
                self._loads[name], self._pods_on[name] = Load(pods), pods
            else:
                self._loads.pop(name, None)
                self._pods_on.pop(name, None)
        self._stale.clear()

    def _leave(self, pod: Pod) -> None:
        there = self._on.get(pod.node_name)
        if there is not None:
            there.pop(pod.uid, None)
            if not there:
                del self._on[pod.node_name]
            self._note_empty(pod.node_name)
            self._mark(pod.node_name)

    def _note_empty(self, node_name: str) -> None:
        there = self._on.get(node_name, {}).values()
        if any(not pod.tied_to_node and not pod.finished for pod in there):
            self.empty_since.pop(node_name, None)
        elif node_name in self.nodes:
            self.empty_since.setdefault(node_name, self._timeline.now)

    def _wait(self, uid: str, pod: Pod | None) -> None:
        if (uid in self.waiting) != (pod is not None):
            self.waited_seconds = self.pending_pod_seconds
            self._waiting_since = self._timeline.now
        if pod is None:
            self.waiting.pop(uid, None)
        else:
            self.waiting[uid] = pod

    def _mark_node(self, name: str) -> None:
        self._nodes_changed = True
        self.nodes_version += 1
        self._mark(name)

    def _mark(self, node_name: str) -> None:
        self._changed = True
        if node_name:
            for follower in self._followers:
                follower.add(node_name)


class Scheduler:
    def __init__(self, inventory: Inventory, bind: Callable[[Pod, str], Pod]) -> None:
        """`bind` puts the pod on the node and returns it as it then is."""
        self._inventory = inventory
        self._bind = bind
        self._placement = Placement()
        self._spaces: dict[str, _Space] = {}
        """Of each room that is open."""
        self._stale = inventory.follow()

    def run(self) -> None:
        """Bind every pending pod that fits somewhere, oldest first."""
        if not self._inventory.waiting:
            return
        self._refresh()
        emptiest = list(self._spaces.values())
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
                heappush(emptiest, self._spaces[room.name])

    def why_not(self, pod: Pod, node_name: str, without: Container[str] = ()) -> Misfit | None:
        """Why the pod could not go to this node if it took pods and those with these UIDs were not there;
        None when it could."""
        there = [other for other in _present(self._inventory, node_name) if other.uid not in without]
        return self._placement.why_not(pod, room_of(self._inventory.nodes[node_name], there))

    def refuses(self, pod: Pod, room: Room) -> Misfit | None:
        """Why the pod could not go to a node that is not there yet; None when it could."""
        self._refresh()
        return self._placement.why_not(pod, room)

    def _choose(self, pod: Pod, emptiest: list[_Space], reluctant: bool) -> Room | None:
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
        self._spaces[room.name] = _by_space(room)
        if not was_stale:
            self._stale.discard(room.name)

    def _refresh(self) -> None:
        for name in sorted(self._stale):
            self._placement.close(name)
            self._spaces.pop(name, None)
            node = self._inventory.nodes.get(name)
            if node is None:
                continue
            room = room_of(node, _present(self._inventory, name))
            self._placement.open(room)
            if not room.shut:
                self._spaces[name] = _by_space(room)
        self._stale.clear()


def _present(inventory: Inventory, node_name: str) -> list[Pod]:
    return [pod for pod in inventory.on(node_name) if not pod.finished]


def _by_space(room: Room) -> _Space:
    reluctant = any(taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taint in room.taints)
    return (reluctant, -room.cpu_milli, room.name)
