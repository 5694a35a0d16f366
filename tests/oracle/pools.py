"""Which pool and which market a node is launched from, and how much of a pool there may be.
docs/how-to/headroom-and-pools.md, from "Weight" on."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.model.operation import Slot
from ebbtide.model.pod import ANYWHERE
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Market
from tests.oracle import nodes
from tests.oracle.answers import Ruling, either, no, rule, yes
from tests.oracle.facts import Moment
from tests.oracle.load import pending


@rule("limits: 'how much all nodes of a pool may offer to pods together'", "yes", "no", "either")
def fits_limits(moment: Moment, pool: Pool, kinds: Sequence[str]) -> Ruling:
    """With new nodes of these types: "nodes that exist, nodes on their way [...] all count"."""
    if pool.limits is None:
        return yes("no limit")
    offered = {kind.name: kind.allocatable for kind in pool.types}
    coming = [one.kind for one in moment.coming if one.pool == pool.name]
    there = [*moment.kinds_in.get(pool.name, ()), *coming]
    if any(kind not in offered for kind in there):
        return either("what a node of a former type offers is not said")
    held = [offered[kind] for kind in (*there, *kinds)]
    cpu, memory = sum(one.cpu_milli for one in held), sum(one.memory_mib for one in held)
    if pool.limits.cpu_milli is not None and cpu > pool.limits.cpu_milli:
        return no(f"{cpu}m CPU in pool {pool.name}, its limit is {pool.limits.cpu_milli}m")
    if pool.limits.memory_mib is not None and memory > pool.limits.memory_mib:
        return no(f"{memory} MiB in pool {pool.name}, its limit is {pool.limits.memory_mib} MiB")
    return yes("within its limits")


def _has_spot(moment: Moment, pool: Pool) -> bool:
    return any(
        f"{zone}/{Market.SPOT}/{kind.name}" not in moment.without_capacity
        for zone in pool.zones
        for kind in pool.types
    )


def _has_capacity(moment: Moment, pool: Pool) -> bool:
    if pool.market is Market.SPOT and (_has_spot(moment, pool) or pool.on_demand_fallback):
        return True
    return pool.market is Market.ON_DEMAND and any(
        f"{zone}/{Market.ON_DEMAND}/{kind.name}" not in moment.without_capacity
        for zone in pool.zones
        for kind in pool.types
    )


@rule("weight: 'the one with the highest weight is launched from first'", "yes", "no", "either")
def right_pool(moment: Moment, slot: Slot, earlier: Sequence[Slot]) -> Ruling:
    """ "Of the pools that could hold a pending pod [...]. A pool that is at its max or its limits, or that
    has no capacity, leaves the rest to the next one." The pools of the drawn cases hold the same pods."""
    queued = [pod for pod in moment.pods if pod.full_name in set(pending(moment))]
    if not queued or any(pod.scheduling != ANYWHERE for pod in queued):
        return either("weights are about pending pods that may go anywhere")
    if any(pool.min_workers for pool in moment.settings.pools) or moment.settings.headroom:
        return either("headroom, or the minimum of a pool, may ask for that pool")
    own = next(one for one in moment.settings.pools if one.name == slot.pool)
    for pool in moment.settings.pools:
        if pool.weight <= own.weight or pool.taints or not _has_capacity(moment, pool):
            continue
        chosen = [one.instance_type for one in earlier if one.pool == pool.name]
        room = nodes.within_maximum(moment, [*(one.pool for one in earlier), pool.name])
        smallest = min(pool.types, key=lambda kind: kind.allocatable.cpu_milli)
        if room.answer == "yes" and fits_limits(moment, pool, [*chosen, smallest.name]).answer == "yes":
            return no(f"pool {pool.name} has weight {pool.weight}, {own.name} {own.weight}")
    return yes("no pool of more weight could take it")


@rule("'Spot, on demand, and back'", "yes", "no", "either")
def spot_first(moment: Moment, slot: Slot) -> Ruling:
    """ "other zones and types of the pool that have spot capacity are used; else the pool launches on demand
    [...] if `on_demand_fallback` is on [...]. After the rest, spot comes first again"."""
    pool = next(one for one in moment.settings.pools if one.name == slot.pool)
    if pool.market is Market.ON_DEMAND or slot.market is Market.SPOT:
        return yes("as the pool asks for")
    if not pool.on_demand_fallback:
        return no("the pool does not fall back")
    if any(headroom.zones for headroom in moment.settings.headroom):
        return either("headroom may ask for a zone without spot capacity")
    return no("there is spot capacity") if _has_spot(moment, pool) else yes("no spot offer has capacity")
