"""Nodes judged one by one: which have been empty or underused for long enough, and whose pods fit elsewhere.

A node is underused while the requests on it are below a share of what it offers. The least used goes first;
its pods must fit on nodes that stay, next to the pods of all that go with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from ebbtide.core.consolidation.pace import settled
from ebbtide.core.nodes.capacity import doomed, expected_slots, staying
from ebbtide.core.nodes.drain import Disruptions
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.gates import carries_nothing, none_pending_for, pool_room, sleeping_pools
from ebbtide.core.nodes.headroom import Spare, gives_way, wanted_now
from ebbtide.core.nodes.question import in_progress
from ebbtide.core.nodes.room import Room
from ebbtide.core.nodes.targets import (
    last_in_zone,
    removal_of,
    why_budget_keeps,
    why_not_chosen,
    why_not_drainable,
    why_pool_keeps,
    without_a_place,
)
from ebbtide.core.words import a_while, short_id
from ebbtide.model.check import NodeCause, Refusal, Why, held_by, refused
from ebbtide.model.operation import Removal
from ebbtide.model.pod import Pod
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import EMPTY, Load, Node, Snapshot


def used_share(node: Node, load: Load) -> float:
    """The scarcer of CPU and memory that is requested by pods that do not come and go with the node."""
    cpu, memory = load.of(_requested)
    return max(cpu / max(node.allocatable.cpu_milli, 1), memory / max(node.allocatable.memory_mib, 1))


def _requested(pods: tuple[Pod, ...]) -> tuple[int, int]:
    counted = [pod.requests for pod in pods if not pod.tied_to_node]
    return sum(asked.cpu_milli for asked in counted), sum(asked.memory_mib for asked in counted)


def track_underused(
    snapshot: Snapshot, before: tuple[Emptied, ...], settings: Settings, now: int
) -> tuple[Emptied, ...]:
    """The workers that are underused, each since it was first seen so without a break."""
    if settings.scale_down_by != JudgedBy.NODE:
        return ()
    since = {node.node_uid: node.since for node in before}
    loads = snapshot.cluster.loads
    found = (
        node.uid
        for node in snapshot.cluster.workers
        if node.uid and used_share(node, loads.get(node.name, EMPTY)) < settings.underused_below
    )
    return tuple(Emptied(uid, since.get(uid, now)) for uid in sorted(found))


def choose_underused(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, limit: int, brief: bool = False
) -> tuple[tuple[Removal, ...], tuple[Refusal, ...]]:
    """Where it is `brief`, only the first says why it stays of those that are not underused."""
    choice = _UnderusedChoice(snapshot, record, settings, now)
    for node in choice.candidates(brief):
        if len(choice.chosen) == limit:
            break
        choice.consider(node)
    removals = tuple(removal_of(node, snapshot) for node in choice.chosen)
    return removals, tuple(refused(name, why) for name, why in choice.refusals.items())


class _UnderusedChoice:
    def __init__(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> None:
        self._snapshot = snapshot
        self._record = record
        self._settings = settings
        self._now = now
        self._since = {node.node_uid: node.since for node in record.underused}
        self._settled = settled(record, settings)
        self._patience = settings.settled_seconds // 2
        self._asleep = sleeping_pools(settings)
        self._staying = [node for node in staying(snapshot, record) if not node.unschedulable]
        self._several_zones = len({node.zone for node in snapshot.cluster.workers}) > 1
        self._zones = Counter(node.zone for node in self._staying if node.pool not in self._asleep)
        self._pools = Counter(node.pool for node in self._staying)
        self._rooms_left = {
            pool.name: pool_room(snapshot, record, pool, RemovalReason.IDLE) for pool in settings.pools
        }
        self._disruptions = Disruptions(snapshot.cluster.budgets, spends=False)
        loads = snapshot.cluster.loads
        self._share = {n.name: used_share(n, loads.get(n.name, EMPTY)) for n in snapshot.cluster.nodes}
        self._way = gives_way(snapshot, record, settings)
        self.chosen: list[Node] = []
        self.refusals: dict[str, Why] = {}

    @cached_property
    def _places(self) -> _Places:
        """Made for the first node that might go: at most ticks there is none, and it takes long."""
        lost = doomed(self._record)
        instance_of = self._snapshot.instance_of
        leaving = {name for name, instance in instance_of.items() if instance.id in lost}
        placement = placement_of(self._snapshot.cluster, leaving)
        return _Places(
            placement,
            sorted(placement.rooms.values(), key=lambda room: -self._share[room.name]),
            Spare(placement.rooms, wanted_now(self._settings, self._snapshot.at)),
        )

    def candidates(self, brief: bool) -> list[Node]:
        """The least used first; of equal ones the oldest, in the zone with the most workers. Where it is
        `brief`, of those that are not underused only the one that would come first of all."""
        zones, asked = Counter(node.zone for node in self._staying), self._staying

        def place(node: Node) -> tuple[float, int, int, str]:
            return self._share[node.name], -zones[node.zone], min(node.created_at, self._now), node.name

        if brief and asked:
            first = min(asked, key=place)
            asked = [node for node in asked if node is first or node.uid in self._since]
        return sorted(asked, key=place)

    def consider(self, node: Node) -> None:
        why = self._why_not(node) or self._why_no_place(node)
        if why is not None:
            self.refusals[node.name] = why
            return
        self.chosen.append(node)
        self._pools[node.pool] -= 1
        self._zones[node.zone] -= node.pool not in self._asleep

    def _why_not(self, node: Node) -> Why | None:
        since = self._since.get(node.uid)
        if since is None:
            share, below = self._share[node.name], self._settings.underused_below
            says = f"{share:.0%} of it is requested, not counting DaemonSets; underused is below {below:.0%}"
            return Why(NodeCause.IN_USE, says)
        waited = self._now - since
        if waited < self._settings.idle_down_seconds:
            asked = a_while(self._settings.idle_down_seconds)
            says = f"it has been underused for {a_while(waited)}, idle_down_sec is {asked}"
            return Why(NodeCause.NOT_IDLE, says)
        if self._share[node.name] and waited < self._patience and not self._settled.passed:
            asked = a_while(self._patience)
            says = f"it has been underused for {a_while(waited)}, {asked} required while {self._settled.says}"
            return Why(NodeCause.NOT_IDLE, says, self._settled.name)
        why = self._why_not_now(node) or why_not_chosen(node, self._snapshot, self._record)
        if why is None and self._several_zones and node.pool not in self._asleep:
            why = last_in_zone(node) if self._zones[node.zone] == 1 else None
        why = why or why_pool_keeps(node, self._pools, self._settings)
        why = why or why_budget_keeps(node, self.chosen, self._rooms_left)
        return why or why_not_drainable(node, self._snapshot, self._settings, self._disruptions)

    def _why_not_now(self, node: Node) -> Why | None:
        """What competes with a launch waits for it: pods that would move take room that the launch counts on.
        What carries nothing competes with nobody, unless a pod that is pending may go there."""
        launching = self._record.launching
        if launching is not None and not carries_nothing(node, self._snapshot):
            return Why(NodeCause.LAUNCHING, f"it carries pods, and {in_progress(launching)}", launching.id)
        if launching is not None and self._is_launched(node):
            says = f"a scale-up still follows it (operation {short_id(launching.id)})"
            return Why(NodeCause.LAUNCHING, says, launching.id)
        return held_by((none_pending_for(node, self._snapshot, self._settings),))

    def _is_launched(self, node: Node) -> bool:
        """Whether a launch is not done with it: a node has one owner."""
        instance = self._snapshot.instance_of.get(node.name)
        followed = {slot.instance_id for slot in expected_slots(self._record) if slot.instance_id}
        return instance is not None and instance.id in followed

    def _why_no_place(self, node: Node) -> Why | None:
        """The first pod that would have no place, or headroom that would be lost; where there is neither,
        its pods are put there. Those that an earlier choice put on this node move on with the others."""
        places = self._places
        closed = places.placement.rooms[node.name]
        places.placement.close(node.name)
        placed: list[tuple[Pod, Room]] = []
        for pod in closed.pods:
            if pod.tied_to_node:
                continue
            room = places.first_fit(pod)
            if room is None:
                places.put_back(closed, placed)
                return without_a_place(pod)
            places.placement.place(pod, room)
            placed.append((pod, room))
        less = places.spare.why_less(places.spare_before)
        if less and node.pool in self._way and not placed:
            self._way = frozenset()  # one at a time: it may be enough
            places.spare_before = places.spare.there()
            return None
        if not less:
            return None
        places.put_back(closed, placed)
        return Why(NodeCause.HEADROOM, less)


class _Places:
    """Where the pods of nodes that go would find room."""

    def __init__(self, placement: Placement, into: Sequence[Room], spare: Spare) -> None:
        self.placement = placement
        self.spare = spare
        self.spare_before = spare.there()
        self._into = into
        """Well used nodes are filled first, so the emptiest stay empty enough to go."""

    def first_fit(self, pod: Pod) -> Room | None:
        rooms = (room for room in self._into if room.name in self.placement.rooms)
        return self.placement.first_fit(pod, rooms)

    def put_back(self, closed: Room, placed: list[tuple[Pod, Room]]) -> None:
        for pod, room in placed:
            self.placement.take_out(pod, room)
        self.placement.open(closed)
