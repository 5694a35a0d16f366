"""Which workers are expired (older than their pool allows) or drifted (not what their pool launches today).

A node that carries the hash of the configuration it was launched with is judged by that: what a new one
carries is what the pool has, so a replacement is never drifted itself. One without a hash is judged by what
can be seen of it: type, labels and taints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from ebbtide.core.nodes.unwell import why_unwell
from ebbtide.core.words import a_while
from ebbtide.model.budget import RemovalReason
from ebbtide.model.node import Instance, Node
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record, UnfitNode
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

MOST_NAMED = 50
"""How many are kept in the record, which must stay small enough for every store."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """A worker that is to be replaced, or will be when its time comes, and why."""

    node: Node
    cause: RemovalReason
    says: str


def unfit_workers(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Iterator[Unfit]:
    """All that is unwell, drifted or expired, by name; a worker may be named for several causes."""
    if not record.unwell and not may_be_outdated(settings):
        return
    for node in sorted(snapshot.cluster.workers, key=lambda one: one.name):
        unwell = why_unwell(node, record, settings, now)
        if unwell:
            yield Unfit(node, RemovalReason.UNHEALTHY, unwell)
        yield from outdated(node, snapshot, settings, now)


def track_unfit(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """The record with what status names; as it was where not all could be seen."""
    if snapshot.problems:
        return record
    found = islice(unfit_workers(snapshot, record, settings, now), MOST_NAMED)
    return replace(record, unfit=tuple(UnfitNode(one.node.name, one.cause, one.says) for one in found))


def may_be_outdated(settings: Settings) -> bool:
    """Whether any worker can be: on a large cluster it takes a while to look at each."""
    return settings.replace_drifted or any(pool.expire_seconds for pool in settings.pools)


def outdated(node: Node, snapshot: Snapshot, settings: Settings, now: int) -> Iterator[Unfit]:
    pool, instance = settings.pool_named(node.pool), snapshot.instance_of.get(node.name)
    if pool is None or instance is None:
        return
    drifted = why_drifted(node, instance, pool) if settings.replace_drifted else ""
    if drifted:
        yield Unfit(node, RemovalReason.DRIFTED, drifted)
    expired = why_expired(node, pool, now)
    if expired:
        yield Unfit(node, RemovalReason.EXPIRED, expired)


def why_expired(node: Node, pool: Pool, now: int) -> str:
    age = now - node.created_at
    if not pool.expire_seconds or not node.created_at or age < pool.expire_seconds:
        return ""
    return f"it is {a_while(age)} old, expire_after of pool {pool.name} is {a_while(pool.expire_seconds)}"


def why_drifted(node: Node, instance: Instance, pool: Pool) -> str:
    """What of the node is not as its pool would have it; empty where all is."""
    kind = instance.instance_type or node.instance_type
    if kind and pool.type_named(kind) is None:
        types = ", ".join(node_type.name for node_type in pool.types)
        return f"its type is {kind}, pool {pool.name} has {types}"
    hashed = instance.launch_hash and pool.launch_hash
    if hashed and instance.launch_hash == pool.launch_hash:
        return ""
    seen = _seen(node, pool)
    if seen or not hashed:
        return seen
    was, wanted = instance.launch_hash, pool.launch_hash
    return f"it was launched with configuration {was}, pool {pool.name} has {wanted}"


def _seen(node: Node, pool: Pool) -> str:
    labels = dict(node.labels)
    for key, value in pool.labels:
        if labels.get(key) != value:
            has = f"is {labels[key]!r}" if key in labels else "is missing"
            return f"its label {key} {has}, pool {pool.name} has {value!r}"
    for taint in pool.taints:
        if taint not in node.taints:
            return f"its taint {taint.key}={taint.value}:{taint.effect} is missing, pool {pool.name} has it"
    return ""
