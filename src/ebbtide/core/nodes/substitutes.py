"""What may be launched where an offer has no capacity: only what takes one of the pods that the first was
chosen for.

Their volume, their spread or their size may ask for exactly that zone or type. A node elsewhere would help
none of them: they would stay pending, and ask for the next useless node, up to the maximum. A slot that no
pod asked for (for the minimum, for CPU) may go anywhere in its pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from ebbtide.core.nodes.headroom import phantoms
from ebbtide.core.nodes.launching import LaunchLimits, LaunchSketch
from ebbtide.core.nodes.offers import Offer, all_offers, expected_placement
from ebbtide.core.nodes.room import residents_of
from ebbtide.model.operation import ScaleUp, Slot
from ebbtide.model.pod import Pod
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

NEW = "substitute"


class Substitutes:
    """Which pods are left without a node if some slots never become one; asked about each of these."""

    def __init__(
        self,
        snapshot: Snapshot,
        record: Record,
        operation: ScaleUp,
        settings: Settings,
        lost: Collection[str],
    ) -> None:
        """`lost` are the keys of the slots that have no capacity."""
        self._snapshot = snapshot
        self._settings = settings
        kept = tuple(slot for slot in operation.slots if slot.key not in lost)
        record = replace(record, launching=replace(operation, slots=kept))
        pending = [pod for pod in snapshot.cluster.waiting_pods if pod.controller != "DaemonSet"]
        self._placement = expected_placement(snapshot, record, settings, pending)
        nothing_new = LaunchLimits(0, 0, Counter(), Counter())
        offers = all_offers(snapshot, record, settings)
        launching = LaunchSketch(self._placement, offers, nothing_new, settings)
        launching.serve(pending)
        self._unserved = [*launching.unserved, *self._missing_headroom()]

    def serve(self, slot: Slot, pool: Pool, zone: str, node_type: NodeType) -> bool:
        """Whether a node of this type in this zone does for the slot."""
        first = pool.type_named(slot.instance_type)
        asked = [pod for pod in self._unserved if first and self._takes(pool, slot.zone, first, pod)]
        return not asked or any(self._takes(pool, zone, node_type, pod) for pod in asked)

    def _missing_headroom(self) -> list[Pod]:
        missing = []
        for phantom in phantoms(self._settings, self._snapshot.at):
            room = self._placement.first_fit(phantom)
            if room is None:
                missing.append(phantom)
            else:
                self._placement.place(phantom, room)
        return missing

    def _takes(self, pool: Pool, zone: str, node_type: NodeType, pod: Pod) -> bool:
        room = Offer(pool, node_type, zone, residents_of(self._snapshot.cluster, pool)).room(NEW)
        self._placement.open(room)
        try:
            return self._placement.why_not(pod, room) is None
        finally:
            self._placement.close(NEW)
