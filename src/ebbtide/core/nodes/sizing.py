"""How much to launch: nodes for the pods that nothing has room for, for headroom, CPU and the minimum.

`ebbtide.core.nodes.launching` plans which nodes pending pods get. This module decides which pods count as
pending, within which limits nodes are launched, and how many more are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil

from ebbtide.core.nodes.capacity import (
    count_against_max,
    held_by_pool,
    missing_by_pool,
    spares,
    standing,
    workers_by_zone,
)
from ebbtide.core.nodes.headroom import phantoms, rooms_given_back
from ebbtide.core.nodes.launching import LaunchLimits, LaunchSketch
from ebbtide.core.nodes.offers import Offer, all_offers, expected_placement, names_of_offers
from ebbtide.core.words import names_of
from ebbtide.model.check import Check
from ebbtide.model.pod import PlanStop, StopCause, Unplaced
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    offers: tuple[Offer, ...]
    hopeless: tuple[Unplaced, ...] = ()
    """Pending pods that no node of any pool could take."""
    stopped: PlanStop | None = None
    """Why nothing further was chosen although something was still asked for."""
    pods: tuple[tuple[str, ...], ...] = ()
    """For each offer, the UIDs of the pods that it is planned for."""
    bound: float = 0.0
    """What no set of new nodes for all pods that need one can cost less than, per hour."""
    spare: tuple[int, ...] = ()
    """For each offer, how many pods of headroom it is planned for."""


def plan_launch(
    snapshot: Snapshot,
    record: Record,
    settings: Settings,
    at_least: int,
    without: frozenset[str] = frozenset(),
) -> LaunchPlan:
    """Offers for pending pods, for pools that are being woken, and further ones up to `at_least`, in
    pools below their minimum first; within batch and maxima. Those that `without` names are left out,
    by themselves or with their pool."""
    known = all_offers(snapshot, record, settings)
    offers = [each for each in known if without.isdisjoint((each.name, each.pool.name))]
    plan, unwoken = _plan(snapshot, record, settings, offers, at_least, 0)
    if unwoken:
        # Pods of other pools used up the batch. Who woke a pool waits for it now, so its nodes come first.
        plan, _ = _plan(snapshot, record, settings, offers, at_least, unwoken)
    return plan


def without_minimum(settings: Settings, without: Collection[str]) -> Settings:
    """The settings in which a pool that is left out, or has none but offers that are, keeps no minimum: nodes
    of another pool would be launched for it."""
    if not without:
        return settings
    pools = tuple(
        pool
        if pool.name not in without and any(offer not in without for offer in names_of_offers(pool))
        else replace(pool, min_workers=0, waking=False)
        for pool in settings.pools
    )
    return replace(settings, pools=pools)


def says_skipped(waits: Check, refused: frozenset[str]) -> str:
    """What is said of offers that are left out; `waits` fails where one of them would help and no other."""
    if waits.passed:
        return "offers that failed lately are skipped"
    if not refused:
        return waits.says
    return f"only {names_of(sorted(refused))} would help, which the cloud refuses for what it is"


def _plan(
    snapshot: Snapshot,
    record: Record,
    settings: Settings,
    offers: Sequence[Offer],
    at_least: int,
    kept: int,
) -> tuple[LaunchPlan, int]:
    """With so many nodes of the batch kept for pools that are being woken; and how many these still lack."""
    free = settings.max_workers - count_against_max(snapshot, record)
    sizes = Counter({pool.name: count_against_max(snapshot, record, pool.name) for pool in settings.pools})
    batch = settings.batch_up(len(standing(snapshot, record)))
    held = {p.name: held_by_pool(snapshot, record, p) for p in settings.pools if p.limits is not None}
    now = min(batch, free)
    kept = min(kept, now)
    limits = LaunchLimits(now - kept, free - kept, workers_by_zone(snapshot, record), sizes, held)
    pending = [pod for pod in snapshot.cluster.waiting_pods if pod.controller != "DaemonSet"]
    placement = expected_placement(snapshot, record, settings, pending)
    launching = LaunchSketch(placement, offers, limits, settings)
    launching.serve(pending)
    # Pods that are pending come first: only what they leave of the limits is used for headroom.
    if spare := phantoms(settings, snapshot.at):
        for room in rooms_given_back(snapshot, record):
            placement.open(room)
        launching.make_room(spare)
    _add_spares(launching, spares(record, settings, snapshot.at, len(launching.chosen)), limits)
    lack = missing_by_pool(snapshot, record, settings.pools)
    lack.subtract(Counter(offer.pool.name for offer in launching.chosen))
    limits.now, limits.ever = now, free
    unwoken = _add_woken(launching, lack, limits)
    stopped = launching.stopped
    while len(launching.chosen) < min(at_least, limits.now):
        candidates = launching.open_offers()
        below = [offer for offer in candidates if lack[offer.pool.name] > 0]
        best = _cheapest_cpu(below or candidates)
        if best is None:
            stopped = stopped or PlanStop(StopCause.AT_MAXIMUM)
            break
        launching.choose(best)
        lack[best.pool.name] -= 1
    plan = LaunchPlan(
        tuple(launching.chosen),
        tuple(launching.hopeless),
        stopped,
        launching.served(),
        launching.bound,
        launching.spared(),
    )
    return plan, unwoken


def _add_woken(launching: LaunchSketch, lack: Counter[str], limits: LaunchLimits) -> int:
    """The nodes that pools lack that are being woken; and how many did not fit into the batch."""
    while True:
        wanted = [o for o in launching.open_offers() if o.pool.waking and lack[o.pool.name] > 0]
        best = _cheapest_cpu(wanted)
        if best is None:
            return 0
        if len(launching.chosen) >= limits.now:
            return sum(lack[name] for name in {offer.pool.name for offer in wanted})
        launching.choose(best)
        lack[best.pool.name] -= 1


def _add_spares(launching: LaunchSketch, count: int, limits: LaunchLimits) -> None:
    """More of what was chosen, in turn, as far as the limits go."""
    for offer in launching.chosen[:count]:
        if len(launching.chosen) >= limits.now:
            return
        if offer in launching.open_offers():
            launching.choose(offer)


def nodes_for_cpu(workers: int, cpu: float, settings: Settings) -> int:
    """How many more workers bring the average CPU back to `CPU_UP`."""
    return max(1, ceil(workers * cpu / settings.cpu_up) - workers)


def _cheapest_cpu(offers: Sequence[Offer]) -> Offer | None:
    """For CPU pressure without pending pods: the least price for a CPU."""
    return min(
        offers,
        key=lambda offer: (
            *offer.rank,
            float(offer.price or 0) / max(1, offer.node_type.allocatable.cpu_milli),
        ),
        default=None,
    )
