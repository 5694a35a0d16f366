"""What policies ask of the nodes: a pool that sleeps may be empty, and a wake does not wait for its nodes.

Settings are derived for each tick from the states of the policies; deciding knows nothing of policies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.policy import Policy
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings


def settings_for(
    settings: Settings, of_pools: Iterable[tuple[Policy, IdleState]], someone_wakes: bool
) -> Settings:
    """`of_pools` are the policies whose target is a pool."""
    known = {policy.target.pool: (policy, state) for policy, state in of_pools}
    pools = tuple(_pool_for(pool, known) for pool in settings.pools)
    asleep = {name for name, (_, state) in known.items() if state.phase is Phase.ZERO}
    if asleep:
        awake = sum(max(1, pool.min_workers) for pool in pools if pool.name not in asleep)
        settings = replace(settings, min_workers=min(settings.min_workers, awake))
    if someone_wakes:
        # Whoever woke it waits now: its pods are not left pending first, nor does the cooldown hold.
        settings = replace(settings, pending_up_seconds=0, cooldown_up_seconds=0)
    return replace(settings, pools=pools) if pools != settings.pools else settings


def _pool_for(pool: Pool, known: Mapping[str, tuple[Policy, IdleState]]) -> Pool:
    if pool.name not in known:
        return pool
    policy, state = known[pool.name]
    if state.phase is Phase.ZERO:
        return replace(pool, min_workers=0, may_be_empty=True)
    if not policy.enabled:
        return pool
    least = max(1, policy.min_replicas)
    most = pool.max_workers if pool.max_workers is not None else least
    return replace(pool, min_workers=max(pool.min_workers, min(least, most)))
