"""The safety gates that every voluntary removal passes, whatever started it.

They are checked twice: when the removal is decided, and again in the same write that makes the
termination irrevocable. Load and demand are gates like the others: a cluster that was idle when a removal
was decided may be busy by the time the node is drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

from ebbtide.core.nodes.capacity import removals_in_progress, standing
from ebbtide.core.nodes.drain import allowed
from ebbtide.core.nodes.headroom import keeps_headroom
from ebbtide.core.nodes.room import given_back, refused_by_node, room_of
from ebbtide.core.nodes.unwell import pool_well
from ebbtide.core.words import count_of, short_id, two_shares
from ebbtide.model.check import Check, Gate, Values
from ebbtide.model.operation import Consolidate, Removal, ScaleDown
from ebbtide.model.pod import NOTHING
from ebbtide.model.pool import Allowance, Pool, RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Node, Snapshot

TRANSIENT = frozenset(
    {
        Gate.COMPLETE,
        Gate.PLAUSIBLE,
        Gate.HEALTHY,
        Gate.CPU_KNOWN,
        Gate.NO_POD_PENDING,
        Gate.POOL_WELL,
    }
)
"""Gates whose failure may pass by itself: a removal in progress waits for them."""


REPLACED = (RemovalReason.UNHEALTHY, RemovalReason.EXPIRED, RemovalReason.DRIFTED)
"""Removals of a node that something else takes the place of."""


def not_paused(record: Record) -> Check:
    if record.paused:
        why = f" ({record.pause_reason})" if record.pause_reason else ""
        return Check(Gate.NOT_PAUSED, False, f"removals are paused{why}", Values(about=record.pause_reason))
    if record.set_aside is not None:
        aside = record.set_aside.id
        says = f"operation {short_id(aside)} was set aside until `ebbtide resume`"
        return Check(Gate.NOT_PAUSED, False, says, Values(about=aside))
    return Check(Gate.NOT_PAUSED, True, "removals are not paused")


def complete(snapshot: Snapshot) -> Check:
    problems = snapshot.problems
    says = problems[0] if problems else "cluster and cloud were read completely"
    return Check(Gate.COMPLETE, not problems, says, Values(len(problems), 0))


def plausible(snapshot: Snapshot, record: Record, settings: Settings) -> Check:
    """Whether what was seen can be the same cluster as last time."""
    name = Gate.PLAUSIBLE
    workers, pods = len(snapshot.cluster.workers), placed_pods(snapshot)
    if snapshot.cluster.nodes and not pods:
        says = f"no pods are seen on {len(snapshot.cluster.nodes)} nodes"
        return Check(name, False, says, Values(0, record.pod_count, "pods"))
    for what, before, seen in (("workers", record.worker_count, workers), ("pods", record.pod_count, pods)):
        lost = before - seen
        if lost > settings.unready_count and lost > settings.unready_fraction * before:
            says = f"{seen} {what} are seen where there were {before} just before"
            return Check(name, False, says, Values(seen, before, what))
    counted = Values(workers, record.worker_count, "workers")
    now = f"{count_of(workers, 'worker')} and {count_of(pods, 'pod')}"
    if not record.worker_count and not record.pod_count:
        return Check(name, True, f"{now}, seen for the first time", counted)
    says = f"{now}, after {record.worker_count} and {record.pod_count} just before"
    return Check(name, True, says, counted)


def placed_pods(snapshot: Snapshot) -> int:
    return snapshot.cluster.placed_count


def healthy(snapshot: Snapshot, record: Record, settings: Settings) -> Check:
    """Machines that are gone are not sick: they would keep the gate closed until another tool deleted
    them."""
    gone = record.gone_nodes
    workers = _without(gone, snapshot.cluster.workers)
    unready = _without(gone, snapshot.cluster.unready_workers)
    sick = unready > settings.unready_count and unready > settings.unready_fraction * workers
    most = max(settings.unready_count, settings.unready_fraction * workers)
    limit = f"more than {settings.unready_fraction:.0%} and more than {settings.unready_count}"
    says = f"{unready} of {workers} workers are not ready; removals stop at {limit}"
    return Check(Gate.HEALTHY, not sick, says, Values(unready, most))


def _without(gone: frozenset[str], nodes: Sequence[Node]) -> int:
    """How many of these are not gone."""
    return sum(1 for node in nodes if node.uid not in gone) if gone else len(nodes)


def load_known(snapshot: Snapshot) -> Check:
    cpu = snapshot.cpu
    return Check(Gate.CPU_KNOWN, cpu.value is not None, cpu.problem or "CPU is known")


def load_is_high(snapshot: Snapshot, settings: Settings) -> str:
    """Why nothing may go by the load as it is now; empty where CPU is not above `CPU_UP`, or unknown."""
    cpu = snapshot.cpu.value
    if cpu is None or cpu <= settings.cpu_up:
        return ""
    value, limit = two_shares(cpu, settings.cpu_up)
    return f"CPU {value} is above cpu_up {limit}"


def load_not_high(snapshot: Snapshot, settings: Settings) -> Check:
    high = load_is_high(snapshot, settings)
    says = high or f"CPU is not above cpu_up {settings.cpu_up:.2f}"
    says = "CPU is unknown" if snapshot.cpu.value is None else says
    return Check(Gate.LOAD_NOT_HIGH, not high, says, Values(snapshot.cpu.value, settings.cpu_up))


def load_fits(
    snapshot: Snapshot, record: Record, settings: Settings, removing: Sequence[Going], joining: int = 0
) -> Check:
    """Whether the workers that are left, and `joining` new ones, can carry what all Ready ones carry now."""
    names = {one.node_name for one in removing}
    left = sum(1 for node in standing(snapshot, record) if node.name not in names) + joining
    return load_on(left, snapshot, settings)


def load_on(left: int, snapshot: Snapshot, settings: Settings) -> Check:
    """Whether so many workers can carry it. None at all may be left where every pool may sleep, since no pod
    is pending or running that would need one; what runs on the last is for the drain rules to judge."""
    name, cpu = Gate.LOAD_FITS, snapshot.cpu.value or 0.0
    if left <= 0:
        asleep = bool(settings.pools) and all(pool.may_be_empty for pool in settings.pools)
        says = "no worker would be left" + (", and every pool may be empty" if asleep else "")
        return Check(name, asleep, says, Values(limit=settings.cpu_up))
    after = cpu * sum(1 for node in snapshot.cluster.workers if node.ready) / left
    value, limit = two_shares(after, settings.cpu_up)
    says = f"CPU would be {value} with {count_of(left, 'worker')} left, cpu_up is {limit}"
    return Check(name, after < settings.cpu_up, says, Values(after, settings.cpu_up))


def no_pod_pending(snapshot: Snapshot) -> Check:
    pending = snapshot.cluster.waiting_pods
    name = Gate.NO_POD_PENDING
    if not pending:
        return Check(name, True, "no pod is pending", Values(0, 0))
    first = pending[0].full_name
    says = f"{len(pending)} pods are pending, {first} first" if len(pending) > 1 else f"{first} is pending"
    return Check(name, False, says, Values(len(pending), 0, first))


def wanted_by_pending(node: Node, snapshot: Snapshot) -> str:
    """The first pending pod that may yet go onto this node; empty where none may.

    Spread and affinity are not asked: what they forbid now, they may allow once other pods have their nodes.
    A pod whose needs nobody knows may go anywhere."""
    room = room_of(given_back(node), snapshot.cluster.pods_on.get(node.name, ()))
    asked: set[tuple[int, int]] = set()
    for pod in snapshot.cluster.waiting_pods:
        alike = id(pod.requests), id(pod.scheduling)
        if pod.tied_to_node or alike in asked:
            continue
        asked.add(alike)
        unknown = pod.requests == NOTHING or pod.scheduling.unsupported
        if unknown or not (room.lacks(pod.requests) or refused_by_node(pod.scheduling, room)):
            return pod.full_name
    return ""


def none_pending_for(node: Node | None, snapshot: Snapshot, settings: Settings) -> Check:
    """Judged one by one, a node that carries nothing may go next to pods that are pending elsewhere: one pod
    that no node will ever take held up every removal. By the documents, none goes while any pod is."""
    pending = no_pod_pending(snapshot)
    if pending.passed or node is None or settings.scale_down_by != JudgedBy.NODE:
        return pending
    if not carries_nothing(node, snapshot):
        return pending
    wanted = wanted_by_pending(node, snapshot)
    if wanted:
        says = f"{wanted} is pending and may go onto {node.name}"
        return Check(Gate.NO_POD_PENDING, False, says, Values(1, 0, wanted))
    return Check(Gate.NO_POD_PENDING, True, f"no pod that is pending may go onto {node.name}", Values(0, 0))


def carries_nothing(node: Node, snapshot: Snapshot) -> bool:
    """Only pods that come and go with the node are on it."""
    return all(pod.tied_to_node for pod in snapshot.cluster.pods_on.get(node.name, ()))


def all_matched(snapshot: Snapshot) -> Check:
    """A ready worker of which the instance is not known may be any instance that seems to have no node;
    and where no worker is ready at all, this may be quite another cluster."""
    instance_of = snapshot.instance_of
    ready = [node.name for node in snapshot.cluster.workers if node.ready]
    loose = [name for name in ready if name not in instance_of]
    says = f"{len(loose)} ready workers match no instance, {loose[0]} first" if loose else "all match"
    values = Values(len(ready) - len(loose), len(ready), loose[0] if loose else "")
    matched = bool(ready) and not loose
    return Check(Gate.WORKERS_MATCHED, matched, says if ready else "no worker is ready", values)


def keeps_minimum(
    snapshot: Snapshot, record: Record, settings: Settings, removing: Sequence[Removal]
) -> Check:
    """Counts what stays after all removals in progress and those now asked for."""
    names = {r.node_name for r in removing}
    left = [node for node in standing(snapshot, record) if node.name not in names]
    if len(left) < settings.min_workers:
        says = f"{count_of(len(left), 'ready worker')} would be left, min_workers is {settings.min_workers}"
        return Check(Gate.MINIMUM_KEPT, False, says, Values(len(left), settings.min_workers))
    for pool in settings.pools:
        in_pool = sum(1 for node in left if node.pool == pool.name)
        if any(r.pool == pool.name for r in removing) and in_pool < pool.min_workers:
            says = f"{in_pool} would be left in pool {pool.name}, its minimum is {pool.min_workers}"
            return Check(Gate.MINIMUM_KEPT, False, says, Values(in_pool, pool.min_workers, pool.name))
    says = f"{count_of(len(left), 'ready worker')} {'is' if len(left) == 1 else 'are'} left"
    says += f", min_workers is {settings.min_workers}"
    return Check(Gate.MINIMUM_KEPT, True, says, Values(len(left), settings.min_workers))


def keeps_awake(snapshot: Snapshot, record: Record, settings: Settings, removing: Sequence[Going]) -> Check:
    """While a pool sleeps, the minimum of the cluster is lower, so its workers may go. The other pools
    keep the whole minimum by themselves, as far as they have it."""
    names, asleep = {one.node_name for one in removing}, sleeping_pools(settings)
    stays = [node for node in standing(snapshot, record) if node.name not in names]
    left, least = sum(1 for node in stays if node.pool not in asleep), settings.awake_min_workers
    kept = left >= least or all(one.pool in asleep for one in removing)
    says = f"{count_of(left, 'ready worker')} of pools that are awake would be left, min_workers is {least}"
    return Check(Gate.MINIMUM_KEPT, kept, says, Values(left, least))


def sleeping_pools(settings: Settings) -> frozenset[str]:
    """Pools that may be empty: a sleeping pool gives up its zones."""
    return frozenset(pool.name for pool in settings.pools if pool.may_be_empty)


def keeps_zones(snapshot: Snapshot, record: Record, settings: Settings, removing: Sequence[Removal]) -> Check:
    """A worker of a pool that sleeps neither keeps its zone nor is kept for it: it is about to go, and what
    else stands in the zone must do without it."""
    names, asleep = {r.node_name for r in removing}, sleeping_pools(settings)
    stays = (node for node in standing(snapshot, record) if node.name not in names)
    left = Counter(node.zone for node in stays if node.pool not in asleep)
    zones = {node.zone for node in snapshot.cluster.workers}
    for removal in (r for r in removing if r.pool not in asleep):
        if len(zones) > 1 and not left[removal.zone]:
            says = f"zone {removal.zone} would be left without a ready worker"
            return Check(Gate.ZONE_KEPT, False, says, Values(0, 1, removal.zone))
    return Check(Gate.ZONE_KEPT, True, "every zone concerned keeps a ready worker")


class Going(Protocol):
    """A node that is on its way out, or is asked for."""

    @property
    def instance_id(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def pool(self) -> str: ...


def in_disruption(record: Record, except_for: Collection[str] = ()) -> tuple[Going, ...]:
    """All that is being removed, whatever started it. Instances in `except_for` are not counted."""
    found: dict[str, Going] = {removal.instance_id: removal for removal in removals_in_progress(record)}
    for operation in (record.removing, record.removing_aside):
        if isinstance(operation, Consolidate):
            found |= {source.instance_id: source for source in operation.sources if not source.settled}
    return tuple(going for key, going in found.items() if key not in except_for)


def cluster_room(
    snapshot: Snapshot,
    record: Record,
    settings: Settings,
    reason: RemovalReason,
    except_for: Collection[str] = (),
) -> Allowance:
    """How many more of all workers may go now: a tenth or one at a time, and the cluster's budgets."""
    going = in_disruption(record, except_for)
    workers = len({node.name for node in snapshot.cluster.workers} | {one.node_name for one in going})
    limit = max(1, int(settings.budget_fraction * workers))
    says = f"{len(going)} of at most {limit} are leaving (budget_fraction is {settings.budget_fraction:g})"
    usual = Allowance(max(0, limit - len(going)), says)
    own = allowed(settings.budgets, "", reason, workers, len(going), snapshot.at)
    return min(usual, own, key=lambda allowance: allowance.count)


