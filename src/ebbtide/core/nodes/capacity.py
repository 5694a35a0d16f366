"""Counting: which workers can be relied on, how many nodes there are or will be, and which instances should
have joined by now.

`standing` is a lower and `total` an upper estimate, so the minimum and the maximum both hold.

Instances that should have joined by now: pods do not wait for them, and others are launched with spares. An
instance that is late still counts against every maximum and is followed until it joins or is reclaimed. But
it no longer counts as room. While some are late, more are likely to be: the next launch gets spare nodes in
proportion to the share that is late. A spare that stays empty is removed like any empty node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from math import ceil

from ebbtide.core.words import a_while, names_of
from ebbtide.model.operation import (
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    Slot,
    SlotState,
    SpotKind,
)
from ebbtide.model.pod import NOTHING, Resources
from ebbtide.model.pool import Pool
from ebbtide.model.record import Counted, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance, Node, Snapshot


def is_late(slot: Slot, settings: Settings, now: int) -> bool:
    """Running for longer than a join takes, without a Node object. Where no time is set, nothing is late
    before it is reclaimed."""
    limit = settings.late_join_seconds
    return bool(limit) and slot.state is SlotState.LAUNCHED and now - slot.since >= limit


def spares(record: Record, settings: Settings, now: int, count: int) -> int:
    """How many spares to launch with so many, by the state of the open slots."""
    slots = record.launching.slots if record.launching is not None else ()
    late = sum(1 for slot in slots if is_late(slot, settings, now))
    ready = sum(1 for slot in slots if slot.state is SlotState.READY)
    return ceil(count * late / (late + ready)) if late else 0


def _operations(record: Record) -> tuple[Operation, ...]:
    """Of both lanes, and those that were set aside: minimum, maximum and budgets are asked against them
    all."""
    return record.operations + record.all_set_aside


def nothing_open(record: Record) -> bool:
    """Nothing is in progress, set aside or refused: most of the time, and asked often."""
    return not (
        record.launching
        or record.removing
        or record.launching_aside
        or record.removing_aside
        or record.spots
        or record.refused
    )


def open_removals(record: Record) -> tuple[Removal, ...]:
    """Every removal that is not over, whatever started it; also one that the cloud refused and that was set
    aside."""
    if nothing_open(record):
        return ()
    return (*removals_in_progress(record), *_halted(record))


def removals_in_progress(record: Record) -> tuple[Removal, ...]:
    """Those that somebody works on. What was set aside waits for the cloud and holds up no budget."""
    if nothing_open(record):
        return ()
    return tuple(removal for removal in _removals(record) if not removal.settled)


def _halted(record: Record) -> Iterable[Removal]:
    yield from (one.removal for one in record.refused)
    yield from (removal for removal in _removals(record) if removal.state is RemovalState.SET_ASIDE)


def _removals(record: Record) -> Iterable[Removal]:
    for operation in _operations(record):
        if isinstance(operation, ScaleDown):
            yield from operation.removals
    yield from (spot.removal for spot in record.spots if spot.removal is not None)


def coming_slots(record: Record) -> tuple[Slot, ...]:
    """Those whose nodes can be counted on as room. One that never joined is counted against the maximum until
    it is gone, but nobody may wait for it; nor for those of an operation that was set aside, which nobody
    follows until a person resumes it."""
    slots = (slot for slot in _expected(record, record.operations) if slot.state is not SlotState.RECLAIMING)
    return tuple(slot for slot in slots if not slot.terminated)


def expected_slots(record: Record) -> tuple[Slot, ...]:
    return _expected(record, _operations(record))


def _expected(record: Record, operations: Iterable[Operation]) -> tuple[Slot, ...]:
    if nothing_open(record):
        return ()
    slots = [slot for operation in operations for slot in operation.slots]
    slots += [spot.slot for spot in record.spots if spot.slot is not None]
    return tuple(slot for slot in slots if slot.expected)


def condemned(record: Record) -> frozenset[str]:
    """Instances that did not join in time and whose termination is irrevocable."""
    return frozenset(slot.instance_id for slot in expected_slots(record) if slot.terminated)


def doomed(record: Record) -> frozenset[str]:
    """Instances that are being removed, or that the cloud has said it will take."""
    if nothing_open(record):
        return frozenset()
    removed = {r.instance_id for r in open_removals(record) if r.dooms} | condemned(record)
    interrupted = {s.instance_id for s in record.spots if s.kind is SpotKind.INTERRUPTION}
    return frozenset(removed | interrupted)


def standing(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Workers that can be relied on: Ready, schedulable, and nothing is about to take them away. One that a
    person cordoned takes no pod, so it is no capacity (row 29); it still counts towards the maximum."""
    if not doomed(record):
        return snapshot.schedulable
    return tuple(node for node in staying(snapshot, record) if not node.unschedulable)


