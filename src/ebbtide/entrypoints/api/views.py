"""Records, snapshots and log entries in the shapes of the API. Pure: values in, shapes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.consolidation.evaluate import cooled_down
from ebbtide.core.consolidation.pace import wait_seconds
from ebbtide.core.operations.facts import Part, part_name, parts
from ebbtide.core.prices import CostPoint, cost_point, price_of
from ebbtide.core.words import a_while, count_of, names_of
from ebbtide.engine.outages import Origin
from ebbtide.entrypoints.api.site import Seen
from ebbtide.entrypoints.views.headline import (
    TO_LEAVE,
    HeadlineSituation,
    headline,
    lease_says,
    pods_to_leave,
)
from ebbtide.entrypoints.views.schemas import (
    Brake,
    EntryShape,
    HeadroomShape,
    NodeShape,
    OperationShape,
    StaleShape,
    StatusShape,
    Step,
    UnfitShape,
)
from ebbtide.model.events import OperationBegun
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import (
    Move,
    Operation,
    Removal,
    RemovalState,
    Slot,
    SlotState,
    Source,
    Spot,
    SpotKind,
)
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Node, Snapshot

DEMO = "demo"
"""The kind of a cluster in which everything is simulated and may be broken."""
MEANWHILE = {
    Origin.CLUSTER: "Ebbtide adds and removes no node, and operations in progress do not advance.",
    Origin.CLOUD: "Ebbtide adds and removes no node, and operations in progress do not advance.",
    Origin.METRICS: "Ebbtide removes no node for being little used; pending pods still get nodes.",
}
NOT_TICKING = "Nothing is scaled until it ticks again. Check that it runs."
KINDS = {"ScaleUp": "scale-up", "ScaleDown": "scale-down", "Consolidate": "consolidation"}


@dataclass(frozen=True, slots=True)
class News:
    """The newest of each kind in the log."""

    decision: LogEntry | None
    alarm: LogEntry | None
    usual_seconds: int = 0
    """How long launches took lately."""


@dataclass(frozen=True, slots=True)
class WhyKept:
    """Why nodes are still there: those that the newest decision looked at one by one, and the rest."""

    each: Mapping[str, str]
    others: str = ""
    at: int | None = None
    """When the decision was made."""

    def why(self, node_name: str) -> str:
        return self.each.get(node_name, self.others)


def entry_shape(entry: LogEntry, started: Mapping[str, OperationBegun] | None = None) -> EntryShape:
    """A decision is read without its data; if the entry of what it began is given, that is shown with it."""
    data = dict(entry.data)
    if entry.kind is LogKind.DECISION:
        fact = (started or {}).get(entry.id)
        data = {"action": fact.action, "operation_id": fact.operation_id, "nodes": fact.nodes} if fact else {}
    return EntryShape(
        id=entry.id, at=entry.at, kind=entry.kind, subject=entry.subject, says=entry.says, data=data
    )


def operation_shape(
    operation: Operation, cluster: ClusterView | None = None, usual_seconds: int = 0
) -> OperationShape:
    return OperationShape(
        id=operation.id,
        kind=KINDS[type(operation).__name__],
        started_at=operation.started_at,
        reason=operation.reason,
        abort_reason=getattr(operation, "abort_reason", ""),
        steps=[_step(part, cluster, usual_seconds) for part in parts(operation)],
    )


def _shown(operation: Operation | None, cluster: ClusterView, usual_seconds: int) -> OperationShape | None:
    return operation_shape(operation, cluster, usual_seconds) if operation else None


def spot_shape(spot: Spot, now: int, snapshot: Snapshot, usual_seconds: int = 0) -> OperationShape:
    left = spot.deadline - now
    node = snapshot.node_of.get(spot.instance_id)
    name = node.name if node is not None else spot.instance_id
    when = f"in {a_while(left)}" if left > 0 else "now: its time is up"
    reason = f"the cloud takes {name} back {when}"
    if spot.kind is SpotKind.REBALANCE:
        reason = f"the cloud recommends replacing {name}: it may reclaim it soon"
    return OperationShape(
        id=spot.id,
        kind=f"spot {spot.kind}",
        started_at=spot.noticed_at,
        reason=reason,
        node=name,
        steps=[_step(part, None, usual_seconds) for part in parts(spot)],
    )


COMING = (SlotState.LAUNCHING, SlotState.LAUNCHED, SlotState.JOINED)
STEPS = {Slot: "launch", Removal: "removal", Source: "emptying", Move: "move"}


def _step(part: Part, cluster: ClusterView | None = None, usual_seconds: int = 0) -> Step:
    left = None
    if cluster is not None and isinstance(part, Removal) and part.state in TO_LEAVE:
        left = pods_to_leave(cluster, [part])
    return Step(
        kind=STEPS[type(part)],
        name=part_name(part),
        state=part.state,
        since=part.since,
        zone="" if isinstance(part, Move) else part.zone,
        reason=part.reason or (f"from {part.from_node}" if isinstance(part, Move) else ""),
        left=left,
        until=_until(part, usual_seconds),
    )


def _until(part: Part, usual_seconds: int) -> int:
    """When a launch is usually ready, or a drain is given up; 0 where that is not known."""
    if isinstance(part, Removal) and part.state is RemovalState.DRAINING:
        return part.drain_deadline
    if isinstance(part, Slot) and part.state in COMING and part.since and usual_seconds:
        return part.since + usual_seconds
    return 0


def status_shape(
    record: Record,
    seen: Seen,
    settings: Settings,
    kind: str,
    now: int,
    news: News,
) -> StatusShape:
    snapshot, decision, alarm = seen.snapshot, news.decision, news.alarm
    point = cost_point(snapshot, settings)
    cost, currency = total_of(point)
    held = record.lock_owner if record.lock_until > now else ""
    gone = [each.origin for each in seen.stale]
    silent = silent_seconds(record, settings, now)
    return StatusShape(
        cluster=settings.cluster,
        kind=kind,
        now=now,
        rev=record.rev,
        ticked_at=record.ticked_at,
        headline=headline(
            HeadlineSituation(
                record,
                snapshot.cluster,
                now,
                tuple(origin for origin in gone if origin is not Origin.METRICS),
                news.usual_seconds,
                settings.pending_up_seconds,
                silent,
                Origin.METRICS in gone,
            )
        ),
        says=record.last_said or (decision.says if decision else "nothing has been decided yet"),
        last_decision=entry_shape(decision) if decision else None,
        last_alarm=entry_shape(alarm) if alarm else None,
        operation=operation_shape(record.operation) if record.operation else None,
        launching=operation_shape(record.launching, snapshot.cluster, news.usual_seconds)
        if record.launching
        else None,
        removing=operation_shape(record.removing, snapshot.cluster, news.usual_seconds)
        if record.removing
        else None,
        refused=[_step(one.removal) for one in record.refused],
        unfit=[UnfitShape(node=one.node_name, reason=one.reason, says=one.says) for one in record.unfit],
        set_aside=operation_shape(record.set_aside) if record.set_aside else None,
        spots=[spot_shape(spot, now, snapshot, news.usual_seconds) for spot in record.spots],
        brakes=list(brakes(record, settings, now)),
        lease_holder=held,
        lease_says=lease_says(record, now),
        workers=len(snapshot.cluster.workers),
        min_workers=settings.min_workers,
        max_workers=settings.max_workers,
        pods=sum(len(pods) for pods in snapshot.cluster.pods_on.values()),
        waiting=[pod.full_name for pod in snapshot.cluster.waiting_pods[:100]],
        cpu=snapshot.cpu.value,
        headroom=[
            HeadroomShape(says=one.says, wanted=one.wanted, there=one.there, missing=one.missing)
            for one in record.headroom
        ],
        cost_per_hour=None if cost is None or seen.never(Origin.CLUSTER) else str(cost),
        currency=currency,
        unpriced=point.unpriced,
        problems=list(snapshot.problems),
        stale=list(stale_shapes(seen, record, settings, now)),
        last_cpu=seen.last_cpu if snapshot.cpu.value is None else None,
        demo=kind == DEMO,
    )


def stale_shapes(seen: Seen, record: Record, settings: Settings, now: int) -> Iterator[StaleShape]:
    for each in seen.stale:
        yield StaleShape(source=each.origin, at=each.at, says=each.problem, meanwhile=MEANWHILE[each.origin])
    # A page that only reads works while no runner does: then all is fresh and nothing is done.
    if silent := silent_seconds(record, settings, now):
        says = f"the last tick was {a_while(silent)} ago"
        yield StaleShape(source="runner", at=record.ticked_at, says=says, meanwhile=NOT_TICKING)


def silent_seconds(record: Record, settings: Settings, now: int) -> int:
    """Since the last tick; 0 while the next one is not overdue."""
    silent = now - record.ticked_at
    return silent if record.ticked_at and silent > settings.max_tick_gap_seconds else 0


def total_of(point: CostPoint) -> tuple[Decimal | None, str]:
    """Cost an hour and its currency. Money of two currencies is not added up: then there is no total."""
    if len(point.per_hour) > 1:
        return None, ""
    return next(((amount, currency) for currency, amount in point.per_hour.items()), (Decimal(0), ""))


def brakes(record: Record, settings: Settings, now: int) -> Iterator[Brake]:
    why = f": {record.pause_reason}" if record.pause_reason else ""
    yield Brake(name="pause", on=record.paused, says=f"removals are paused{why}" if record.paused else "off")
    for name, seconds in (
        ("cooldown up", settings.cooldown_up_seconds),
        ("cooldown down", settings.cooldown_down_seconds),
    ):
        until = record.last_scale_at + seconds if record.last_scale_at else 0
        left = until - now
        says = f"{a_while(left)} left of {a_while(seconds)}" if left > 0 else "over"
        yield Brake(name=name, on=left > 0, says=says, until=until if left > 0 else None)
    offers = record.launch_backoff_offers
    for name, failures, until, about in (
        ("launch back-off", record.launch_failures, record.launch_backoff_until, offers),
        ("removal back-off", record.removal_failures, record.removal_backoff_until, ()),
    ):
        on = until > now
        says = f"{count_of(failures, 'failure')} in a row, {a_while(until - now)} left" if on else "none"
        says += f": only {names_of(about)}" if on and about else ""
        yield Brake(name=name, on=on, says=says, until=until if on else None)
    if settings.consolidation.enabled:
        check = cooled_down(record, settings.consolidation, now)
        until = record.last_consolidation_at + wait_seconds(record, settings.consolidation)
        on = not check.passed
        says = check.says if on else "over"
        yield Brake(name="consolidation cooldown", on=on, says=says, until=until if on else None)
    aside = record.set_aside
    names = ", ".join(one.id for one in record.all_set_aside)
    says = f"{names} waits for `ebbtide resume`" if names else "nothing"
    yield Brake(name="set aside", on=aside is not None, says=says)
    for one in record.refused:
        name = one.removal.node_name or one.removal.instance_id
        yield Brake(name=f"{name} set aside", on=True, says=one.removal.reason, until=one.retry_at)
    for rest in record.skipped:
        if rest.until > now:
            yield Brake(name=f"{rest.instance_id} rests", on=True, says=rest.reason, until=rest.until)


def node_shape(
    node: Node, seen: Seen, record: Record, settings: Settings, kept: WhyKept, idle: Mapping[str, int]
) -> NodeShape:
    """`idle` is `idle_since` of the record, which is the same for all nodes."""
    snapshot, use = seen.snapshot, seen.uses.get(node.uid)
    pods = snapshot.cluster.pods_on.get(node.name, ())
    price = price_of(node, settings)
    instance = snapshot.instance_of.get(node.name)
    state = node_state(node, instance.id if instance else node.instance_id, record)
    cpu = sum(pod.requests.cpu_milli for pod in pods) / max(node.allocatable.cpu_milli, 1)
    memory = sum(pod.requests.memory_mib for pod in pods) / max(node.allocatable.memory_mib, 1)
    why = kept.why(node.name) if node.worker and state == "ready" else ""
    return NodeShape(
        name=node.name,
        uid=node.uid,
        instance_id=instance.id if instance else node.instance_id,
        zone=node.zone,
        pool=node.pool,
        instance_type=node.instance_type,
        market=node.market,
        state=state,
        worker=node.worker,
        created_at=node.created_at,
        pods=len(pods),
        cpu_requested=round(cpu, 3),
        memory_requested=round(memory, 3),
        cpu_milli=node.allocatable.cpu_milli,
        memory_mib=node.allocatable.memory_mib,
        cpu_used=None if use is None else round(use.cpu, 3),
        memory_used=None if use is None or use.memory is None else round(use.memory, 3),
        used_at=None if use is None else use.at,
        price_per_hour=str(price.per_hour) if price else None,
        currency=price.currency if price else "",
        price_source=price.source if price else "",
        # The record is as old as the last tick: a pod that came since then counts.
        idle_since=idle.get(node.uid) if all(pod.tied_to_node for pod in pods) else None,
        kept_because=why,
        kept_at=kept.at if why else None,
    )


def idle_since(record: Record) -> dict[str, int]:
    return {emptied.node_uid: emptied.since for emptied in record.emptied}


def node_state(node: Node, instance_id: str, record: Record) -> str:
    """What the record says of it first, then what the cluster shows."""
    for removal in _removals(record):
        if removal.instance_id == instance_id or (removal.node_uid and removal.node_uid == node.uid):
            if removal.state is RemovalState.PLANNED:
                return "chosen"
            if removal.state is RemovalState.SET_ASIDE:
                return "set aside"
            if not removal.settled:
                return removal.state.lower()
    if (spot := record.spot_for(instance_id)) is not None:
        return "at risk" if spot.kind is SpotKind.REBALANCE else "interrupted"
    slots = record.launching.slots if record.launching is not None else ()
    if any(slot.node_name == node.name and slot.state is SlotState.JOINED for slot in slots):
        return "joining"
    if not node.ready:
        # A new node that no tick has seen yet: the record knows its instance alone.
        coming = (slot for slot in _slots(record) if not slot.settled and slot.instance_id)
        return "joining" if any(slot.instance_id == instance_id for slot in coming) else "not ready"
    return "cordoned" if node.unschedulable else "ready"


def _slots(record: Record) -> Iterator[Slot]:
    for work in (*record.operations, *record.spots):
        yield from (part for part in parts(work) if isinstance(part, Slot))


def _removals(record: Record) -> Iterator[Removal]:
    for work in (*record.operations, *record.spots):
        yield from (part for part in parts(work) if isinstance(part, Removal))
    yield from (replace(one.removal, state=RemovalState.SET_ASIDE) for one in record.refused)
