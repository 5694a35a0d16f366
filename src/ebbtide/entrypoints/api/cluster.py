"""Routes about the cluster: status, nodes, operations, decisions, the log, a pending pod, expected
demand, and the pause switch.

Past and expected demand of all pools is the band on the chart of Now. It is computed from the notes in the
log, as the daemon's forecast is, so it is there after a restart and on a server that runs no ticks.
"""

from __future__ import annotations

import threading
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ebbtide.core.words import a_while
from ebbtide.engine.journal import decide_again, read_decision, read_inputs
from ebbtide.engine.notes import DemandNotes
from ebbtide.engine.outages import Origin
from ebbtide.engine.switch import resumed, set_switch
from ebbtide.entrypoints.api import routing
from ebbtide.entrypoints.api.guard import NeedsScope
from ebbtide.entrypoints.api.routing import Problem
from ebbtide.entrypoints.api.site import Scope, Site
from ebbtide.entrypoints.api.views import (
    KINDS,
    News,
    WhyKept,
    entry_shape,
    idle_since,
    node_shape,
    status_shape,
)
from ebbtide.entrypoints.views.headline import slots_of, usual_seconds, why_pending
from ebbtide.entrypoints.views.schemas import (
    AgainstShape,
    DecisionShape,
    EntriesShape,
    NodesShape,
    PauseBody,
    PodShape,
    ReplayShape,
    Shape,
    StatusShape,
    SwitchShape,
)
from ebbtide.errors import EbbtideError
from ebbtide.extras import how_to_add
from ebbtide.model.decision import Action
from ebbtide.model.events import (
    OUTAGES,
    OVER_WITH_THE_NEXT_TICK,
    OperationBegun,
    OperationClosed,
    SwitchedBy,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY
from ebbtide.narrate import fact_in, facts_in

READ = [Depends(NeedsScope(Scope.READ))]
CLOSED_LATELY = 20
LATEST_ALARMS = 20
ADMIN = [Depends(NeedsScope(Scope.ADMIN))]
OPERATION_KINDS = (
    LogKind.OPERATION_BEGUN,
    LogKind.OPERATION_CLOSED,
    LogKind.TRANSITION,
    LogKind.EFFECT,
    LogKind.DRAIN_RESULT,
    LogKind.SPOT_EVENT,
)

Limit = Annotated[int, Query(ge=1, le=500, description="Entries on one page.")]
Page = Annotated[str, Query(max_length=500, description="`next_page_token` of the page before.")]
Subject = Annotated[str, Query(max_length=300, description="Only about this node, operation or decision.")]


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["cluster"])

    @routes.get("/status", dependencies=READ)
    def status() -> StatusShape:
        """What is in progress, what holds it back, and what the last tick said."""
        seen, record = site.sight.seen(), site.store.load()
        decision = newest(site, LogKind.DECISION, brief=True)
        coming = any(not slot.settled for slot in slots_of(record))
        news = News(decision, newest_alarm(site, record), launches_took(site) if coming else 0)
        return status_shape(record, seen, site.settings, site.kind, int(site.clock.now()), news)

    @routes.get("/nodes", dependencies=READ)
    def nodes() -> NodesShape:
        """Every node that is seen, with its state, its use, its price, and why it was kept."""
        seen, record = site.sight.seen(), site.store.load()
        snapshot = seen.snapshot
        kept, idle = why_kept(site, record), idle_since(record)
        shapes = [
            node_shape(node, seen, record, site.settings, kept, idle) for node in snapshot.cluster.nodes
        ]
        read_at = next((each.at for each in seen.stale if each.origin is Origin.CLUSTER), snapshot.at)
        return NodesShape(at=read_at, nodes=shapes, problems=list(snapshot.problems))

    @routes.get("/operations", dependencies=READ)
    def operations(limit: Limit = 50, page_token: Page = "", subject: Subject = "") -> EntriesShape:
        """Operations and every step of them, newest first."""
        return page_of(site, "operations", OPERATION_KINDS, subject, limit, page_token)

    @routes.get("/decisions", dependencies=READ)
    def decisions(limit: Limit = 50, page_token: Page = "") -> EntriesShape:
        """Decisions, newest first."""
        return page_of(site, "decisions", (LogKind.DECISION,), "", limit, page_token)

    @routes.get("/decisions/{decision_id}", dependencies=READ)
    def decision(decision_id: str) -> DecisionShape:
        """One decision: every precondition with both values, and how much was observed."""
        entry = find(site, decision_id)
        found, inputs = read_decision(entry), read_inputs(entry)
        snapshot = inputs.snapshot
        return DecisionShape(
            id=found.id,
            at=found.at,
            action=found.action,
            reason=found.reason,
            decision=msgspec.to_builtins(found),
            snapshot={
                "at": snapshot.at,
                "nodes": len(snapshot.cluster.nodes),
                "workers": len(snapshot.cluster.workers),
                "pods": len(snapshot.cluster.pods),
                "waiting": len(snapshot.cluster.waiting_pods),
                "instances": len(snapshot.instances),
                "cpu": snapshot.cpu.value,
                "problems": list(snapshot.problems),
            },
        )

    @routes.get("/decisions/{decision_id}/replay", dependencies=READ)
    def replay(decision_id: str) -> ReplayShape:
        """Compute it again from its stored inputs, and say whether it comes out the same."""
        stored, again = decide_again(find(site, decision_id))
        return ReplayShape(id=stored.id, equal=again == stored, action=again.action, reason=again.reason)

    @routes.get("/log", dependencies=READ)
    def log(
        limit: Limit = 50,
        page_token: Page = "",
        subject: Subject = "",
        kind: Annotated[list[LogKind] | None, Query(description="Only these kinds.")] = None,
    ) -> EntriesShape:
        """The log, newest first."""
        return page_of(site, "log", tuple(kind or ()), subject, limit, page_token)

    @routes.put("/pause", dependencies=ADMIN)
    def pause(body: PauseBody) -> SwitchShape:
        """Stop all removals. Terminations in progress and launches continue."""
        set_switch(site.store, site.clock, site.new_id, SwitchedBy.API, True, body.reason)
        return SwitchShape(paused=True, reason=body.reason, says="Removals are paused.")

    @routes.delete("/pause", dependencies=ADMIN)
    def resume() -> SwitchShape:
        """Allow removals again, and take up what was set aside."""
        before = set_switch(site.store, site.clock, site.new_id, SwitchedBy.API, False)
        return SwitchShape(paused=False, reason="", says=resumed(before))

    return routes


