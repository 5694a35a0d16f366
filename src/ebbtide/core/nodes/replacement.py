"""What is launched in the place of a worker: its own type in its own zone where the pool still has both, else
the cheapest that takes its pods next to the nodes that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ebbtide.core.nodes.capacity import doomed, held_by_pool, workers_by_zone
from ebbtide.core.nodes.fit import placement_of
from ebbtide.core.nodes.offers import Offer, all_offers
from ebbtide.core.nodes.room import Room
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.resources import NOTHING
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

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
