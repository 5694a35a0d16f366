"""Records and entries for the store contract: one record for each state that a cluster can be in."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import (
    Consolidate,
    Move,
    MoveState,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
    SourceState,
    Spot,
    SpotKind,
)
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import (
    Counted,
    DrainBackoff,
    DrainFailures,
    Emptied,
    EmptiedNode,
    Missing,
    Record,
    RefusedOffer,
    Saving,
    UnfitNode,
    Unwell,
)
from ebbtide.model.snapshot import Market
from tests.builders import asides, lanes

AT = 1_730_000_300

IDLE = Record(last_scale_at=AT - 300, idle_since=AT - 200, worker_count=2, pod_count=17, ticked_at=AT)

SCALE_UP = ScaleUp(
    id="1730000300-req-xyz",
    started_at=AT,
    requested=2,
    slots=(
        Slot("k-0", "workers", "a", "t3.large", state=SlotState.JOINED, since=AT, instance_id="i-aaa"),
        Slot("k-1", "workers", "b", "t3.large", Market.SPOT, SlotState.LAUNCHING, AT, refused=("a/spot/x",)),
    ),
    reason="CPU 0.81 is above 0.70",
)

SCALE_DOWN = ScaleDown(
    id="1730000400-req-abc",
    started_at=AT + 100,
    removals=(
        Removal("i-ccc", "node-c", "uid-c", "a", "workers", RemovalState.GONE, AT + 150),
        Removal("i-ddd", "node-d", "uid-d", "b", "workers", RemovalState.DRAINING, AT + 110, AT + 410, 1),
    ),
    reason="CPU 0.12 is below 0.30 – “quiet”",
)

REPLACEMENT = ScaleDown(
    id="1730000450-req-rep",
    started_at=AT + 100,
    removals=(Removal("i-ddd", "node-d", "uid-d", "b", "workers", unhealthy=True),),
    reason="replace node-d by t3.large in b: unhealthy, not Ready for 10 min, repair_after_sec is 10 min",
    cause=RemovalReason.UNHEALTHY,
    replacements=(Slot("k-3", "workers", "b", "t3.large", state=SlotState.LAUNCHED, instance_id="i-hhh"),),
)

CONSOLIDATION = Consolidate(
    id="1730000500-req-def",
    started_at=AT + 200,
    slots=(Slot("k-2", "workers", "a", "t3.small", state=SlotState.READY, instance_id="i-ggg"),),
    sources=(Source("i-ccc", "node-c", "uid-c", "a", "workers", SourceState.MARKED, AT + 210),),
    moves=(Move("uid-p", "default/web-1", "node-c", "k-2", "uid-rs", 3, MoveState.EVICTING, AT + 220),),
    savings_per_hour=Decimal("0.1368"),
    currency="EUR",
    reason="consolidation: empty node-c",
    watched_since=AT + 215,
)

SPOT = Spot(
    id="spot:i-eee",
    instance_id="i-eee",
    kind=SpotKind.INTERRUPTION,
    noticed_at=AT,
    deadline=AT + 120,
    removal=Removal("i-eee", state=RemovalState.DRAINING),
    slot=Slot("s-0", "workers", "a", "t3.large"),
)

RECORDS = {
    "fresh": Record(),
    "idle": IDLE,
    "scaling up": replace(IDLE, **lanes(SCALE_UP)),
    "scaling down": replace(IDLE, **lanes(SCALE_DOWN)),
    "replacing": replace(
        IDLE,
        **lanes(REPLACEMENT),
        unwell=(Unwell("uid-d", "Ready=False", AT - 600),),
        unfit=(UnfitNode("node-d", RemovalReason.UNHEALTHY, "not Ready for 10 min"),),
    ),
    "consolidating": replace(
        IDLE,
        **lanes(CONSOLIDATION),
        last_consolidation_at=AT + 200,
        consolidations_in_vain=2,
        consolidation_owes=1,
        saving=Saving(AT + 200, Decimal("0.1368"), Decimal("0.40"), "EUR", 7500, 12_288, 2),
        evictions=(AT - 60, AT + 220),
    ),
    "nodes that leave": replace(
        IDLE, leaving=(EmptiedNode("node-c", "uid-c", "i-ccc", "1730000500-req-def", AT + 2700),)
    ),
    "two spot notices": replace(IDLE, spots=(SPOT, Spot("spot:i-f", "i-f", SpotKind.REBALANCE, AT, AT + 9))),
    "set aside": replace(IDLE, **asides(SCALE_DOWN), unclean_runs=3),
    "paused and resting": replace(
        IDLE,
        paused=True,
        pause_reason="“Wartung” ☂",
        rests=(DrainBackoff("i-ddd", AT + 900, "drain failed"),),
        drain_failures=(DrainFailures("i-ddd", 2, AT + 7200, AT + 9000, "drain failed"),),
        orphans=(Missing("i-zzz", AT),),
        emptied=(Emptied("uid-d", AT - 60), Emptied("uid-e", AT)),
        refused_offers=(RefusedOffer("fsn1/on-demand/cax21", "general", "h1", 2, AT + 1200, AT + 87_600),),
        launch_failures=3,
        launch_backoff_until=AT + 240,
        launch_backoff_offers=("fsn1/on-demand/cpx62", "nbg1/on-demand/cpx62"),
        removal_failures=2,
        removal_backoff_until=AT + 60,
        pending_since=AT,
        short_since=AT,
        shrunk_since=AT,
        counted=(Counted("", 3), Counted("workers", 3)),
        counted_before=(Counted("", 4), Counted("workers", 4)),
        decision_key="none:cooldown",
        decision_logged_at=AT,
        last_said="nothing to do: removals are paused (“Wartung” ☂)",
    ),
    "500 slots": replace(
        IDLE,
        **lanes(
            replace(SCALE_UP, slots=tuple(Slot(f"k-{n}", "workers", "a", "t3.large") for n in range(500)))
        ),
    ),
}


def make_record(cluster: str, base: Record = IDLE, operation: Operation | None = None) -> Record:
    return replace(base, cluster=cluster, **lanes(operation or base.operation))


def make_entry(
    entry_id: str, kind: LogKind = LogKind.DECISION, subject: str = "", **data: object
) -> LogEntry:
    return LogEntry(entry_id, AT, kind, f"entry {entry_id}", subject, data)
