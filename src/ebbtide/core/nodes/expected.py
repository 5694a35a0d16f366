"""The cluster as it will be: nodes that stay, and nodes on their way."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.nodes.capacity import coming_slots, doomed
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.late import is_late
from ebbtide.core.nodes.offers import Offer
from ebbtide.core.nodes.room import residents_of
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


def expected_placement(
    snapshot: Snapshot, record: Record, settings: Settings, coming: Sequence[Pod]
) -> Placement:
    """Rooms of the nodes that stay, and of those that are on their way."""
    lost = doomed(record)
    leaving = [name for name, instance in snapshot.instance_of.items() if instance.id in lost]
    placement = placement_of(snapshot.cluster, leaving, coming)
    for slot in coming_slots(record):
        if is_late(slot, settings, snapshot.at):
            continue
        pool = settings.pool_named(slot.pool)
        node_type = pool.type_named(slot.instance_type) if pool else None
        # A node that joined since the last tick may be full already: its slot is no second room.
        node = snapshot.node_of.get(slot.instance_id)
        name = node.name if node is not None else slot.node_name
        if pool and node_type and name not in placement.rooms:
            residents = residents_of(snapshot.cluster, pool)
            placement.open(Offer(pool, node_type, slot.zone, residents).room(slot.key))
    return placement