def pool_room(
    snapshot: Snapshot,
    record: Record,
    pool: Pool,
    reason: RemovalReason,
    except_for: Collection[str] = (),
) -> Allowance:
    """How many more workers of a pool may go now by its own budgets. Those of the cluster still apply."""
    going = [one for one in in_disruption(record, except_for) if one.pool == pool.name]
    workers = {node.name for node in snapshot.cluster.workers if node.pool == pool.name}
    count = len(workers | {one.node_name for one in going})
    return allowed(pool.budgets, pool.name, reason, count, len(going), snapshot.at)


def budget_left(snapshot: Snapshot, record: Record, settings: Settings, reason: RemovalReason) -> Check:
    room = cluster_room(snapshot, record, settings, reason)
    says = f"{room.count} more may go: {room.says}"
    return Check(Gate.BUDGET_LEFT, room.count > 0, says, Values(room.count, 1))


def within_budget(
    snapshot: Snapshot,
    record: Record,
    settings: Settings,
    removing: Sequence[Going],
    reason: RemovalReason,
) -> Check:
    """Whether all of these may go now, by the budgets of the cluster and of every pool concerned."""
    ids = {one.instance_id for one in removing}
    room = cluster_room(snapshot, record, settings, reason, ids)
    asked = len(removing)
    for pool in settings.pools:
        of_pool = sum(1 for one in removing if one.pool == pool.name)
        if asked <= room.count and of_pool:
            asked, room = of_pool, pool_room(snapshot, record, pool, reason, ids)
    says = f"{asked} asked for, {room.count} may go: {room.says}"
    return Check(Gate.WITHIN_BUDGET, asked <= room.count, says, Values(asked, room.count))


