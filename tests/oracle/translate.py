"""From the engine's values to the oracle's: the one place that knows how the record spells what is in
progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ebbtide.model.operation import (
    Consolidate,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    SourceState,
    SpotKind,
)
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import InstanceState, Snapshot
from tests.oracle.facts import By, Launching, Machine, Moment
from tests.oracle.zero import Sleeper

COMING = (SlotState.RESERVED, SlotState.LAUNCHING, SlotState.LAUNCHED, SlotState.JOINED)
BACK = (RemovalState.RELEASING, RemovalState.RELEASED)
SOURCES_BACK = (SourceState.RELEASING, SourceState.RELEASED)


def removals(record: Record) -> Iterator[tuple[Removal, By]]:
    """Every removal of the record, with who asked for it."""
    for operation in record.operations + record.all_set_aside:
        if isinstance(operation, ScaleDown):
            for removal in operation.removals:
                yield removal, By.SCALE_DOWN
    for spot in record.spots:
        if spot.removal is not None:
            interrupted = spot.kind is SpotKind.INTERRUPTION
            yield spot.removal, By.INTERRUPTION if interrupted else By.REBALANCE


def slots(record: Record) -> Iterator[Slot]:
    for operation in record.operations + record.all_set_aside:
        if isinstance(operation, ScaleUp | Consolidate):
            yield from operation.slots
    for spot in record.spots:
        if spot.slot is not None:
            yield spot.slot


def _going(snapshot: Snapshot, record: Record) -> frozenset[str]:
    names = {removal.node_name for removal, _ in removals(record) if removal.state not in BACK}
    for operation in record.operations:
        if isinstance(operation, Consolidate):
            names |= {s.node_name for s in operation.sources if s.state not in SOURCES_BACK}
    for spot in record.spots:
        node = snapshot.node_of.get(spot.instance_id)
        if spot.kind is SpotKind.INTERRUPTION and node is not None:
            names.add(node.name)
    return frozenset(names)


def moment_of(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Moment:
    alive = [i for i in snapshot.instances if i.state in (InstanceState.PENDING, InstanceState.RUNNING)]
    ours = [instance for instance in alive if instance.pool]
    known = {instance.id for instance in ours} | {instance.key for instance in ours if instance.key}
    coming = [slot for slot in slots(record) if slot.state in COMING]
    open_now = record.operations
    names = {node.uid: node.name for node in snapshot.cluster.nodes}
    unwell: dict[str, int] = {}
    for one in record.unwell:
        if one.node_uid in names:
            unwell[names[one.node_uid]] = min(one.since, unwell.get(names[one.node_uid], one.since))
    return Moment(
        now=now,
        settings=settings,
        nodes=snapshot.cluster.nodes,
        pods=snapshot.cluster.pods,
        budgets=snapshot.cluster.budgets,
        cpu=snapshot.cpu.value,
        players=dict(snapshot.players),
        whole=not snapshot.problems,
        going=_going(snapshot, record),
        coming=tuple(
            Launching(slot.pool, slot.zone, slot.instance_type)
            for slot in coming
            if not {slot.key, slot.instance_id} & known
        ),
        alive=len(ours),
        alive_in=Counter(instance.pool for instance in ours),
        launching=any(isinstance(one, ScaleUp) or getattr(one, "slots", ()) for one in open_now),
        removing=any(isinstance(one, ScaleDown | Consolidate) for one in open_now),
        notices=len(record.spots),
        held=record.paused or bool(record.all_set_aside),
        pending_since=record.pending_since,
        idle_since=record.idle_since,
        last_scale_at=record.last_scale_at,
        removal_backoff_until=record.removal_backoff_until,
        launch_backoff_until=record.launch_backoff_until,
        launch_backoff_about=frozenset(record.launch_backoff_offers),
        empty_since={names[one.node_uid]: one.since for one in record.emptied if one.node_uid in names},
        last_consolidation_at=record.last_consolidation_at,
        resting=frozenset(
            snapshot.node_of[rest.instance_id].name
            for rest in record.rests
            if rest.until > now and rest.instance_id in snapshot.node_of
        ),
        machines={
            name: Machine(one.instance_type, one.launch_hash, one in alive)
            for name, one in snapshot.instance_of.items()
        },
        kinds_in={
            pool.name: tuple(one.instance_type for one in ours if one.pool == pool.name)
            for pool in settings.pools
        },
        unwell_since=unwell,
        without_capacity=frozenset(rest.offer for rest in record.offer_rests if rest.until > now),
    )


def sleeper_of(policy: Policy, defaults: ZeroDefaults) -> Sleeper:
    threshold, keep = policy.idle_threshold_seconds, policy.keep_alive_window_seconds
    return Sleeper(
        policy.scale_to_zero,
        policy.enabled,
        len(policy.signals),
        defaults.idle_threshold_seconds if threshold is None else threshold,
        defaults.keep_alive_window_seconds if keep is None else keep,
        policy.min_replicas,
        policy.max_replicas,
    )
