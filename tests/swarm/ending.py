"""What must be in order at the end of a seed, after a calm part, next to what the checker asks: enough
workers are ready, no pod is pending that could have a node, and no operation lasts.

What changed in the last minutes may still be on its way. What was set aside waits for a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ebbtide.core.nodes.offers import Offer
from ebbtide.core.nodes.room import residents_of
from ebbtide.model.idle import Phase
from ebbtide.model.operation import Consolidate
from ebbtide.model.pod import Pod, Resources
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from ebbtide.simulator.run.runner import Stage, policies_of, store_of
from ebbtide.simulator.world.world import Act, ActKind

LATELY_SECONDS = 900.0
CHURN_SECONDS = 1800.0
OFTEN = 8
"""So often a pod may be evicted in that time, on average over those of its workload."""


class Churn:
    """Counts who is evicted how often in the last part of a run, when nothing goes wrong any more."""

    def __init__(self, stage: Stage, end: float) -> None:
        self._stage = stage
        self._since = end - CHURN_SECONDS
        self._evicted: Counter[str] = Counter()
        stage.world.witnesses.append(self.saw)

    def saw(self, act: Act) -> None:
        """What consolidation moves has a pace of its own, which its checker asks."""
        record = self._stage.checker.record
        moved = record is not None and isinstance(record.removing, Consolidate)
        if act.kind is ActKind.EVICT and self._stage.world.now >= self._since and not moved:
            self._evicted[self._stage.world.pods.book.workload_of[act.pod_uid]] += 1

    def wrong_at_the_end(self) -> Iterator[str]:
        for key, times in self._evicted.items():
            if times > OFTEN * max(1, self._stage.world.pods.book.workloads[key].wanted):
                yield f"pods of {key} were evicted {times} times within {CHURN_SECONDS:.0f} s"


def wrong_at_the_end(stage: Stage) -> Iterator[str]:
    record, now = store_of(stage).load(), stage.world.now
    settings = stage.checker.settings
    if record.set_aside is not None or record.lock_until > now + settings.lock_ttl_seconds:
        return
    longest = settings.join_timeout_seconds + settings.launch_timeout_seconds + settings.stuck_seconds
    for work in record.operations:
        if now - work.started_at > longest + LATELY_SECONDS:
            yield f"{work.id} has been open for {now - work.started_at:.0f} s"
    for spot in record.spots:
        if now - spot.deadline > longest + LATELY_SECONDS:
            yield f"{spot.id} has been open since its deadline {now - spot.deadline:.0f} s ago"
    if not _changed_lately(stage) and not _outlived(stage):
        yield from _too_few(stage, settings)
        yield from _waiting(stage, settings, record)


def _changed_lately(stage: Stage) -> bool:
    """A machine came or went, for whatever reason."""
    since = stage.world.now - LATELY_SECONDS
    machines = stage.world.machines.book.machines.values()
    return any(m.ended_at > since or m.instance.launched_at > since for m in machines if m.ours)


def _outlived(stage: Stage) -> bool:
    """Whether a Node object outlived its machine. Of some nobody can say so: they fill the maximum, and keep
    new machines from their names. The checker tells the others."""
    nodes = stage.world.inventory.nodes.values()
    return any(node.worker and not stage.world.nodes.is_alive(node.name) for node in nodes)


def _too_few(stage: Stage, settings: Settings) -> Iterator[str]:
    ready = [node for node in stage.world.inventory.nodes.values() if node.worker and node.ready]
    room = len(_there(stage)) < settings.max_workers
    least = settings.min_workers if _any_sleeps(stage) else stage.settings.min_workers
    open_pools = any(_takes_more(stage, pool, pool.types[0].allocatable) for pool in settings.pools)
    if room and open_pools and len(ready) < least:
        yield f"{len(ready)} workers are ready, min_workers is {least}"
    for pool in settings.pools if room else ():
        count = sum(1 for node in ready if node.pool == pool.name)
        if count < pool.min_workers and _takes_more(stage, pool, pool.types[0].allocatable):
            yield f"{count} workers are ready in pool {pool.name}, its minimum is {pool.min_workers}"


def _any_sleeps(stage: Stage) -> bool:
    """Whether a pool that is configured sleeps: said by its policy, and not by what a runner made of that."""
    rows = policies_of(stage)
    asleep = {state.policy_id for state in rows.list_states() if state.phase is Phase.ZERO}
    pools = {policy.target.pool for policy in rows.list_policies() if policy.id in asleep}
    return any(pool.name in pools for pool in stage.settings.pools)


def _waiting(stage: Stage, settings: Settings, record: Record) -> Iterator[str]:
    world = stage.world
    old = [pod for pod in world.inventory.waiting.values() if world.now - pod.created_at > LATELY_SECONDS]
    for pod in old if len(_there(stage)) < settings.max_workers else ():
        place = _place_for(stage, settings, pod)
        if place:
            yield f"{pod.full_name} has waited for {world.now - pod.created_at:.0f} s, and would fit {place}"


def _place_for(stage: Stage, settings: Settings, pod: Pod) -> str:
    """A node that could be launched for it; empty where none could."""
    world = stage.world
    for pool in settings.pools:
        residents = residents_of(world.view(), pool)
        for zone in () if pool.may_be_empty else pool.zones:
            for node_type in pool.types:
                if not _takes_more(stage, pool, node_type.allocatable):
                    continue
                room = Offer(pool, node_type, zone, residents).room("new")
                if not world.pods.scheduler.refuses(pod, room):
                    return f"a {node_type.name} of pool {pool.name} in {zone}"
    return ""


def _takes_more(stage: Stage, pool: Pool, offered: Resources) -> bool:
    mine = [node for node in _there(stage) if node.pool == pool.name]
    held = offered
    for node in mine:
        held = held.plus(node.allocatable)
    within = pool.limits is None or not pool.limits.why_over(held)
    return pool.takes_more(len(mine)) and within


def _there(stage: Stage) -> list[Node]:
    machines = stage.world.machines.book.machines.values()
    return [machine.node for machine in machines if machine.ours and machine.instance.alive]
