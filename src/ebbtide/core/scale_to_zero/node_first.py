"""What policies ask of the nodes: a pool that sleeps may be empty, a wake does not wait for its nodes, and
whether a target that sleeps would find room on the nodes that are there, or needs a node first.

Settings are derived for each tick from the states of the policies; the decision does not know policies.
The pods of a target are put, one by one and by the fit rules, where they would go: on nodes that are
ready, then on nodes that are on their way. Pods that are pending now come before them. What fits nowhere
is asked of the pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ebbtide.core.nodes.capacity import coming_slots, missing_by_pool
from ebbtide.core.nodes.fit import Placement
from ebbtide.core.nodes.offers import Offer, all_offers, expected_placement
from ebbtide.core.nodes.pending import why_none_fits
from ebbtide.core.nodes.room import Room
from ebbtide.core.scale_to_zero.rates import owner_of
from ebbtide.core.scale_to_zero.wake import targets
from ebbtide.model.idle import IdleState, NodeFirst, NodeNeed, Phase
from ebbtide.model.pod import FitCause, Misfit, Pod, PodPhase, Workload
from ebbtide.model.policy import Policy
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

MOST_PENDING = 1000
"""Of so many pending pods it is worked out where they go; a cluster with more has other troubles."""
NO_NODE = NodeFirst(NodeNeed.NONE)


@dataclass(frozen=True)
class NodeRoom:
    """The nodes as one round sees them; asked about many policies, each by itself."""

    view: ClusterView
    record: Record
    settings: Settings
    now: int

    def node_first(self, policy: Policy, state: IdleState, workloads: Sequence[Workload]) -> NodeFirst | None:
        """None where nothing is known of its pods."""
        if policy.target.pool:
            return self._for_pool(policy.target.pool)
        pods = list(_pods(policy, state, workloads))
        return self._for_pods(pods) if pods else None

    @cached_property
    def _snapshot(self) -> Snapshot:
        return Snapshot(self.now, self.view)

    @cached_property
    def _placement(self) -> Placement:
        pending = [pod for pod in self.view.waiting_pods if not pod.tied_to_node][:MOST_PENDING]
        found = expected_placement(self._snapshot, self.record, self.settings, pending)
        for pod in pending:
            room = found.first_fit(pod)
            if room is not None:
                found.place(pod, room)
        return found

    @cached_property
    def _slots(self) -> dict[str, tuple[str, int]]:
        """Pool and time of the nodes on their way, by the names of their rooms."""
        return {slot.key: (slot.pool, slot.since) for slot in coming_slots(self.record)}

    @cached_property
    def _offers(self) -> list[Offer]:
        """Those of pools that may have one more node, the one that is launched first first."""
        sizes = Counter(node.pool for node in self.view.workers)
        sizes.update(pool for pool, _ in self._slots.values())
        full = sizes.total() >= self.settings.max_workers
        found = () if full else all_offers(self._snapshot, self.record, self.settings)
        takes_more = [each for each in found if each.pool.takes_more(sizes[each.pool.name])]
        return sorted(takes_more, key=lambda each: (*each.rank, each.price or 0))

    def _for_pods(self, pods: Sequence[Pod]) -> NodeFirst:
        placement, placed = self._placement, list[tuple[Pod, Room]]()
        try:
            found = NO_NODE
            for pod in pods:
                room = self._room_for(placement, pod)
                if room is None:
                    return self._launched_for(pod)
                if room.planned:
                    found = self._coming(room)
                placement.place(pod, room)
                placed.append((pod, room))
            return found
        finally:
            for pod, room in placed:
                placement.take_out(pod, room)

    def _room_for(self, placement: Placement, pod: Pod) -> Room | None:
        there = placement.first_fit(pod, [room for room in placement.rooms.values() if not room.planned])
        return there or placement.first_fit(pod)

    def _coming(self, room: Room) -> NodeFirst:
        pool, since = self._slots[room.name]
        return NodeFirst(NodeNeed.COMING, pool, since)

    def _launched_for(self, pod: Pod) -> NodeFirst:
        why = Misfit(FitCause.POOLS_FULL)
        for offer in self._offers:
            lacks = why_none_fits(pod, [offer.room("new")])
            if lacks is None:
                return NodeFirst(NodeNeed.LAUNCH, offer.pool.name)
            why = lacks
        return _never(why)

    def _for_pool(self, name: str) -> NodeFirst:
        if ready_nodes(self.view, name):
            return NO_NODE
        coming = [since for pool, since in self._slots.values() if pool == name]
        if coming:
            return NodeFirst(NodeNeed.COMING, name, min(coming))
        pool: Pool | None = self.settings.pool_named(name)
        if pool is None:
            return _never(Misfit(FitCause.NO_SUCH_POOL, about=name))
        return NodeFirst(NodeNeed.LAUNCH, name)


def _never(why: Misfit) -> NodeFirst:
    return NodeFirst(NodeNeed.NEVER, why=why.says, cause=why.cause)


def _pods(policy: Policy, state: IdleState, workloads: Sequence[Workload]) -> Iterator[Pod]:
    """What a wake would create."""
    known = {each.ref: each for each in workloads}
    for target in targets(policy, state):
        workload = known.get(target.ref)
        for number in range(target.replicas) if workload is not None else ():
            assert workload is not None
            yield Pod(
                target.ref.namespace,
                f"{target.ref.name}-{number}",
                f"{target.ref}-{number}",
                phase=PodPhase.PENDING,
                ready=False,
                requests=workload.requests,
                labels=workload.labels,
                scheduling=workload.scheduling,
            )


def settings_for(settings: Settings, at_work: Sequence[tuple[Policy, IdleState]]) -> Settings:
    """`at_work` are the policies whose target is a pool, and those that are waking."""
    known = {policy.target.pool: (policy, state) for policy, state in at_work}
    woken = (policy for policy, state in at_work if state.phase is Phase.WAKING)
    waking = tuple(ref for policy in woken for ref in policy.target.workloads)
    pools = tuple(_pool_for(pool, known) for pool in settings.pools)
    # One that is no longer configured keeps its policy and its state: it is no part of any minimum.
    asleep = {pool.name for pool in pools if pool.may_be_empty}
    if asleep:
        awake = sum(max(1, pool.min_workers) for pool in pools if pool.name not in asleep)
        # Nothing is launched elsewhere in place of what sleeps, but what is there is kept as before.
        least = settings.min_workers
        settings = replace(settings, min_workers=min(least, awake), awake_min_workers=least)
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


@dataclass(frozen=True, slots=True)
class NeededByWakes:
    """What is being woken and needs nodes: the user who woke it waits for it now."""

    lack: tuple[tuple[str, int], ...] = ()
    """How many nodes each pool lacks that is being woken."""
    pod: str = ""
    """The first pending pod of a workload that is being woken."""

    @property
    def says(self) -> str:
        """Empty where nothing is needed."""
        found = [f"pool {name} is being woken and lacks {count}" for name, count in self.lack]
        found += [f"{self.pod} is being woken and needs a node"] if self.pod else []
        return "; ".join(found)


def needed_by_wakes(snapshot: Snapshot, record: Record, settings: Settings) -> NeededByWakes:
    """Why a launch does not wait, neither for `PENDING_UP_SEC` nor for the cooldown."""
    lack = missing_by_pool(snapshot, record, [pool for pool in settings.pools if pool.waking])
    woken = frozenset(settings.waking)
    pods = (pod for pod in snapshot.cluster.waiting_pods if owner_of(pod) in woken)
    first = next(pods, None) if woken else None
    return NeededByWakes(tuple(lack.items()), first.full_name if first else "")


def ready_nodes(view: ClusterView, pool: str) -> int:
    """Workers of the pool that take pods: a pool without any is not awake."""
    return sum(1 for node in view.workers if node.pool == pool and node.ready and not node.unschedulable)