def reason_of(removal: Removal, record: Record) -> RemovalReason:
    """On whose behalf a removal of the record is in progress."""
    if any(spot.removal and spot.removal.instance_id == removal.instance_id for spot in record.spots):
        return RemovalReason.REBALANCE
    if not isinstance(record.removing, ScaleDown):
        return RemovalReason.IDLE
    return RemovalReason.EMPTY if record.removing.only_empty else record.removing.cause


def may_terminate(removal: Removal, snapshot: Snapshot, record: Record, settings: Settings) -> Check | None:
    """The first gate that forbids to terminate a drained node of this record now."""
    reason = reason_of(removal, record)
    checks = (
        complete(snapshot),
        plausible(snapshot, record, settings),
        healthy(snapshot, record, settings),
        not_paused(record),
        keeps_minimum(snapshot, record, settings, (removal,)),
        keeps_zones(snapshot, record, settings, (removal,)),
        within_budget(snapshot, record, settings, (removal,), reason),
        *_awake(removal, snapshot, record, settings, reason),
        *_repair(removal, snapshot, record, settings, reason),
        # What was spare when the removal was decided may hold pods by now.
        *_headroom(removal, snapshot, record, settings, reason),
        *_load(removal, snapshot, record, settings, reason),
    )
    return next((check for check in checks if not check.passed), None)


