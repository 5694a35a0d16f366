"""Which workers are unwell: not Ready while their instance runs, or with a condition that was listed.

A timer runs only over what was really seen, as for an idle node. A node that is still joining is followed by
its launch, and one whose instance is gone is forgotten; neither is repaired.
"""

from __future__ import annotations

from math import ceil

from ebbtide.core.nodes.capacity import expected_slots
from ebbtide.core.words import a_while
from ebbtide.model.check import Check, Gate
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record, Unwell
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

NOT_READY = "Ready=False"
UNWELL_FRACTION = 0.20
"""Where more of a pool is unwell, rounded up, the fault is rather with the network or the control plane."""
LOST_SECONDS = 60
"""After so much more than its grace a pod that is terminating on a silent node is taken for ended: nobody is
there to report its end."""


def conditions_of(node: Node, snapshot: Snapshot, settings: Settings) -> tuple[str, ...]:
    """What makes the node unwell now, for however short a time."""
    instance = snapshot.instance_of.get(node.name)
    if instance is None or not instance.alive:
        return ()
    silent = () if node.ready else (NOT_READY,)
    return (*silent, *(one for one in node.conditions if one in settings.repair_conditions))


def unwell_now(snapshot: Snapshot, record: Record, settings: Settings) -> dict[str, tuple[str, ...]]:
    """Workers that are unwell, by name, without those that are still joining."""
    joining = {slot.instance_id for slot in expected_slots(record)}
    found: dict[str, tuple[str, ...]] = {}
    for node in snapshot.cluster.workers:
        conditions = conditions_of(node, snapshot, settings)
        if conditions and snapshot.instance_of[node.name].id not in joining:
            found[node.name] = conditions
    return found


def track_unwell(
    snapshot: Snapshot, record: Record, before: tuple[Unwell, ...], settings: Settings, now: int
) -> tuple[Unwell, ...]:
    """Each since it was first seen so without a break; a stamp from the future is taken as now."""
    if not settings.repair:
        return ()
    since = {(one.node_uid, one.condition): min(one.since, now) for one in before}
    named = snapshot.cluster.node_named
    found = [
        (named[name].uid, condition)
        for name, conditions in unwell_now(snapshot, record, settings).items()
        for condition in conditions
    ]
    return tuple(Unwell(uid, condition, since.get((uid, condition), now)) for uid, condition in sorted(found))


def longest_unwell(node: Node, record: Record) -> Unwell | None:
    mine = [one for one in record.unwell if one.node_uid == node.uid]
    return min(mine, key=lambda one: (one.since, one.condition), default=None)


def why_unwell(node: Node, record: Record, settings: Settings, now: int) -> str:
    """What it suffers from and for how long, with how long is borne; empty where it is well."""
    longest = longest_unwell(node, record)
    if longest is None:
        return ""
    what = "not Ready" if longest.condition == NOT_READY else longest.condition
    lasts, borne = a_while(now - longest.since), a_while(settings.repair_after_seconds)
    return f"{what} for {lasts}, repair_after_sec is {borne}"


def is_due(node: Node, record: Record, settings: Settings, now: int) -> bool:
    longest = longest_unwell(node, record)
    return longest is not None and now - longest.since >= settings.repair_after_seconds


def pool_well(pool: str, snapshot: Snapshot, record: Record, settings: Settings) -> Check:
    """The health brake: where much of a pool is unwell, replacing nodes would only make it worse."""
    gone = record.gone_nodes
    workers = [node for node in snapshot.cluster.workers if node.pool == pool and node.uid not in gone]
    unwell = unwell_now(snapshot, record, settings)
    sick = sum(1 for node in workers if node.name in unwell)
    limit = ceil(UNWELL_FRACTION * len(workers))
    says = f"{sick} of {len(workers)} workers of pool {pool} are unwell; repair stops above {limit} (20 %)"
    return Check(Gate.POOL_WELL, sick <= limit, says)


def still_there(node: Node, pods: tuple[Pod, ...], now: int) -> tuple[Pod, ...]:
    """The pods of an unwell node that count. On a silent node nobody reports the end of a pod: one whose
    grace has long been over would otherwise keep a broken node for ever."""
    return tuple(pod for pod in pods if not is_lost(pod, lost_before(node, now)))


def lost_before(node: Node, now: int) -> int:
    return 0 if node.ready else now - LOST_SECONDS


def is_lost(pod: Pod, before: int) -> bool:
    return pod.terminating and 0 < pod.ends_at <= before