def enlisted(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Those that stand, and those that we cordoned ourselves and are about to give back: nothing is launched
    in their place."""
    if not doomed(record):
        return snapshot.enlisted
    return tuple(n for n in staying(snapshot, record) if n.cordoned_by_us or not n.unschedulable)


def staying(snapshot: Snapshot, record: Record) -> tuple[Node, ...]:
    """Ready workers that nothing is about to take away, the cordoned ones among them."""
    lost = doomed(record)
    if not lost:
        return snapshot.working
    instance_of = snapshot.instance_of
    leaving = {name for name, instance in instance_of.items() if instance.id in lost}
    return tuple(node for node in snapshot.working if node.name not in leaving)


def missing_by_pool(snapshot: Snapshot, record: Record, pools: Iterable[Pool]) -> Counter[str]:
    """How many workers each pool lacks of its own minimum; those on their way are there already."""
    asking = [pool for pool in pools if pool.min_workers > 0]
    if not asking:
        return Counter()
    there = Counter(node.pool for node in enlisted(snapshot, record))
    there.update(slot.pool for slot in coming_slots(record))
    return Counter({p.name: lack for p in asking if (lack := p.min_workers - there[p.name]) > 0})


def total(snapshot: Snapshot, record: Record, pool: str | None = None) -> int:
    """Nodes that exist or may yet come to exist, in one pool or in all. A Node object that outlived its
    instance is none of them: after a mass loss these alone would fill the maximum."""
    if not snapshot.unmatched and not expected_slots(record):
        return len(snapshot.alive) if pool is None else snapshot.alive_by_pool.get(pool, 0)
    alive, unmatched, unseen = _existing(snapshot, record, pool)
    return len(alive) + len(unmatched) + len(unseen)


def _existing(
    snapshot: Snapshot, record: Record, pool: str | None
) -> tuple[list[Instance], list[Node], list[Slot]]:
    """Instances that are alive, nodes that match none, and slots whose instance is not seen yet."""
    gone, slots = record.gone_nodes, expected_slots(record)
    alive = [i for i in snapshot.alive if pool is None or pool == i.pool]
    # Crash table: mass-loss. Nodes whose machines are gone must not fill up the maximum.
    unmatched = [n for n in snapshot.unmatched if (pool is None or pool == n.pool) and n.uid not in gone]
    if not slots:
        return alive, unmatched, []
    ids, keys = {i.id for i in alive}, {i.key for i in alive}
    unseen = [
        slot
        for slot in slots
        if slot.instance_id not in ids
        and slot.key not in keys
        and pool in (None, slot.pool)
        and not _known_dead(slot, snapshot)
    ]
    return alive, unmatched, unseen


def counted(snapshot: Snapshot, record: Record, pools: Iterable[Pool]) -> tuple[Counted, ...]:
    """For the record: the total of all, and of each pool."""
    each = (Counted(pool.name, total(snapshot, record, pool.name)) for pool in pools)
    return Counted("", total(snapshot, record)), *each


def count_against_max(snapshot: Snapshot, record: Record, pool: str | None = None) -> int:
    """What counts against a maximum. A machine that neither list shows may have gone, or both may be wrong
    for a moment; it is believed gone when the next look does not show it either."""
    before = (each.nodes for each in record.counted_before if each.pool == (pool or ""))
    return max((total(snapshot, record, pool), *before))


def held_by_pool(snapshot: Snapshot, record: Record, pool: Pool, cautious: bool = True) -> Resources:
    """What the nodes of a pool that exist, or may yet come to exist, offer together: both lanes, spot
    answers and what was set aside. Each counts as its type says, so a node that joins changes nothing.

    What neither list shows for one look still counts (`cautious`), as the largest type."""
    held = NOTHING
    for type_name, offered in _parts(snapshot, record, pool.name):
        known = pool.type_named(type_name)
        held = held.plus(known.allocatable if known is not None else offered or _largest(pool))
    unseen = count_against_max(snapshot, record, pool.name) - total(snapshot, record, pool.name)
    return held.plus(_largest(pool), unseen) if cautious else held


def _parts(snapshot: Snapshot, record: Record, pool: str) -> Iterator[tuple[str, Resources | None]]:
    """Type, and what the node offers where there is one, of all that `total` counts in a pool."""
    alive, unmatched, unseen = _existing(snapshot, record, pool)
    for instance in alive:
        node = snapshot.node_of.get(instance.id)
        yield instance.instance_type, node.allocatable if node is not None else None
    yield from ((node.instance_type, node.allocatable) for node in unmatched)
    yield from ((slot.instance_type, None) for slot in unseen)


def _largest(pool: Pool) -> Resources:
    offers = [node_type.allocatable for node_type in pool.types]
    return Resources(max(each.cpu_milli for each in offers), max(each.memory_mib for each in offers))


def why_over_limits(snapshot: Snapshot, record: Record, pool: Pool) -> str:
    """Which limit of its pool a slot of this record exceeds, with both numbers; empty where none."""
    if pool.limits is None:
        return ""
    over = pool.limits.why_over(held_by_pool(snapshot, record, pool, cautious=False))
    return f"with it, the nodes of pool {pool.name} offer {over}" if over else ""


def _known_dead(slot: Slot, snapshot: Snapshot) -> bool:
    instance = snapshot.instance_with_id.get(slot.instance_id) or snapshot.instance_with_key.get(slot.key)
    return instance is not None and not instance.alive


def workers_by_zone(snapshot: Snapshot, record: Record) -> Counter[str]:
    """Standing workers and those expected, by zone: what a launch should balance."""
    counts = Counter(node.zone for node in standing(snapshot, record))
    joined = {node.name for node in standing(snapshot, record)}
    counts.update(slot.zone for slot in coming_slots(record) if slot.node_name not in joined)
    return counts


MOST_MISSING = 3
"""Known as long as not more than one in three lacks a fresh sample."""


def why_unknown(asked: Sequence[str], sampled: Container[str], max_age_seconds: int) -> str:
    """Why there is no average over the workers asked for, with their names; empty where there is one."""
    if not asked:
        return "there is no Ready worker to ask for"
    missing = [name for name in asked if name not in sampled]
    if len(missing) * MOST_MISSING <= len(asked):
        return ""
    return (
        f"{len(missing)} of {len(asked)} Ready workers have no sample of the last "
        f"{a_while(max_age_seconds)}, and more than a third is too many: {names_of(missing)}"
    )