def _awake(
    removal: Removal, snapshot: Snapshot, record: Record, settings: Settings, reason: RemovalReason
) -> Iterator[Check]:
    """What is replaced has its successor already."""
    if reason in (RemovalReason.IDLE, RemovalReason.EMPTY):
        yield keeps_awake(snapshot, record, settings, (removal,))


def _repair(
    removal: Removal, snapshot: Snapshot, record: Record, settings: Settings, reason: RemovalReason
) -> Iterator[Check]:
    """Much of a pool may have fallen ill since the repair of one of its nodes began."""
    if reason is RemovalReason.UNHEALTHY:
        yield pool_well(removal.pool, snapshot, record, settings)


def _headroom(
    removal: Removal, snapshot: Snapshot, record: Record, settings: Settings, reason: RemovalReason
) -> Iterator[Check]:
    """What is replaced has its successor already, or holds nothing: headroom that is missing anyway must not
    keep a node that is unwell or outdated."""
    if settings.headroom and reason not in REPLACED:
        yield keeps_headroom(snapshot, record, settings, (removal.node_name,))


def _load(
    removal: Removal, snapshot: Snapshot, record: Record, settings: Settings, reason: RemovalReason
) -> Iterator[Check]:
    """A node was terminated at 95 % CPU because load was asked for only once, at the start (row 28). Unknown
    is not idle; but a node that consolidation found empty carries nothing: the rest carry it all already."""
    node = snapshot.cluster.node_named.get(removal.node_name)
    if removal.unhealthy and node is not None and not node.ready:
        return  # it carries nothing: what is pending may even wait for it to make room within the maximum
    yield none_pending_for(node, snapshot, settings)
    if snapshot.cpu.value is None and reason is RemovalReason.EMPTY:
        return
    yield load_known(snapshot)
    yield load_fits(snapshot, record, settings, (removal,))