def find(site: Site, decision_id: str) -> LogEntry:
    entry = site.store.find_entry(decision_id)
    if entry is None or entry.kind is not LogKind.DECISION:
        raise Problem(404, f"there is no decision {decision_id!r}")
    return entry


def newest(site: Site, kind: LogKind, brief: bool = False) -> LogEntry | None:
    return next(iter(site.store.read_log([kind], limit=1, brief=brief)), None)


def newest_alarm(site: Site, record: Record) -> LogEntry | None:
    """Without outages, which have their own message, and without what a later tick has corrected."""
    for entry in site.store.read_log([LogKind.ALARM], limit=LATEST_ALARMS):
        kind = entry.data.get("alarm")
        over = kind in OVER_WITH_THE_NEXT_TICK and record.ticked_at > entry.at
        if kind not in OUTAGES and not over:
            return entry
    return None


def launches_took(site: Site) -> int:
    entries = site.store.read_log([LogKind.OPERATION_CLOSED], limit=CLOSED_LATELY)
    closed = [(entry.at, fact) for entry in entries if (fact := fact_in(entry, OperationClosed))]
    return usual_seconds(closed)


def page_of(
    site: Site, name: str, kinds: tuple[LogKind, ...], subject: str, limit: int, token: str
) -> EntriesShape:
    before = routing.unpack(name, token)
    entries = site.store.read_log(kinds, subject, limit + 1, before, brief=True)
    shown = entries[:limit]
    more = routing.pack(name, shown[-1].id) if len(entries) > limit else ""
    started = began(site, limit, before) if any(entry.kind is LogKind.DECISION for entry in shown) else {}
    return EntriesShape(entries=[entry_shape(entry, started) for entry in shown], next_page_token=more)


def began(site: Site, limit: int, before: str) -> dict[str, OperationBegun]:
    """By the ids of the decisions; an operation is logged with its decision, so none of the page is older."""
    entries = site.store.read_log([LogKind.OPERATION_BEGUN], limit=limit, before=before)
    return {fact.decision_id: fact for fact in facts_in(entries, OperationBegun)}


def why_kept(site: Site, record: Record) -> WhyKept:
    """By the newest decision. Where it never came to look at single nodes, the precondition that stopped it
    is the answer for all of them."""
    entry = newest(site, LogKind.DECISION)
    verdicts, at = (read_decision(entry).verdicts, entry.at) if entry else ((), None)
    each = {refusal.node_name: refusal.reason for verdict in verdicts for refusal in verdict.refusals}
    if record.operation is not None:
        kind = KINDS[type(record.operation).__name__]
        return WhyKept(
            each, f"a {kind} is in progress, and nodes are chosen only when nothing is in progress", at
        )
    asked = next((verdict for verdict in verdicts if verdict.action is Action.SCALE_DOWN), None)
    return WhyKept(each, asked.failed.says if asked and asked.failed else "", at)


