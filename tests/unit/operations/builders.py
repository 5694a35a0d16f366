"""What the tests of the machines share: a situation, and nodes as a cordon of ours leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ebbtide.core.nodes.drain import Disruptions
from ebbtide.core.operations import removals, slots
from ebbtide.core.operations.situation import Situation
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.effect import Breach, Broken, Effect
from ebbtide.model.operation import Consolidate, Removal, ScaleDown, ScaleUp, Slot, Spot
from ebbtide.model.record import Lease, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Ownership, Snapshot
from tests.builders import NOW, make_node, make_pod, make_record, make_settings, make_snapshot

TOKEN = 5
MINUTE = 60
ON = make_settings(consolidation=ConsolidationSettings(enabled=True))


def make_situation(
    snapshot: Snapshot | None = None,
    *,
    record: Record | None = None,
    settings: Settings | None = None,
    now: int = NOW,
    token: int = TOKEN,
) -> Situation:
    """A runner with token 5 that may start effects for a minute from now; consolidation is on."""
    return Situation(
        snapshot=make_snapshot() if snapshot is None else snapshot,
        record=make_record() if record is None else record,
        settings=ON if settings is None else settings,
        lease=Lease("cluster", "runner", token, now + 300),
        now=now,
        effects_until=now + MINUTE,
    )


def with_work(work: ScaleUp | ScaleDown | Consolidate | Spot, **overrides: Any) -> Record:
    """The record that holds this work."""
    if isinstance(work, Spot):
        return make_record(**{"spots": (work,), **overrides})
    return make_record(**{"operation": work, **overrides})


def cordoned(name: str = "a1", operation_id: str = "op", token: int = TOKEN, **overrides: Any) -> Node:
    return make_node(name, **{"unschedulable": True, "owner": Ownership(operation_id, token), **overrides})


def fleet(first: Node, *names: str) -> Snapshot:
    """The node in question and three more, so no gate stands in its way; each runs a web pod."""
    nodes = (first, *(make_node(name) for name in names or ("a2", "b1", "b2")))
    return make_snapshot(nodes, [make_pod(f"web-{n.name}", node_name=n.name) for n in nodes[1:]])


def with_pods(snapshot: Snapshot, *pods: Any) -> Snapshot:
    cluster = snapshot.cluster
    return replace(snapshot, cluster=replace(cluster, pods=(*cluster.pods, *pods)))


def without_instance(snapshot: Snapshot, instance_id: str) -> Snapshot:
    return replace(snapshot, instances=tuple(i for i in snapshot.instances if i.id != instance_id))


def with_instance(snapshot: Snapshot, instance_id: str, **overrides: Any) -> Snapshot:
    changed = tuple(replace(i, **overrides) if i.id == instance_id else i for i in snapshot.instances)
    return replace(snapshot, instances=changed)


def advance_removal(
    removal: Removal, situation: Situation, operation_id: str = "op"
) -> tuple[Removal, tuple[Effect, ...]]:
    disruptions = Disruptions(situation.snapshot.cluster.budgets)
    return removals.advance_removal(removal, operation_id, situation, disruptions)


def advance_slot(slot: Slot, situation: Situation) -> tuple[Slot, tuple[Effect, ...]]:
    return slots.advance_slot(slot, "op", situation)


def breaches(broken: Iterable[Broken]) -> list[tuple[Breach, str]]:
    return [(each.cause, each.about) for each in broken]
