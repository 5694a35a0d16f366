"""Which workers should be replaced: unwell (not Ready while their instance runs, or with a condition that
was listed), expired (older than their pool allows) or drifted (not what their pool launches today).

The timer of an unwell node counts only observed time, as for an idle node. A node that is still joining is
handled by its launch, and one whose instance is gone is deleted; neither is repaired.

A node that carries the hash of the configuration it was launched with is compared by that
hash: a replacement carries the current one, so it has never drifted itself. A node without a hash is
compared by type, labels and taints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil
from typing import assert_never

from ebbtide.core.nodes.capacity import expected_slots, open_removals
from ebbtide.core.words import a_while
from ebbtide.model.check import Check, Gate, Values
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Pool, RemovalReason
from ebbtide.model.record import Record, UnfitNode, Unwell, changed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance, Node, Snapshot

NOT_READY = "Ready=False"
UNWELL_FRACTION = 0.20
"""Where more of a pool is unwell, rounded up, the fault is rather with the network or the control plane."""
LOST_SECONDS = 60
"""After so much more than its grace a pod that is terminating on a silent node is taken for ended: nobody is
there to report its end."""
MOST_NAMED = 50
"""How many are kept in the record, which must stay small enough for every store."""


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
        if node.ready and not node.conditions:
            continue
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
    """The health brake: where much of a pool is unwell, replacing nodes would only make it worse. A silent
    node counts whatever the cloud says of its instance, unless it is gone or we remove it ourselves: an
    instance that ends, or that a list left out, must not let go of the brake."""
    gone, leaving = record.gone_nodes, {removal.node_uid for removal in open_removals(record)}
    workers = [node for node in snapshot.cluster.workers if node.pool == pool and node.uid not in gone]
    unwell = unwell_now(snapshot, record, settings)
    sick = sum(1 for node in workers if node.name in unwell)
    silent = (node for node in workers if not node.ready and node.uid not in leaving)
    for node in silent:
        instance = snapshot.instance_of.get(node.name)
        sick += instance is None or not instance.alive
    limit = ceil(UNWELL_FRACTION * len(workers))
    says = f"{sick} of {len(workers)} workers of pool {pool} are unwell; repair stops above {limit} (20%)"
    return Check(Gate.POOL_WELL, sick <= limit, says, Values(sick, limit, pool))


def still_there(node: Node, pods: tuple[Pod, ...], now: int) -> tuple[Pod, ...]:
    """The pods of an unwell node that count. On a silent node nobody reports the end of a pod: one whose
    grace has long been over would otherwise keep a broken node forever."""
    return tuple(pod for pod in pods if not is_lost(pod, lost_before(node, now)))


def lost_before(node: Node, now: int) -> int:
    return 0 if node.ready else now - LOST_SECONDS


def is_lost(pod: Pod, before: int) -> bool:
    return pod.terminating and 0 < pod.ends_at <= before


@dataclass(frozen=True, slots=True)
class Unfit:
    """A worker that is to be replaced, or will be when its time comes, and why."""

    node: Node
    cause: RemovalReason
    says: str


def unfit_workers(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> list[Unfit]:
    """All that is unwell, drifted or expired, by name; a worker may be named for several causes."""
    workers = snapshot.cluster.workers
    found = [
        Unfit(node, RemovalReason.UNHEALTHY, unwell)
        for node in (workers if record.unwell else ())
        if (unwell := why_unwell(node, record, settings, now))
    ]
    found += [one for causes in outdated_among(workers, snapshot, settings, now) for one in causes]
    return sorted(found, key=lambda one: one.node.name)


def track_unfit(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """The record with what status names; as it was where not all could be seen."""
    if snapshot.problems:
        return record
    found = unfit_workers(snapshot, record, settings, now)[:MOST_NAMED]
    return changed(record, unfit=tuple(UnfitNode(one.node.name, one.cause, one.says) for one in found))


def outdated_among(
    nodes: Iterable[Node], snapshot: Snapshot, settings: Settings, now: int
) -> list[Sequence[Unfit]]:
    """The causes of each that is drifted or expired, in their order. Of most nodes a glance tells that they
    are not: on a large cluster it takes a while to ask all that could be wrong with each."""
    if not settings.replace_drifted and not any(pool.expire_seconds for pool in settings.pools):
        return []
    current = {pool.name: _Current.of(pool) for pool in settings.pools if not pool.expire_seconds}
    instance_of, nobody = snapshot.instance_of, _Current(frozenset(), "", bare=False)
    found: list[Sequence[Unfit]] = []
    for node in nodes:
        instance = instance_of.get(node.name)
        if instance is None or current.get(node.pool, nobody).has(node, instance):
            continue
        if causes := tuple(outdated(node, snapshot, settings, now)):
            found.append(causes)
    return found


@dataclass(frozen=True, slots=True)
class _Current:
    """What a pool launches today, for a glance."""

    types: frozenset[str]
    launch_hash: str
    bare: bool
    """Whether its nodes have neither labels nor taints of its own."""

    @classmethod
    def of(cls, pool: Pool) -> _Current:
        types = frozenset(node_type.name for node_type in pool.types)
        return cls(types, pool.launch_hash, not pool.labels and not pool.taints)

    def has(self, node: Node, instance: Instance) -> bool:
        """Whether the node is certainly one of these."""
        kind = instance.instance_type or node.instance_type
        same = instance.launch_hash == self.launch_hash
        return kind in self.types and same and (self.bare or bool(self.launch_hash))


def outdated(node: Node, snapshot: Snapshot, settings: Settings, now: int) -> Iterator[Unfit]:
    pool, instance = settings.pool_named(node.pool), snapshot.instance_of.get(node.name)
    if pool is None or instance is None:
        return
    drift = why_drifted(node, instance, pool) if settings.replace_drifted else None
    if drift is not None:
        yield Unfit(node, RemovalReason.DRIFTED, drift.says)
    if is_expired(node, pool, now):
        age, limit = a_while(now - node.created_at), a_while(pool.expire_seconds)
        says = f"it is {age} old, expire_after of pool {pool.name} is {limit}"
        yield Unfit(node, RemovalReason.EXPIRED, says)


def is_expired(node: Node, pool: Pool, now: int) -> bool:
    """Never where the pool names no age, or that of the node is unknown."""
    return bool(pool.expire_seconds and node.created_at) and now - node.created_at >= pool.expire_seconds


class DriftKind(StrEnum):
    TYPE = "type"
    LABEL = "label"
    TAINT = "taint"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Drift:
    """What a node has that its pool would have otherwise."""

    kind: DriftKind
    pool: str
    name: str
    """The type of the node, the key of the label, the taint, or the hash of what it was launched with."""
    wanted: str
    seen: str | None = None
    """The value of the label; None where the node lacks it."""

    @property
    def says(self) -> str:
        match self.kind:
            case DriftKind.TYPE:
                return f"its type is {self.name}, pool {self.pool} has {self.wanted}"
            case DriftKind.LABEL:
                has = "is missing" if self.seen is None else f"is {self.seen!r}"
                return f"its label {self.name} {has}, pool {self.pool} has {self.wanted!r}"
            case DriftKind.TAINT:
                return f"its taint {self.name} is missing, pool {self.pool} has it"
            case DriftKind.LAUNCH:
                return f"it was launched with configuration {self.name}, pool {self.pool} has {self.wanted}"
        assert_never(self.kind)


def why_drifted(node: Node, instance: Instance, pool: Pool) -> Drift | None:
    """What of the node is not as its pool would have it; None where all is."""
    kind = instance.instance_type or node.instance_type
    if kind and pool.type_named(kind) is None:
        types = ", ".join(node_type.name for node_type in pool.types)
        return Drift(DriftKind.TYPE, pool.name, kind, types)
    hashed = instance.launch_hash and pool.launch_hash
    if hashed and instance.launch_hash == pool.launch_hash:
        return None
    seen = _seen(node, pool)
    if seen is not None or not hashed:
        return seen
    return Drift(DriftKind.LAUNCH, pool.name, instance.launch_hash, pool.launch_hash)


def _seen(node: Node, pool: Pool) -> Drift | None:
    labels = dict(node.labels)
    for key, value in pool.labels:
        if labels.get(key) != value:
            return Drift(DriftKind.LABEL, pool.name, key, value, labels.get(key))
    for taint in pool.taints:
        if taint not in node.taints:
            name = f"{taint.key}={taint.value}:{taint.effect}"
            return Drift(DriftKind.TAINT, pool.name, name, name)
    return None