def pod_routes(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["cluster"])

    @routes.get("/pods/{namespace}/{name}", dependencies=[Depends(NeedsScope(Scope.READ))])
    def pod(namespace: str, name: str) -> PodShape:
        """Why a pod is pending: what each node lacks for it, and whether a node is being added."""
        snapshot = site.sight.snapshot()
        wanted = f"{namespace}/{name}"
        found = next((each for each in snapshot.cluster.pods if each.full_name == wanted), None)
        if found is None:
            raise Problem(404, f"there is no pod {wanted!r} in the cluster now")
        entry = newest(site, LogKind.DECISION)
        verdicts = read_decision(entry).verdicts if entry else ()
        answer = why_pending(found, snapshot, site.store.load(), site.settings, verdicts)
        return PodShape(
            name=wanted,
            node=found.node_name,
            created_at=found.created_at,
            cpu_milli=found.requests.cpu_milli,
            memory_mib=found.requests.memory_mib,
            pending=answer.pending,
            says=answer.says,
            cause=answer.cause,
            against=[
                AgainstShape(reason=each.says, nodes=each.nodes, cause=each.cause) for each in answer.nodes
            ],
        )

    return routes


HORIZON_STEPS = STEPS_A_DAY // 2
READ_SECONDS = 60
"""Notes are read no more often than this, however many pages are open."""


class DemandPointShape(Shape):
    at: int
    pods: int = Field(description="The most pods in all pools in a quarter of an hour.")


class BandShape(Shape):
    at: int
    p50: float
    p90: float
    p95: float = Field(description="In 19 of 20 cases no more pods are expected than this.")


class ForecastShape(Shape):
    enabled: bool
    why_not: str = Field("", description="Why nothing is expected; empty where something is.")
    past: list[DemandPointShape] = Field(default_factory=list)
    expected: list[BandShape] = Field(default_factory=list)


def expected_routes(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["cluster"])
    expected = _Expected(site)

    @routes.get("/forecast", dependencies=[Depends(NeedsScope(Scope.READ))])
    def forecast() -> ForecastShape:
        """Pods that were asked for in the last day and are expected in the next twelve hours, by quarter
        of an hour. Without `forecast.enabled` nothing is noted or expected."""
        if not site.settings.forecast.enabled:
            return ForecastShape(enabled=False, why_not="forecast.enabled is off")
        return expected.at(int(site.clock.now()))

    return routes


class _Expected:
    def __init__(self, site: Site) -> None:
        self._pools = [pool.name for pool in site.settings.pools]
        self._notes = DemandNotes(site.store, site.new_id)
        self._lock = threading.Lock()
        self._read_at = 0
        self._step = -1
        self._found = ForecastShape(enabled=True)

    def at(self, now: int) -> ForecastShape:
        step = now // STEP_SECONDS
        with self._lock:
            if step != self._step or not 0 <= now - self._read_at < READ_SECONDS:
                self._read_at = now
                self._look(step)
            return self._found

    def _look(self, step: int) -> None:
        known = self._notes.newest
        try:
            # The quarter before this one is the last that can be noted.
            self._notes.catch_up(step, late=1)
        except EbbtideError:
            if step == self._step:
                return
        if step != self._step or self._notes.newest != known:
            self._found, self._step = self._shape(step), step

    def _shape(self, step: int) -> ForecastShape:
        series = [self._notes.series(pool, step).pods for pool in self._pools]
        length = max(map(len, series), default=0)
        pods = [0] * length
        for each in series:
            for back in range(1, len(each) + 1):
                pods[-back] += each[-back]
        first = step - length
        day = range(max(0, length - STEPS_A_DAY), length)
        past = [DemandPointShape(at=(first + each) * STEP_SECONDS, pods=pods[each]) for each in day]
        bands, why_not = _bands(pods, step)
        return ForecastShape(enabled=True, why_not=why_not, past=past, expected=bands)


def _bands(pods: list[int], step: int) -> tuple[list[BandShape], str]:
    try:
        import numpy as np

        from ebbtide.core.forecast.combine import HIGH, MEDIAN, NINETY, forecast, least_values
    except ModuleNotFoundError:
        return [], f"a forecast needs numpy: {how_to_add('foresight')}"
    least = least_values(STEPS_A_DAY, HORIZON_STEPS)
    if len(pods) < least:
        known, takes = a_while(len(pods) * STEP_SECONDS), a_while(least * STEP_SECONDS)
        return [], f"demand is noted for {known}, it takes {takes}"
    found = forecast(np.array(pods, dtype=np.float64), STEPS_A_DAY, HORIZON_STEPS)
    levels = zip(*(found[level].tolist() for level in (MEDIAN, NINETY, HIGH)), strict=True)
    return [
        BandShape(at=(step + ahead) * STEP_SECONDS, p50=round(p50, 2), p90=round(p90, 2), p95=round(p95, 2))
        for ahead, (p50, p90, p95) in enumerate(levels)
    ], ""
