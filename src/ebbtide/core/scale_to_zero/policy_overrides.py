"""What policies ask of the nodes: a pool that sleeps may be empty, and a wake does not wait for its nodes.

Settings are derived for each tick from the states of the policies; deciding knows nothing of policies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ebbtide.core.nodes.capacity import missing_by_pool
from ebbtide.core.scale_to_zero.rates import owner_of
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.policy import Policy
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot


def settings_for(settings: Settings, at_work: Sequence[tuple[Policy, IdleState]]) -> Settings:
    """`at_work` are the policies whose target is a pool, and those that are waking."""
    known = {policy.target.pool: (policy, state) for policy, state in at_work}
    woken = (policy for policy, state in at_work if state.phase is Phase.WAKING)
    waking = tuple(ref for policy in woken for ref in policy.target.workloads)
    pools = tuple(_pool_for(pool, known) for pool in settings.pools)
    asleep = {name for name, (_, state) in known.items() if name and state.phase is Phase.ZERO}
    if asleep:
        awake = sum(max(1, pool.min_workers) for pool in pools if pool.name not in asleep)
        settings = replace(settings, min_workers=min(settings.min_workers, awake))
    if waking:
        settings = replace(settings, waking=waking)
    return replace(settings, pools=pools) if pools != settings.pools else settings


def _pool_for(pool: Pool, known: Mapping[str, tuple[Policy, IdleState]]) -> Pool:
    if pool.name not in known:
        return pool
    policy, state = known[pool.name]
    if state.phase is Phase.ZERO:
        return replace(pool, min_workers=0, may_be_empty=True)
    waking = state.phase is Phase.WAKING
    if not policy.enabled and not waking:
        return pool
    least = max(1, policy.min_replicas)
    most = pool.max_workers if pool.max_workers is not None else least
    return replace(pool, min_workers=max(pool.min_workers, min(least, most)), waking=waking)


def needed_by_wakes(snapshot: Snapshot, record: Record, settings: Settings) -> tuple[str, int]:
    """Why a launch does not wait, neither for `PENDING_UP_SEC` nor for the cooldown: the user who woke
    something waits for it now. And how many nodes the pools that wake lack."""
    lack = missing_by_pool(snapshot, record, [pool for pool in settings.pools if pool.waking])
    says = [f"pool {name} is being woken and lacks {count}" for name, count in lack.items()]
    if settings.waking:
        woken = frozenset(settings.waking)
        pods = [pod for pod in snapshot.cluster.waiting_pods if owner_of(pod) in woken]
        says += [f"{pods[0].full_name} is being woken and needs a node"] if pods else []
    return "; ".join(says), lack.total()


def ready_nodes(view: ClusterView, pool: str) -> int:
    """Workers of the pool that take pods: a pool without any is not awake."""
    return sum(1 for node in view.workers if node.pool == pool and node.ready and not node.unschedulable)
