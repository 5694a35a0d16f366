"""Which nodes to remove: from the fullest zones, the oldest first, only what can be drained and whose
pods fit elsewhere. Every skipped node is named with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from ebbtide.core.nodes.capacity import doomed, staying
from ebbtide.core.nodes.drain import Disruptions, DrainPlan, Treatment, plan_drain
from ebbtide.core.nodes.fit import placement_of
from ebbtide.core.nodes.gates import pool_room, sleeping_pools
from ebbtide.core.nodes.headroom import Spare, Wanted, wanted_now
from ebbtide.core.nodes.room import Room
from ebbtide.core.prices import price_of
from ebbtide.core.words import a_time, short_id
from ebbtide.model.check import NodeCause, Refusal, Why, refused
from ebbtide.model.operation import Removal
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Allowance, RemovalReason
from ebbtide.model.record import DrainBackoff, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot


def choose_targets(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, limit: int
) -> tuple[tuple[Removal, ...], tuple[Refusal, ...]]:
    remaining = list(staying(snapshot, record))
    several_zones = len({node.zone for node in snapshot.cluster.workers}) > 1
    asleep = sleeping_pools(settings)
    disruptions = Disruptions(snapshot.cluster.budgets, spends=False)
    elsewhere = Elsewhere(snapshot, record, wanted_now(settings, snapshot.at))
    chosen: list[Node] = []
    refusals: dict[str, Why] = {}
    rooms = {p.name: pool_room(snapshot, record, p, RemovalReason.IDLE) for p in settings.pools}
    while len(chosen) < limit:
        # What a person cordoned is no capacity: it neither keeps a minimum nor a zone, and is not chosen.
        stand = [node for node in remaining if not node.unschedulable]
        pools = Counter(node.pool for node in stand)
        zones = Counter(node.zone for node in stand if node.pool not in asleep)
        for node in _in_order(remaining, settings, now):
            if node.name in refusals:
                continue
            alone = several_zones and node.pool not in asleep and zones[node.zone] == 1
            why = why_not_chosen(node, snapshot, record)
            why = why or (last_in_zone(node) if alone else None)
            why = why or why_pool_keeps(node, pools, settings)
            why = why or why_budget_keeps(node, chosen, rooms)
            why = why or why_not_drainable(node, snapshot, settings, disruptions)
            why = why or elsewhere.why_not([*chosen, node])
            if why is None:
                chosen.append(node)
                remaining.remove(node)
                break
            refusals[node.name] = why
        else:
            break
    removals = tuple(removal_of(node, snapshot) for node in chosen)
    return removals, tuple(refused(name, why) for name, why in refusals.items())


def _in_order(nodes: list[Node], settings: Settings, now: int) -> Iterator[Node]:
    """From the fullest zones the oldest first; of equally old ones the most expensive, then one in a zone
    that is less preferred. A node from the future counts as new, one without a known price as cheap."""
    counts = Counter(node.zone for node in nodes if not node.unschedulable)
    yield from sorted(
        nodes,
        key=lambda n: (
            -counts[n.zone],
            min(n.created_at, now),
            -_per_hour(n, settings),
            -settings.zone_rank(n.zone),
            n.zone,
            n.name,
        ),
    )


def _per_hour(node: Node, settings: Settings) -> Decimal:
    price = price_of(node, settings)
    return price.per_hour if price is not None else Decimal(0)


def removal_of(node: Node, snapshot: Snapshot) -> Removal:
    return Removal(snapshot.instance_of[node.name].id, node.name, node.uid, node.zone, node.pool)


def why_not_chosen(node: Node, snapshot: Snapshot, record: Record) -> Why | None:
    """Why nothing voluntary chooses this node: also where it could not be drained again and again."""
    return why_kept(node, snapshot, record, record.skipped)


def why_kept(
    node: Node, snapshot: Snapshot, record: Record, skipped: tuple[DrainBackoff, ...] | None = None
) -> Why | None:
    instance = snapshot.instance_of.get(node.name)
    if instance is None:
        return Why(NodeCause.NO_INSTANCE, "the cloud lists no instance of ours for it")
    if node.unschedulable:
        return Why(NodeCause.CORDONED, "it was cordoned by someone else")
    if node.owner is not None:
        return marked(node.owner.operation_id)
    for rest in record.rests if skipped is None else skipped:
        if rest.instance_id == instance.id:
            return Why(NodeCause.BACKED_OFF, f"it is skipped until {a_time(rest.until)}: {rest.reason}")
    return None


def marked(operation_id: str) -> Why:
    says = f"it still carries the mark of operation {short_id(operation_id)}"
    return Why(NodeCause.MARKED, says, operation_id)


def last_in_zone(node: Node) -> Why:
    return Why(NodeCause.LAST_IN_ZONE, f"it is the last ready worker in zone {node.zone}", node.zone)


def without_a_pool(node: Node) -> Why:
    return Why(NodeCause.NO_POOL, f"its pool {node.pool} is not configured", node.pool)


def why_pool_keeps(node: Node, counts: Mapping[str, int], settings: Settings) -> Why | None:
    """`counts` are the workers that stand, by pool, with this one."""
    pool = settings.pool_named(node.pool)
    if pool is None:
        return without_a_pool(node)
    left = counts[pool.name] - 1
    if left < pool.min_workers:
        says = f"{left} would be left in pool {pool.name}, its minimum is {pool.min_workers}"
        return Why(NodeCause.POOL_MINIMUM, says, pool.name)
    awake = sum(counts[each.name] for each in settings.pools if not each.may_be_empty) - 1
    if awake < settings.awake_min_workers and not pool.may_be_empty:
        says = f"{awake} would be left in pools that are awake, min_workers is {settings.awake_min_workers}"
        return Why(NodeCause.POOL_MINIMUM, says, pool.name)
    return None


def why_budget_keeps(node: Node, chosen: Sequence[Node], rooms: Mapping[str, Allowance]) -> Why | None:
    room = rooms[node.pool]
    used = sum(1 for other in chosen if other.pool == node.pool)
    if used < room.count:
        return None
    return Why(NodeCause.BUDGET, f"{room.count} more of its pool may go: {room.says}", node.pool)


def why_not_drainable(
    node: Node, snapshot: Snapshot, settings: Settings, disruptions: Disruptions | None = None
) -> Why | None:
    """The first pod that may not be evicted now, with the rule or the budget that says so."""
    disruptions = disruptions or Disruptions(snapshot.cluster.budgets, spends=False)
    pods = snapshot.cluster.pods_on.get(node.name, ())
    return why_pod_stays(plan_drain(node, pods, disruptions, settings, snapshot.players_of))


def why_pod_stays(plan: DrainPlan) -> Why | None:
    """The first pod that may not be evicted, or not now."""
    for treatment, cause in ((Treatment.BLOCK, NodeCause.POD_BLOCKS), (Treatment.WAIT, NodeCause.POD_WAITS)):
        for judgement in plan.treated(treatment):
            return Why(cause, judgement.says, judgement.pod.full_name)
    return None


class Elsewhere:
    """Whether the pods of some nodes fit on the others. The rooms are made once and put back after each try,
    since this is asked of every worker."""

    def __init__(self, snapshot: Snapshot, record: Record, wanted: Sequence[Wanted] = ()) -> None:
        lost = doomed(record)
        names = {name for name, instance in snapshot.instance_of.items() if instance.id in lost}
        self._placement = placement_of(snapshot.cluster, names)
        self._pods_on = snapshot.cluster.pods_on
        rooms = self._placement.rooms.values()
        self._most_cpu_milli = max((room.cpu_milli for room in rooms), default=0)
        self._most_memory_mib = max((room.memory_mib for room in rooms), default=0)
        self._spare = Spare(self._placement.rooms, wanted)
        self._spare_before = self._spare.there()

    def why_not(self, leaving: list[Node]) -> Why | None:
        """The first pod that would have no place, or headroom that would be lost; None when all have one."""
        pods = [pod for node in leaving for pod in self._pods_on.get(node.name, ()) if not pod.tied_to_node]
        for pod in pods:
            asked = pod.requests
            if asked.cpu_milli > self._most_cpu_milli or asked.memory_mib > self._most_memory_mib:
                return without_a_place(pod)
        gone = {node.name for node in leaving}
        rooms = [room for room in self._placement.rooms.values() if room.name not in gone]
        taken = [room for name in gone if (room := self._placement.close(name)) is not None]
        placed: list[tuple[Pod, Room]] = []
        try:
            for pod in pods:
                room = self._placement.first_fit(pod, rooms)
                if room is None:
                    return without_a_place(pod)
                self._placement.place(pod, room)
                placed.append((pod, room))
            lost = self._spare.why_less(self._spare_before)
            return Why(NodeCause.HEADROOM, lost) if lost else None
        finally:
            for pod, room in placed:
                self._placement.take_out(pod, room)
            for room in taken:
                self._placement.open(room)


def without_a_place(pod: Pod) -> Why:
    return Why(NodeCause.NO_PLACE, f"{pod.full_name} would fit on no other node", pod.full_name)
