"""Limits that no node of a pool could stay within, and headroom that no node could hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ebbtide.config.headroom import HeadroomKeys
from ebbtide.config.pools import PoolKeys
from ebbtide.config.problems import Problem, shown
from ebbtide.model.pool import NodeType


def check_limits(pool: PoolKeys, number: int) -> Iterator[Problem]:
    """A pool whose limits are below its smallest node could never launch one, and nobody would see why."""
    if pool.limits is None:
        return
    offers = [node_type.allocatable for node_type in pool.pool().types]
    smallest = (
        ("cpu", pool.limits.cpu, min(each.cpu_milli for each in offers), "m CPU"),
        ("memory", pool.limits.memory, min(each.memory_mib for each in offers), " MiB"),
    )
    for key, limit, least, unit in smallest:
        path = ("pools", number, "limits", key)
        if limit is not None and limit < least:
            yield Problem(
                path,
                f"{limit}{unit} is less than one node of the smallest type of pool {shown(pool.name)} offers "
                f"({least}{unit}), so it could launch none; allowed: at least {least}{unit}",
            )
        elif limit is not None and limit < pool.min * least:
            yield Problem(
                path,
                f"{limit}{unit} is less than the min of pool {shown(pool.name)} needs: {pool.min} nodes of "
                f"at least {least}{unit}; allowed: at least {pool.min * least}{unit}, or lower min",
            )


def check_headroom(entries: Sequence[HeadroomKeys], pools: Sequence[PoolKeys]) -> Iterator[Problem]:
    """Names that nothing has, and pods that no node could hold: it would be missing for ever. Where no pool
    is configured, names cannot be checked."""
    for number, entry in enumerate(entries if pools else ()):
        path = ("headroom", number)
        named = [pool for pool in pools if entry.pool in ("", pool.name)]
        if not named:
            known = ", ".join(pool.name for pool in pools)
            yield Problem((*path, "pool"), f"{shown(entry.pool)} is no pool; allowed: {known}", ("pools",))
            continue
        zones = sorted({zone for pool in named for zone in pool.zones})
        unknown = [zone for zone in entry.zones if zone not in zones]
        if unknown:
            whose = f"of pool {shown(entry.pool)}" if entry.pool else "of any pool"
            says = f"{shown(unknown[0])} is no zone {whose}; allowed: {', '.join(zones)}"
            yield Problem((*path, "zones"), says, ("pools",))
            continue
        yield from _too_large(entry, named, path)


def _too_large(
    entry: HeadroomKeys, named: Sequence[PoolKeys], path: tuple[str | int, ...]
) -> Iterator[Problem]:
    usable = [pool for pool in named if entry.pool or not _repels(pool)]
    usable = [pool for pool in usable if not entry.zones or set(entry.zones) & set(pool.zones)]
    types = [node_type for pool in usable for node_type in pool.pool().types]
    if any(_holds(node_type, entry) for node_type in types):
        return
    asked = f"{entry.cpu}m CPU and {entry.memory} MiB"
    if not types:
        says = f"{asked} fit no node: every pool in these zones has taints; name the pool it is meant for"
        yield Problem(path, says, ("pools",))
        return
    most = max(types, key=lambda one: (one.allocatable.cpu_milli, one.allocatable.memory_mib))
    offers = f"{most.name} with {most.allocatable.cpu_milli}m CPU and {most.allocatable.memory_mib} MiB"
    yield Problem(
        path,
        f"no type of {'pool ' + shown(entry.pool) if entry.pool else 'any pool'} can hold a pod of {asked}; "
        f"the largest is {offers}; use smaller pods and a higher count, or add a larger type",
        ("pools",),
    )


def _repels(pool: PoolKeys) -> bool:
    return any(taint.effect != "PreferNoSchedule" for taint in pool.taints)


def _holds(node_type: NodeType, entry: HeadroomKeys) -> bool:
    offer = node_type.allocatable
    return entry.cpu <= offer.cpu_milli and entry.memory <= offer.memory_mib
