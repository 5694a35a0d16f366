"""Whether to replace a worker now, and with what: repair of what is unwell, then what is drifted or expired.

One at a time. Everything that could keep the node once its replacement is Ready is checked before anything
is launched: a replacement for a node that has to stay would be one node too many (row 35). The removal
itself is an ordinary scale-down that waits for its replacement, so all gates are checked again before the
node goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import count_against_max, doomed, held_by_pool, staying, workers_by_zone
from ebbtide.core.nodes.drain import Disruptions, plan_drain
from ebbtide.core.nodes.fit import placement_of
from ebbtide.core.nodes.offers import Offer, all_offers
from ebbtide.core.nodes.question import (
    Answer,
    Question,
    backed_off,
    cooled_down,
    no_operation,
    nothing_leaves,
)
from ebbtide.core.nodes.room import Room, residents_of
from ebbtide.core.nodes.targets import removal_of, why_kept, why_not_chosen, why_pod_stays, without_a_pool
from ebbtide.core.nodes.unwell import (
    Unfit,
    is_due,
    longest_unwell,
    outdated_among,
    pool_well,
    still_there,
    why_unwell,
)
from ebbtide.core.words import count_of, expected_nodes, notices_open
from ebbtide.model.check import Check, NodeCause, Refusal, Values, Why, held_by, refused
from ebbtide.model.operation import Removal, Slot
from ebbtide.model.pod import NOTHING, Pod
from ebbtide.model.pool import NodeType, Pool, RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot

MOST_TRIES = 50
"""Offers that are tried for one node: a pod that none of these takes is hardly taken by any other."""
NAME = "replacement"


class Successors:
    """The rooms of the cluster are made once, and put back after each try."""

    def __init__(self, snapshot: Snapshot, record: Record, settings: Settings) -> None:
        self._snapshot = snapshot
        self._record = record
        lost = doomed(record)
        names = {name for name, instance in snapshot.instance_of.items() if instance.id in lost}
        self._placement = placement_of(snapshot.cluster, names)
        self._offers = all_offers(snapshot, record, settings)
        self._zones = workers_by_zone(snapshot, record)

    def offer_for(self, node: Node, pool: Pool, pods: Sequence[Pod]) -> tuple[Offer | None, str]:
        """The offer, or why there is none that takes these pods of the node."""
        why = f"pool {pool.name} offers nothing"
        held = held_by_pool(self._snapshot, self._record, pool) if pool.limits is not None else NOTHING
        taken = self._placement.close(node.name)
        try:
            for offer in self._in_order(node, pool)[:MOST_TRIES]:
                over = pool.limits.why_over(held.plus(offer.node_type.allocatable)) if pool.limits else ""
                why = f"with a replacement pool {pool.name} offers {over}" if over else ""
                why = why or self._why_not(offer, pods)
                if not why:
                    return offer, ""
        finally:
            if taken is not None:
                self._placement.open(taken)
        return None, why

    def takes(self, offer: Offer, node: Node, pods: Sequence[Pod]) -> bool:
        """Whether a node of this offer, and those that stay, take these pods of the node."""
        taken = self._placement.close(node.name)
        try:
            return not self._why_not(offer, pods)
        finally:
            if taken is not None:
                self._placement.open(taken)

    def _in_order(self, node: Node, pool: Pool) -> list[Offer]:
        def order(offer: Offer) -> tuple[bool, bool, bool, Decimal, bool, int, str]:
            price = offer.price
            return (
                offer.rests,
                offer.node_type.name != node.instance_type,
                price is None,
                price or Decimal(0),
                offer.zone != node.zone,
                self._zones[offer.zone],
                offer.zone,
            )

        return sorted((offer for offer in self._offers if offer.pool.name == pool.name), key=order)

    def _why_not(self, offer: Offer, pods: Sequence[Pod]) -> str:
        """The first pod that would fit neither there nor on another node."""
        new = offer.room(NAME)
        self._placement.open(new)
        placed: list[tuple[Pod, Room]] = []
        others = [room for room in self._placement.rooms.values() if room is not new]
        try:
            for pod in pods:
                room = self._placement.first_fit(pod, (new, *others))
                if room is None:
                    return f"{pod.full_name} would fit neither on a new {offer.node_type.name} nor elsewhere"
                self._placement.place(pod, room)
                placed.append((pod, room))
        finally:
            for pod, room in placed:
                self._placement.take_out(pod, room)
            self._placement.close(NAME)
        return ""


class StandIns:
    """What may be launched where the offer that was chosen for a replacement has no capacity: only what would
    let the node go as well. Any other node of the pool would be one too many, each time it is tried."""

    def __init__(
        self, snapshot: Snapshot, record: Record, settings: Settings, removals: Sequence[Removal]
    ) -> None:
        self._snapshot = snapshot
        self._record = record
        self._settings = settings
        self._removals = removals
        self._successors = Successors(snapshot, record, settings)

    def serve(self, _: Slot, pool: Pool, zone: str, node_type: NodeType) -> bool:
        offer = Offer(pool, node_type, zone, residents_of(self._snapshot.cluster, pool))
        return all(self._serves(removal, offer) for removal in self._removals)

    def _serves(self, removal: Removal, offer: Offer) -> bool:
        node = self._snapshot.node_of.get(removal.instance_id)
        if node is None:
            return True
        replaced = with_replacement(self._snapshot, offer.pool.name, offer.zone)
        pods = pods_to_move(node, self._snapshot, removal.unhealthy)
        kept = gates.keeps_zones(replaced, self._record, self._settings, (removal,)).passed
        return kept and self._successors.takes(offer, node, pods)


def with_replacement(snapshot: Snapshot, pool: str, zone: str) -> Snapshot:
    """As if the replacement were there."""
    coming = Node(NAME, "", pool=pool, zone=zone)
    return replace(snapshot, cluster=replace(snapshot.cluster, nodes=(*snapshot.cluster.nodes, coming)))


def pods_to_move(node: Node, snapshot: Snapshot, unhealthy: bool) -> list[Pod]:
    pods = snapshot.cluster.pods_on.get(node.name, ())
    pods = still_there(node, pods, snapshot.at) if unhealthy else pods
    return [pod for pod in pods if not pod.tied_to_node and not pod.terminating]


@dataclass(frozen=True, slots=True)
class Chosen:
    unfit: Unfit
    removal: Removal
    slot: Slot | None = None
    """None where nothing needs to take its place."""


def repair(q: Question, answer: Answer) -> Iterator[Check]:
    """Workers that have been unwell for too long, the longest first."""
    workers = q.snapshot.cluster.workers if q.settings.repair else ()
    asked = workers if q.record.unwell else ()
    due = [node for node in asked if is_due(node, q.record, q.settings, q.now)]
    says = f"{len(due)} of {count_of(len(workers), 'worker')} are unwell for too long"
    says = says if q.settings.repair else "repair is off"
    yield Check("a worker is unwell", bool(due), says, Values(len(due), 1))
    due.sort(key=lambda node: (_unwell_since(node, q), node.name))
    why = {node.name: why_unwell(node, q.record, q.settings, q.now) for node in due}
    yield from _replace(q, answer, [Unfit(node, RemovalReason.UNHEALTHY, why[node.name]) for node in due])


def _unwell_since(node: Node, q: Question) -> int:
    longest = longest_unwell(node, q.record)
    return longest.since if longest is not None else q.now


def replace_outdated(q: Question, answer: Answer) -> Iterator[Check]:
    """Ready workers that are drifted or expired, the oldest first."""
    workers = staying(q.snapshot, q.record)
    found = [causes[0] for causes in outdated_among(workers, q.snapshot, q.settings, q.now)]
    found.sort(key=lambda unfit: (unfit.node.created_at, unfit.node.name))
    says = f"{len(found)} of {count_of(len(workers), 'ready worker')} are drifted or expired"
    yield Check("a worker is drifted or expired", bool(found), says, Values(len(found), 1))
    yield gates.load_known(q.snapshot)
    yield gates.no_pod_pending(q.snapshot)
    yield cooled_down(q, q.settings.cooldown_down_seconds, "cooldown_down_sec")
    yield nothing_leaves(q)
    yield from _replace(q, answer, found)


def _replace(q: Question, answer: Answer, candidates: Sequence[Unfit]) -> Iterator[Check]:
    snapshot, record, settings = q.snapshot, q.record, q.settings
    yield no_operation(q)
    yield gates.not_paused(record)
    yield gates.complete(snapshot)
    yield gates.plausible(snapshot, record, settings)
    yield gates.healthy(snapshot, record, settings)
    yield backed_off(record.removal_failures, record.removal_backoff_until, q.now)
    spots = len(record.spots)
    yield Check("no spot notice open", not spots, notices_open(spots), Values(spots, 0))
    chosen, answer.refusals = _choose(q, candidates)
    if chosen is not None:
        _fill(answer, chosen)
    first = next(iter(answer.refusals), None)
    says = f"none may be replaced; {first.node_name}: {first.reason}" if first else "no worker"
    says = chosen.unfit.node.name if chosen else says
    about = chosen.unfit.node.name if chosen else first.node_name if first else ""
    yield Check("a worker can be replaced", chosen is not None, says, Values(about=about))


def _fill(answer: Answer, chosen: Chosen) -> None:
    unfit, slot = chosen.unfit, chosen.slot
    answer.removals, answer.cause = (chosen.removal,), unfit.cause
    answer.slots = () if slot is None else (slot,)
    does = f"remove {unfit.node.name}, which has no pods"
    if slot is not None:
        does = f"replace {unfit.node.name} by {slot.instance_type} in {slot.zone}"
    answer.reason = f"{does}: {unfit.cause}, {unfit.says}"


def _choose(q: Question, candidates: Iterable[Unfit]) -> tuple[Chosen | None, tuple[Refusal, ...]]:
    refusals: list[Refusal] = []
    successors = cache(lambda: Successors(q.snapshot, q.record, q.settings))
    for unfit in candidates:
        pool = q.settings.pool_named(unfit.node.pool)
        found = without_a_pool(unfit.node) if pool is None else _judged(unfit, pool, successors, q)
        if isinstance(found, Chosen):
            return found, tuple(refusals)
        refusals.append(refused(unfit.node.name, found))
    return None, tuple(refusals)


def _judged(unfit: Unfit, pool: Pool, successors: Callable[[], Successors], q: Question) -> Chosen | Why:
    why = _why_kept(unfit, pool, q)
    if why is not None:
        return why
    if not _carries(unfit, q):
        removal = _removal(unfit, q)
        held = _why_gates_hold(unfit, removal, None, q)
        if held is None or pool.may_be_empty:
            return held or Chosen(unfit, removal)
    return _replacement(unfit, pool, successors(), q)


def _why_kept(unfit: Unfit, pool: Pool, q: Question) -> Why | None:
    """Why this node stays, whatever would take its place."""
    node, snapshot, record, settings = unfit.node, q.snapshot, q.record, q.settings
    # A scale-down takes none that is not Ready: this one would be paid until the pool wakes.
    if pool.may_be_empty and not (_is_silent(unfit) and _ended(unfit, q)):
        says = f"its pool {pool.name} sleeps: it goes without a replacement when it is idle"
        return Why(NodeCause.POOL_SLEEPS, says, pool.name)
    # The pods of a broken node do not run: it is not left to failed drains for longer than the first of them.
    broken = unfit.cause is RemovalReason.UNHEALTHY
    why = why_kept(node, snapshot, record) if broken else why_not_chosen(node, snapshot, record)
    if why is None and any(one.node_uid == node.uid for one in record.leaving):
        why = Why(NodeCause.GOING, "consolidation is removing it")
    if why is not None:
        return why
    if broken:
        unwell = held_by((pool_well(pool.name, snapshot, record, settings),))
        if unwell is not None:
            return unwell
    budget = gates.within_budget(snapshot, record, settings, (_removal(unfit, q),), unfit.cause)
    return held_by((budget,)) or _why_not_drainable(unfit, q)


def _removal(unfit: Unfit, q: Question) -> Removal:
    unhealthy = unfit.cause is RemovalReason.UNHEALTHY
    return replace(removal_of(unfit.node, q.snapshot), unhealthy=unhealthy)


def _why_not_drainable(unfit: Unfit, q: Question) -> Why | None:
    disruptions = Disruptions(q.snapshot.cluster.budgets, spends=False)
    plan = plan_drain(unfit.node, _pods(unfit, q), disruptions, q.settings, q.snapshot.players_of)
    return why_pod_stays(plan)


def _pods(unfit: Unfit, q: Question) -> tuple[Pod, ...]:
    pods = q.snapshot.cluster.pods_on.get(unfit.node.name, ())
    return still_there(unfit.node, pods, q.now) if unfit.cause is RemovalReason.UNHEALTHY else pods


def _carries(unfit: Unfit, q: Question) -> bool:
    """Whether something must take its place. An unwell node that never took a pod is nobody's loss; nor is a
    silent one whose pods have all ended, where the maximum leaves no room for a replacement."""
    if unfit.cause is not RemovalReason.UNHEALTHY:
        return True
    here = q.snapshot.cluster.pods_on.get(unfit.node.name, ())
    if all(pod.tied_to_node for pod in here):
        return False
    pool = q.settings.pool_named(unfit.node.pool)
    asleep = pool is not None and pool.may_be_empty
    return not (_ended(unfit, q) and (asleep or _why_full(unfit.node.pool, q)))


def _ended(unfit: Unfit, q: Question) -> bool:
    return all(pod.tied_to_node for pod in _pods(unfit, q))


def _is_silent(unfit: Unfit) -> bool:
    return unfit.cause is RemovalReason.UNHEALTHY and not unfit.node.ready


def _why_full(pool_name: str, q: Question) -> str:
    """Why no node can be added; empty where one can."""
    count, most = count_against_max(q.snapshot, q.record), q.settings.max_workers
    if count >= most:
        return f"no room for a replacement: {expected_nodes(count)}, max_workers is {most}"
    pool = q.settings.pool_named(pool_name)
    in_pool = count_against_max(q.snapshot, q.record, pool_name)
    if pool is None or pool.takes_more(in_pool):
        return ""
    most = pool.max_workers or 0
    return f"no room for a replacement: {in_pool} nodes in pool {pool_name}, its maximum is {most}"


def _replacement(unfit: Unfit, pool: Pool, successors: Successors, q: Question) -> Chosen | Why:
    """The removal and what takes its place; or why there can be none."""
    full = _why_full(pool.name, q)
    if full:
        return Why(NodeCause.NO_REPLACEMENT, full)
    pods = pods_to_move(unfit.node, q.snapshot, unfit.cause is RemovalReason.UNHEALTHY)
    offer, why = successors.offer_for(unfit.node, pool, pods)
    if offer is None:
        return Why(NodeCause.NO_REPLACEMENT, why)
    removal = _removal(unfit, q)
    held = _why_gates_hold(unfit, removal, offer.zone, q)
    return held or Chosen(unfit, removal, offer.slot(f"{q.operation_id}-0"))


def _why_gates_hold(unfit: Unfit, removal: Removal, zone: str | None, q: Question) -> Why | None:
    """The first gate that would not let the node go, as if its replacement in this zone were there."""
    snapshot, record, settings = q.snapshot, q.record, q.settings
    replaced = snapshot if zone is None else with_replacement(snapshot, unfit.node.pool, zone)
    checks = [
        gates.keeps_minimum(replaced, record, settings, (removal,)),
        gates.keeps_zones(replaced, record, settings, (removal,)),
    ]
    if unfit.node.ready:
        # A silent node carries no load: what is pending or busy cannot get worse without it.
        checks += [
            gates.no_pod_pending(snapshot),
            gates.load_known(snapshot),
            gates.load_fits(snapshot, record, settings, (removal,), joining=int(zone is not None)),
        ]
    return held_by(checks)
