"""The answer to a spot notice.

    interruption  the cloud will take the instance: cordon, evict what can be evicted, and launch a
                  replacement as soon as the total stays within max. Nothing is terminated by us.
    rebalance     a recommendation, so voluntary: all gates and the drain rules are asked first, as if the
                  replacement were there; then it comes; once it is ready the old node passes the same
                  gates as any removal. It lapses after a while.

A node that a scale-down already removes is only hurried along, without a replacement. A rebalance is
upgraded in place by an interruption; the other way round changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from ebbtide.core.nodes import gates, orphans
from ebbtide.core.nodes.capacity import condemned, open_removals, total
from ebbtide.core.nodes.drain import Disruptions
from ebbtide.core.nodes.offers import Offer, Serves, replacement_offer
from ebbtide.core.nodes.question import none_in_progress
from ebbtide.core.nodes.replacing import StandIns, Successors, pods_to_move
from ebbtide.core.nodes.targets import Elsewhere, why_kept, why_not_drainable
from ebbtide.core.operations import removals, slots
from ebbtide.core.operations.situation import Closed, Situation, handed_over, rest_offers
from ebbtide.model.check import NodeCause, Why, held_by
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, Step
from ebbtide.model.events import SpotAnswer
from ebbtide.model.operation import (
    AbortCause,
    Obstacle,
    Removal,
    RemovalCause,
    RemovalState,
    SlotCause,
    SlotState,
    Spot,
    SpotEnd,
    SpotKind,
    SpotNotice,
    spot_id,
)
from ebbtide.model.pool import Pool, RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot

LAPSED = Obstacle(RemovalCause.LAPSED, "the interruption did not come")
PAUSED = Obstacle(RemovalCause.ABORTED, "removals were paused", AbortCause.PAUSED.value)
NO_PLACE = Why(NodeCause.NO_REPLACEMENT, "no new node of its pool would take its pods")
NO_ROOM = Why(NodeCause.NO_REPLACEMENT, "no room for a replacement below the maximum")
TOO_LONG = Obstacle(RemovalCause.ABORTED, "it took too long", AbortCause.TOO_LONG.value)
ALLOWED: dict[SpotKind, frozenset[SpotKind]] = {
    SpotKind.REBALANCE: frozenset({SpotKind.INTERRUPTION}),
    SpotKind.INTERRUPTION: frozenset(),
}


def take_in(
    record: Record, notice: SpotNotice, snapshot: Snapshot, settings: Settings, now: int
) -> tuple[Record, SpotAnswer]:
    """The record with the notice in it, and what was made of it; unchanged where it is dropped."""
    noticed_at = min(notice.noticed_at, now)
    instance = snapshot.instance_with_id.get(notice.instance_id)
    # The queue may carry notices of other clusters.
    if instance is None or not instance.pool:
        return record, SpotAnswer.NOT_OURS
    # Its removal, ours or by hand, is ahead of the notice.
    if not instance.alive:
        return record, SpotAnswer.ALREADY_GOING
    # A queue keeps notices for days: acting on an old one would empty a node for nothing.
    if now >= _lapses_at(notice.kind, noticed_at, notice.deadline, settings):
        return record, SpotAnswer.TOO_OLD
    known = record.spot_for(notice.instance_id)
    # Crash table: spot-duplicates. One answer for each instance, however often it is announced.
    if known is None:
        spot = Spot(
            id=spot_id(notice.instance_id),
            instance_id=notice.instance_id,
            kind=notice.kind,
            noticed_at=noticed_at,
            deadline=notice.deadline,
            pool=instance.pool,
            instance_type=instance.instance_type,
        )
        # Crash table: two-owners. A removal that is open already is only hurried along.
        if _removed_elsewhere(spot, record):
            spot = replace(spot, replace=False)
        return replace(record, spots=(*record.spots, spot)), SpotAnswer.TAKEN_IN
    # Crash table: spot-duplicates. Notices may arrive in any order: an interruption is never downgraded.
    if known.kind is SpotKind.REBALANCE and notice.kind is SpotKind.INTERRUPTION:
        upgraded = replace(known, kind=notice.kind, noticed_at=noticed_at, deadline=notice.deadline)
        return with_spot(record, upgraded), SpotAnswer.UPGRADED
    return record, SpotAnswer.KNOWN


def may_be_ours(notice: SpotNotice, snapshot: Snapshot, settings: Settings, now: int) -> bool:
    """Whether an instance that the cloud does not list now may be ours all the same: a worker bears its id,
    or nothing is listed although there are workers. Such a notice waits, until it is too old."""
    lapses_at = _lapses_at(notice.kind, min(notice.noticed_at, now), notice.deadline, settings)
    if notice.instance_id in snapshot.instance_with_id or now >= lapses_at:
        return False
    workers = snapshot.cluster.workers
    # An empty list next to running workers is a failure of the cloud, not news.
    if not snapshot.instances:
        return bool(workers)
    ending = f"/{notice.instance_id}"
    return any(n.instance_id == notice.instance_id or n.provider_id.endswith(ending) for n in workers)


def with_spot(record: Record, spot: Spot) -> Record:
    spots = tuple(spot if other.id == spot.id else other for other in record.spots)
    return replace(record, spots=spots)


def _lapses_at(kind: SpotKind, noticed_at: int, deadline: int, settings: Settings) -> int:
    """When a notice no longer means anything: the cloud did not act on it."""
    if kind is SpotKind.INTERRUPTION:
        return deadline + settings.gone_grace_seconds
    return noticed_at + settings.rebalance_seconds


def _removed_elsewhere(spot: Spot, record: Record) -> bool:
    """Of an answer that removes nothing itself: whether another operation still has the node, to remove it or
    to give it back."""
    owned = {removal.instance_id for removal in open_removals(record)} | condemned(record)
    return spot.instance_id in owned


def advance(spot: Spot, situation: Situation) -> Step[Spot, Effect]:
    # What was not listed may still be there.
    if situation.snapshot.problems or spot.closing is not SpotEnd.OPEN:
        return Step(spot)
    before = spot
    match spot.kind:
        case SpotKind.INTERRUPTION:
            spot = _interrupted(spot, situation)
        case SpotKind.REBALANCE:
            spot = _recommended(spot, situation)
        case _:
            assert_never(spot.kind)
    effects: tuple[Effect, ...] = ()
    # What is new or was just released is written first and acted on in the next round: only what the
    # record holds is counted against the maximum, and the log shows every state.
    if spot.slot is not None and spot.slot == before.slot:
        slot, effects = slots.advance_slot(spot.slot, spot.id, situation)
        spot = replace(spot, slot=slot)
    if spot.removal is not None and spot.removal == before.removal:
        disruptions = Disruptions(situation.snapshot.cluster.budgets)
        removal, wanted = removals.advance_removal(spot.removal, spot.id, situation, disruptions)
        spot = replace(spot, removal=removal)
        effects = wanted + effects
    return Step(_ended(spot, situation), effects)


def _interrupted(spot: Spot, situation: Situation) -> Spot:
    instance = situation.snapshot.instance_with_id.get(spot.instance_id)
    alive = instance is not None and instance.alive
    joined = spot.instance_id in situation.snapshot.node_of
    if spot.removal is None and alive and joined and not _removed_elsewhere(spot, situation.record):
        # Its former owner gave it up, or it has only now joined: from here on it is a loss, and replaced.
        spot = replace(spot, removal=_removal(spot, situation), replace=True)
    # The cloud did not take it: an empty node would only cost money.
    if spot.removal is not None and alive and situation.now >= _lapse(spot, situation):
        spot = replace(spot, removal=removals.release(spot.removal, situation, LAPSED))
    return _with_replacement(spot, situation) if spot.replace else spot


def _lapse(spot: Spot, situation: Situation) -> int:
    return _lapses_at(spot.kind, spot.noticed_at, spot.deadline, situation.settings)


def _removal(spot: Spot, situation: Situation) -> Removal:
    node = situation.snapshot.node_of.get(spot.instance_id)
    if node is None:
        return Removal(spot.instance_id, since=situation.now)
    return Removal(spot.instance_id, node.name, node.uid, node.zone, node.pool, since=situation.now)


def _with_replacement(spot: Spot, situation: Situation) -> Spot:
    """Reserve a slot as soon as there is room for one more."""
    snapshot, record = situation.snapshot, situation.record
    # One replacement only, and never above the maximum: the doomed node still counts until it is gone.
    if spot.slot is not None or total(snapshot, record) >= situation.settings.max_workers:
        return spot
    pool = situation.settings.pool_named(spot.pool)
    # Nothing needs the nodes of a pool that sleeps.
    if pool is None or pool.may_be_empty:
        return replace(spot, replace=False)
    if pool.max_workers is not None and total(snapshot, record, pool.name) >= pool.max_workers:
        return spot
    offer = _offer(spot, pool, situation)
    key = f"{spot.id}-{spot.noticed_at}"
    return spot if offer is None else replace(spot, slot=replace(offer.slot(key), since=situation.now))


def _offer(spot: Spot, pool: Pool, situation: Situation) -> Offer | None:
    """Where the fewest workers are, if the pods of the node can run there, else where they can. An
    interruption does not wait for a place for them."""
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    usual = replacement_offer(snapshot, record, settings, pool, spot.instance_type)
    node = snapshot.node_of.get(spot.instance_id)
    if node is None:
        return usual
    successors, pods = Successors(snapshot, record, settings), pods_to_move(node, snapshot, unhealthy=False)
    if successors.takes(usual, node, pods):
        return usual
    found, _ = successors.offer_for(node, pool, pods)
    return usual if found is None and spot.kind is SpotKind.INTERRUPTION else found


def _recommended(spot: Spot, situation: Situation) -> Spot:
    if spot.removal is not None:
        # A recommendation is voluntary, so a pause also ends what was begun for it.
        if situation.record.paused:
            return replace(spot, removal=removals.release(spot.removal, situation, PAUSED))
        # A drain that never ends would keep the node cordoned.
        if situation.now >= _lapse(spot, situation) + situation.settings.stuck_seconds:
            return replace(spot, removal=removals.release(spot.removal, situation, TOO_LONG))
        return spot
    instance = situation.snapshot.instance_with_id.get(spot.instance_id)
    if instance is None or not instance.alive or _why_wait(spot, situation):
        return spot
    if spot.slot is None:
        return _with_replacement(spot, situation)
    # Only now: until the replacement is Ready, both nodes are needed.
    if spot.slot.state is SlotState.READY:
        return replace(spot, removal=_removal(spot, situation))
    return spot


def _why_wait(spot: Spot, situation: Situation) -> Why | None:
    """The first gate that keeps a recommendation from being followed now."""
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    checks = (
        none_in_progress(record.operation),
        gates.not_paused(record),
        gates.plausible(snapshot, record, settings),
        gates.healthy(snapshot, record, settings),
        gates.within_budget(
            snapshot, record, settings, (_removal(spot, situation),), RemovalReason.REBALANCE
        ),
    )
    return held_by(checks) or _why_kept(spot, situation)


def _why_kept(spot: Spot, situation: Situation) -> Why | None:
    """Whatever would keep the node from going once its replacement is Ready. Asked before any launch: a
    replacement for a node that cannot be drained is a node too many (row 35)."""
    snapshot, record, settings = situation.snapshot, situation.record, situation.settings
    node, pool = snapshot.node_of.get(spot.instance_id), settings.pool_named(spot.pool)
    if node is None:
        return Why(NodeCause.CHANGED, "its node is not in the cluster", spot.instance_id)
    if pool is None:
        return Why(NodeCause.NO_POOL, f"its pool {spot.pool} is not configured", spot.pool)
    if pool.may_be_empty:
        return Why(NodeCause.POOL_SLEEPS, f"its pool {spot.pool} sleeps", spot.pool)
    why = why_kept(node, snapshot, record) or why_not_drainable(node, snapshot, settings)
    coming = why or _coming(spot, node, pool, situation)
    if isinstance(coming, Why):
        return replace(coming, says=f"{node.name} cannot go: {coming.says}", about=coming.about or node.name)
    removing = (_removal(spot, situation),)
    cluster = replace(snapshot.cluster, nodes=(*snapshot.cluster.nodes, *coming))
    replaced = replace(snapshot, cluster=cluster)
    checks = (
        gates.keeps_minimum(replaced, record, settings, removing),
        gates.keeps_zones(replaced, record, settings, removing),
        gates.no_pod_pending(snapshot),
        gates.load_known(snapshot),
        gates.load_fits(snapshot, record, settings, removing, joining=len(coming)),
    )
    return held_by(checks)


def _coming(spot: Spot, node: Node, pool: Pool, situation: Situation) -> tuple[Node, ...] | Why:
    """The replacement, as it will stand in the cluster, if it is not there yet; or the first pod that would
    have no place."""
    if spot.slot is not None and spot.slot.state is SlotState.READY:
        # Another offer than the planned one may have come, or pods that waited may have taken its room.
        return Elsewhere(situation.snapshot, situation.record).why_not([node]) or ()
    place = spot.slot or _offer(spot, pool, situation)
    if place is None:
        return NO_PLACE
    return (Node(f"{spot.id}-replacement", "", pool=spot.pool, zone=place.zone),)


def _ended(spot: Spot, situation: Situation) -> Spot:
    """With how it ended, once nothing is left to do."""
    if spot.slot is not None and not spot.slot.settled:
        return spot
    if spot.removal is not None:
        return _ended_removal(spot, spot.removal, situation)
    # Its owner may give it back, and then the interruption still has to be answered.
    if _removed_elsewhere(spot, situation.record):
        return spot
    instance = situation.snapshot.instance_with_id.get(spot.instance_id)
    if instance is not None and not instance.alive:
        return replace(spot, closing=SpotEnd.REMOVED_MEANWHILE)
    # Crash table: interrupted-unlisted.
    if spot.kind is SpotKind.INTERRUPTION:
        # It may join yet; or it went away unseen; or the list lags behind and it is still to be emptied.
        if situation.now < _lapse(spot, situation):
            return spot
        return replace(spot, closing=SpotEnd.NEVER_JOINED if instance else SpotEnd.NOT_LISTED)
    if spot.slot is not None and spot.slot.state is not SlotState.READY:
        return replace(spot, closing=SpotEnd.NO_REPLACEMENT)
    if situation.now >= _lapse(spot, situation):
        return replace(spot, closing=SpotEnd.LAPSED)
    return spot


def _ended_removal(spot: Spot, removal: Removal, situation: Situation) -> Spot:
    if not removal.settled:
        return spot
    if removal.state is RemovalState.RELEASED:
        return replace(spot, closing=SpotEnd.NODE_STAYS)
    if removal.state is RemovalState.SET_ASIDE:
        return replace(spot, closing=SpotEnd.SET_ASIDE)
    # The node is gone, but its replacement may still be waiting for room below the maximum.
    if spot.replace and spot.slot is None and situation.now < _lapse(spot, situation):
        return spot
    return replace(spot, closing=SpotEnd.ANSWERED)


def absorb(spot: Spot, outcomes: Sequence[Outcome], situation: Situation) -> Spot:
    serves: Serves | None = None
    if spot.kind is SpotKind.REBALANCE and slots.without_capacity(outcomes):
        going = (_removal(spot, situation),)
        serves = StandIns(situation.snapshot, situation.record, situation.settings, going).serve
    for outcome in outcomes:
        if spot.slot is not None:
            slot = slots.absorb_slot(spot.slot, outcome, situation.settings, situation.now, serves)
            spot = replace(spot, slot=slot)
        if spot.removal is not None:
            spot = replace(spot, removal=removals.absorb_removal(spot.removal, outcome, situation))
    return spot


def is_settled(spot: Spot) -> bool:
    return spot.closing is not SpotEnd.OPEN


@dataclass(frozen=True, slots=True)
class EndWhy:
    """Why the answer to a notice ended as it did: the cause, and the same for people."""

    cause: RemovalCause | SlotCause | NodeCause = RemovalCause.NONE
    says: str = ""
    about: str = ""
    """What the cause is about: a check, pod or node."""


def why_ended(spot: Spot, situation: Situation) -> EndWhy:
    """Empty if how it ended says it all."""
    removal, slot = spot.removal, spot.slot
    if removal is not None and spot.closing in (SpotEnd.NODE_STAYS, SpotEnd.SET_ASIDE):
        return EndWhy(removal.why, removal.reason, removal.about)
    if slot is not None and spot.closing is SpotEnd.NO_REPLACEMENT:
        return EndWhy(slot.why, slot.reason)
    if spot.closing is SpotEnd.LAPSED:
        why = _why_wait(spot, situation) or NO_ROOM
        return EndWhy(why.cause, why.says, why.about)
    return EndWhy()


def close(record: Record, spot: Spot, settings: Settings, now: int) -> Closed:
    record = replace(record, spots=tuple(other for other in record.spots if other.id != spot.id))
    if spot.slot is not None:
        record = rest_offers(record, (spot.slot,), settings, now)
        record = replace(record, refused=record.refused + handed_over((spot.slot,), spot.id, now))
    if spot.removal is not None:
        record = orphans.set_aside(record, (spot.removal,), spot.id, settings, now)
    removed = spot.removal is not None and spot.removal.state is RemovalState.GONE
    if spot.kind is SpotKind.REBALANCE and removed:
        record = replace(record, last_scale_at=now)
    return Closed(record, spot.closing in (SpotEnd.ANSWERED, SpotEnd.REMOVED_MEANWHILE))


def check_invariants(before: Spot, after: Spot) -> tuple[Broken, ...]:
    broken: tuple[Broken, ...] = ()
    if after.kind is not before.kind and after.kind not in ALLOWED[before.kind]:
        broken += (Broken(Breach.TAKEN_BACK, before.id, f"{before.id} was downgraded"),)
    if before.removal is not None:
        broken += (
            (Broken(Breach.LOST, before.id, f"{before.id} lost its removal"),)
            if after.removal is None
            else removals.check_invariants(before.removal, after.removal)
        )
    if before.slot is not None:
        broken += (
            (Broken(Breach.LOST, before.id, f"{before.id} lost its slot"),)
            if after.slot is None
            else slots.check_invariants(before.slot, after.slot)
        )
    return broken
