"""The safety gates that every voluntary removal passes, whoever asks for it.

They are asked twice: when the removal is decided, and again in the same write that makes the
termination irrevocable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ebbtide.core.capacity import open_removals, standing
from ebbtide.model.decision import Check
from ebbtide.model.operation import Removal
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

TRANSIENT = frozenset({"observation complete", "plausible", "cluster healthy"})
"""Gates whose failure may pass by itself: a removal under way waits for them."""


def not_paused(record: Record) -> Check:
    if record.paused:
        why = f" ({record.pause_reason})" if record.pause_reason else ""
        return Check("not paused", False, f"removals are paused{why}")
    if record.set_aside is not None:
        return Check(
            "not paused", False, f"operation {record.set_aside.id} was set aside and waits for resume"
        )
    return Check("not paused", True, "removals are not paused")


def complete(snapshot: Snapshot) -> Check:
    problems = snapshot.problems
    return Check(
        "observation complete", not problems, problems[0] if problems else "cluster and cloud were read whole"
    )


def plausible(snapshot: Snapshot, record: Record, settings: Settings) -> Check:
    """Whether what was seen can be the same cluster as last time."""
    name = "plausible"
    workers, pods = len(snapshot.cluster.workers), placed_pods(snapshot)
    if snapshot.cluster.nodes and not pods:
        return Check(name, False, f"no pod at all is seen on {len(snapshot.cluster.nodes)} nodes")
    for what, before, seen in (("workers", record.worker_count, workers), ("pods", record.pod_count, pods)):
        lost = before - seen
        if lost > settings.unready_count and lost > settings.unready_fraction * before:
            return Check(name, False, f"{seen} {what} are seen where there were {before} just before")
    return Check(name, True, f"{workers} workers and {pods} pods, as before or more")


def placed_pods(snapshot: Snapshot) -> int:
    return sum(map(len, snapshot.cluster.pods_on.values()))


def healthy(snapshot: Snapshot, settings: Settings) -> Check:
    workers = snapshot.cluster.workers
    unready = sum(1 for node in workers if not node.ready)
    sick = unready > settings.unready_count and unready > settings.unready_fraction * len(workers)
    limit = f"{settings.unready_fraction:.0%} and {settings.unready_count}"
    says = f"{unready} of {len(workers)} workers are not ready, {'more' if sick else 'not more'} than {limit}"
    return Check("cluster healthy", not sick, says)


def all_matched(snapshot: Snapshot) -> Check:
    """A ready worker of which the instance is not known may be any instance that seems to have no node;
    and where no worker is ready at all, this may be quite another cluster."""
    ready = [node.name for node in snapshot.cluster.workers if node.ready]
    loose = [name for name in ready if name not in snapshot.instance_of]
    says = f"{len(loose)} ready workers match no instance, {loose[0]} first" if loose else "all match"
    return Check("workers matched", bool(ready) and not loose, says if ready else "no worker is ready")


def keeps_minimum(
    snapshot: Snapshot, record: Record, settings: Settings, removing: Sequence[Removal]
) -> Check:
    """Counts what stays after all removals under way and those now asked for."""
    names = {r.node_name for r in removing}
    left = [node for node in standing(snapshot, record) if node.name not in names]
    if len(left) < settings.min_workers:
        says = f"{len(left)} ready workers would be left, MIN_WORKERS is {settings.min_workers}"
        return Check("minimum kept", False, says)
    for pool in settings.pools:
        in_pool = sum(1 for node in left if node.pool == pool.name)
        if any(r.pool == pool.name for r in removing) and in_pool < pool.min_workers:
            says = f"{in_pool} would be left in pool {pool.name}, its minimum is {pool.min_workers}"
            return Check("minimum kept", False, says)
    says = f"{len(left)} ready workers are left, MIN_WORKERS is {settings.min_workers}"
    return Check("minimum kept", True, says)


def keeps_zones(snapshot: Snapshot, record: Record, removing: Sequence[Removal]) -> Check:
    names = {r.node_name for r in removing}
    left = Counter(node.zone for node in standing(snapshot, record) if node.name not in names)
    zones = {node.zone for node in snapshot.cluster.workers}
    for removal in removing:
        if len(zones) > 1 and not left[removal.zone]:
            return Check("zone kept", False, f"zone {removal.zone} would be left without a ready worker")
    return Check("zone kept", True, "every zone concerned keeps a ready worker")


def within_budget(snapshot: Snapshot, record: Record, settings: Settings, more: int) -> Check:
    """At most a tenth of the workers, or one, are taken away at the same time."""
    allowed = budget(snapshot, settings)
    under_way = len(open_removals(record)) + more
    says = f"{under_way} removals at once, the budget is {allowed}"
    return Check("within budget", under_way <= allowed, says)


def budget(snapshot: Snapshot, settings: Settings) -> int:
    return max(1, int(settings.budget_fraction * len(snapshot.cluster.workers)))


def may_terminate(removal: Removal, snapshot: Snapshot, record: Record, settings: Settings) -> Check | None:
    """The first gate that forbids to terminate a drained node of this record now."""
    checks = (
        complete(snapshot),
        plausible(snapshot, record, settings),
        healthy(snapshot, settings),
        not_paused(record),
        keeps_minimum(snapshot, record, settings, (removal,)),
        keeps_zones(snapshot, record, (removal,)),
        within_budget(snapshot, record, settings, 0),
    )
    return next((check for check in checks if not check.passed), None)
