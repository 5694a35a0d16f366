"""`ebbtide plan --dump FILE`: what one tick would do for a cluster as kubectl printed it. Needs no access.

The timers of a running Ebbtide are not in a dump, so they count as over: pods have been pending since they
were created, empty nodes are long empty, no cooldown runs. Nobody measured CPU either: requests stand in.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.adapters.kube.dump import Dump
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.headroom import look
from ebbtide.core.nodes.offers import Offer
from ebbtide.core.nodes.sizing import LaunchPlan, plan_launch
from ebbtide.core.nodes.underused import track_underused
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess.repacking import instance_of, settings_of
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pool import HeadroomSeen
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Reading, Snapshot

POOL = "workers"
"""Of nodes that carry no pool, where no configuration names any."""
_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """Equal nodes that would be launched."""

    pool: str
    type: str
    zone: str
    market: str
    price: Decimal | None
    currency: str
    pods: tuple[str, ...]
    headroom: int = 0
    """Pods of headroom that it has room for."""


@dataclass(frozen=True, slots=True)
class DumpPlan:
    decision: Decision
    launches: tuple[PlannedLaunch, ...]
    """All that the pending pods and the headroom need, the nodes of this tick first."""
    now: int
    """How many of them this tick would launch."""
    removals: tuple[str, ...]
    cost: Decimal
    bound: float
    currency: str
    unserved: tuple[str, ...]
    uncounted: tuple[str, ...]
    """Nodes that no pool claims: they are neither counted nor touched."""
    seconds: float
    notes: tuple[str, ...] = ()
    headroom: tuple[HeadroomSeen, ...] = ()
    """What there is room for without any launch."""


def plan_of_dump(dump: Dump, settings: Settings | None, prices: PriceBook) -> DumpPlan:
    """`settings` are None where there is no configuration: pools are then what the nodes say they are."""
    view = dump.view
    notes = [*dump.notes]
    if settings is None:
        view = replace(view, nodes=tuple(replace(node, pool=node.pool or POOL) for node in view.nodes))
        settings = replace(settings_of(view.nodes, prices), max_batch_up=_MANY)
        notes.append("no configuration: pools are taken from the nodes, and no limit is applied")
    now = int(time.time())
    snapshot = _snapshot(view, now)
    record = _record(snapshot, settings, now)
    notes += _assumptions(snapshot)
    began = time.perf_counter()
    decision = decide(snapshot, record, settings, now, "plan")
    whole = plan_launch(snapshot, record, replace(settings, max_batch_up=_MANY), 0)
    seconds = time.perf_counter() - began
    names = {pod.uid: pod.full_name for pod in view.waiting_pods}
    launches = tuple(
        _launching(offer, tuple(names[uid] for uid in pods), spare)
        for offer, pods, spare in zip(whole.offers, whole.pods, whole.spare, strict=True)
    )
    return DumpPlan(
        decision,
        launches,
        len(decision.slots) if decision.action is Action.SCALE_UP else 0,
        tuple(removal.node_name for removal in decision.removals),
        sum((each.price for each in launches if each.price), Decimal(0)),
        whole.bound,
        next((each.currency for each in launches if each.currency), ""),
        _unserved(whole, view),
        tuple(n.name for n in view.nodes if not (n.worker or n.control_plane or n.system)),
        seconds,
        tuple(notes),
        look(snapshot, record, settings),
    )


def _snapshot(view: ClusterView, now: int) -> Snapshot:
    nodes = tuple(
        replace(node, provider_id=f"assessed://{node.name}") if node.worker else node for node in view.nodes
    )
    instances = tuple(instance_of(node) for node in nodes if node.worker)
    view = replace(view, nodes=nodes)
    workers = [node for node in nodes if node.worker and node.ready]
    offered = sum(node.allocatable.cpu_milli for node in workers)
    asked = sum(pod.requests.cpu_milli for node in workers for pod in view.pods_on.get(node.name, ()))
    return Snapshot(now, view, instances, Reading(asked / offered if offered else None, now))


def _record(snapshot: Snapshot, settings: Settings, now: int) -> Record:
    """As if everything had been watched for long."""
    view, pods_on = snapshot.cluster, snapshot.cluster.pods_on
    underused = track_underused(snapshot, (), settings, now)
    empty = [n for n in view.workers if all(pod.tied_to_node for pod in pods_on.get(n.name, ()))]
    pending = min((pod.created_at for pod in view.waiting_pods), default=0)
    ready = sum(1 for node in view.workers if node.ready)
    return Record(
        pending_since=pending,
        idle_since=0 if view.waiting_pods else max(1, now - settings.idle_down_seconds),
        short_since=1 if ready < settings.min_workers else 0,
        worker_count=ready,
        pod_count=sum(map(len, pods_on.values())),
        ticked_at=now,
        emptied=tuple(Emptied(node.uid, 1) for node in empty),
        underused=tuple(replace(node, since=1) for node in underused),
    )


def _assumptions(snapshot: Snapshot) -> Iterator[str]:
    cpu = snapshot.cpu.value
    if cpu is not None:
        yield f"CPU is not in a dump: the {cpu:.0%} that pods request stand in for it"
    yield "no cooldown, back-off or idle time is in a dump: all count as over"


def _launching(offer: Offer, pods: tuple[str, ...], spare: int) -> PlannedLaunch:
    price = offer.node_type.price_in(offer.market)
    return PlannedLaunch(
        offer.pool.name,
        offer.node_type.name,
        offer.zone,
        offer.market.value,
        price.per_hour if price else None,
        price.currency if price else "",
        pods,
        spare,
    )


def _unserved(plan: LaunchPlan, view: ClusterView) -> tuple[str, ...]:
    stopped = (plan.stopped.says,) if plan.stopped and view.waiting_pods else ()
    return (*(each.says for each in plan.hopeless), *stopped)


def grouped(launches: tuple[PlannedLaunch, ...]) -> list[tuple[PlannedLaunch, int, int]]:
    """Equal nodes as one row: a sample, how many, and how many pods on all of them."""
    rows: Counter[tuple[str, str, str, str]] = Counter()
    pods: Counter[tuple[str, str, str, str]] = Counter()
    sample: dict[tuple[str, str, str, str], PlannedLaunch] = {}
    for each in launches:
        key = (each.pool, each.type, each.zone, each.market)
        rows[key] += 1
        pods[key] += len(each.pods)
        sample.setdefault(key, each)
    return [(sample[key], count, pods[key]) for key, count in rows.items()]
