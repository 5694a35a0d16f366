"""What was paid in the last days, what was saved, and what other settings would have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from ebbtide.core.prices import CostPoint, cost_point
from ebbtide.engine.notes import point_of
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.entrypoints.api.guard import NeedsScope
from ebbtide.entrypoints.api.money import (
    BacktestShape,
    LastBacktestShape,
    ProjectionShape,
    SavedShape,
    ShareShape,
    SpendingDayShape,
    SpendingShape,
    TriedShape,
)
from ebbtide.entrypoints.api.routing import RouteContext, bounds
from ebbtide.entrypoints.api.site import Scope, Site
from ebbtide.entrypoints.published import last_published
from ebbtide.entrypoints.views.inputs import logged_between
from ebbtide.entrypoints.views.policy_schemas import SavingsShape, SummaryShape
from ebbtide.entrypoints.views.policy_shapes import csv_text, savings_shape, summary_shape
from ebbtide.entrypoints.views.spending import (
    Gone,
    Projection,
    Share,
    SpendingDay,
    date_of,
    projection,
    removals_of,
    shares_of,
    spending_days,
    with_sleepers,
)
from ebbtide.model.events import BacktestPublished, OperationClosed
from ebbtide.model.log import LogKind
from ebbtide.narrate import fact_in

DAY_SECONDS = 86_400
BEFORE_SECONDS = 2 * DAY_SECONDS
CENTS = Decimal("0.0001")
COMPARED_WITH = "the nodes of the busiest moment of the last 24 hours, all on demand"


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["money"])

    @routes.get("/spending", dependencies=[Depends(NeedsScope(Scope.READ))])
    def spending(
        days: Annotated[int, Query(ge=1, le=90, description="How far back, in whole days.")] = 30,
    ) -> SpendingShape:
        """What was paid, what was saved and by what, what a month comes to, and who the nodes are for."""
        now = int(site.clock.now())
        since = now - now % DAY_SECONDS - (days - 1) * DAY_SECONDS
        # The values of a past day must not change: its savings depend on up to two days before it.
        points = _points(site, since - BEFORE_SECONDS, now)
        currency = _currency(points)
        slept_by_day, slept_by_namespace = _slept(site.scaling, date_of(since), currency)
        removed = _removed(site, since - BEFORE_SECONDS, now)
        found = spending_days(points, currency, now, removed, slept_by_day, since)
        month = projection(found)
        pools, namespaces = shares_of(site.sight.snapshot().cluster, site.settings, currency)
        return SpendingShape(
            currency=currency,
            since=max(since, points[0].at) if points else since,
            until=now,
            paid=_text(sum((day.paid for day in found), Decimal(0))),
            saved=_saved(found),
            compared_with=COMPARED_WITH,
            month=None if month is None else _month(month),
            days=[_day(day) for day in found],
            pools=[_share(pool, {}) for pool in pools],
            namespaces=[
                _share(namespace, slept_by_namespace)
                for namespace in with_sleepers(namespaces, slept_by_namespace)
            ],
        )

    return routes


def _points(site: Site, since: int, now: int) -> list[CostPoint]:
    """Oldest first. What held when the time began was noted before it, and counts from then on."""
    entries = list(logged_between(site.store, [LogKind.COST], since, now))[::-1]
    before = entries[0].id if entries else ""
    earlier = map(point_of, site.store.read_log([LogKind.COST], limit=1, before=before))
    noted = [*(replace(point, at=since) for point in earlier if point.at < since), *map(point_of, entries)]
    seen = site.sight.seen()
    # What cannot be read now costs what was noted last, and not nothing.
    present = [] if seen.stale else [cost_point(seen.snapshot, site.settings)]
    return [*noted, *(point for point in present if not noted or point.at >= noted[-1].at)]


def _currency(points: list[CostPoint]) -> str:
    found = {currency for point in points for currency in point.per_hour}
    return next(iter(found)) if len(found) == 1 else ""


def _removed(site: Site, since: int, now: int) -> list[Gone]:
    entries = list(logged_between(site.store, [LogKind.OPERATION_CLOSED], since, now))[::-1]
    facts = [(entry.at, fact_in(entry, OperationClosed)) for entry in entries]
    return removals_of([(at, fact) for at, fact in facts if fact is not None])


def _slept(
    scaling: Scaling | None, first: str, currency: str
) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
    """What sleep saved, after the cost of wakes, by day and by namespace. A group over several namespaces
    counts for its first."""
    by_day: dict[str, Decimal] = {}
    by_namespace: dict[str, Decimal] = {}
    if scaling is None:
        return by_day, by_namespace
    for report in scaling.summary(first, "").policies:
        policy = scaling.ports.policies.find_policy(report.policy_id)
        workloads = policy.target.workloads if policy is not None else ()
        for day in report.days:
            saved = sum((money.net for money in day.money if money.currency == currency), Decimal(0))
            by_day[day.date] = by_day.get(day.date, Decimal(0)) + saved
            if workloads:
                name = workloads[0].namespace
                by_namespace[name] = by_namespace.get(name, Decimal(0)) + saved
    return by_day, by_namespace


def _text(amount: Decimal) -> str:
    return str(amount.quantize(CENTS))


def _saved(days: list[SpendingDay]) -> SavedShape:
    return SavedShape(
        scale_down=_text(sum((day.scale_down for day in days), Decimal(0))),
        consolidation=_text(sum((day.consolidation for day in days), Decimal(0))),
        spot=_text(sum((day.spot for day in days), Decimal(0))),
        sleep=_text(sum((day.sleep for day in days), Decimal(0))),
    )


def _day(day: SpendingDay) -> SpendingDayShape:
    return SpendingDayShape(
        date=day.date,
        paid=_text(day.paid),
        whole=day.whole,
        scale_down=_text(day.scale_down),
        consolidation=_text(day.consolidation),
        spot=_text(day.spot),
        sleep=_text(day.sleep),
    )


def _month(found: Projection) -> ProjectionShape:
    low, high = found.low, found.high
    return ProjectionShape(
        expected=_text(found.expected),
        low=None if low is None else _text(low),
        high=None if high is None else _text(high),
        days=found.days,
    )


def _share(share: Share, slept: Mapping[str, Decimal]) -> ShareShape:
    return ShareShape(
        name=share.name,
        per_hour=_text(share.per_hour),
        idle_per_hour=_text(share.idle_per_hour),
        count=share.count,
        unpriced=share.unpriced,
        slept=_text(slept.get(share.name, Decimal(0))),
    )


READ = [Depends(NeedsScope(Scope.READ))]
First = Annotated[str, Query(alias="from", max_length=10, description="First day, as 2026-01-31.")]
Last = Annotated[str, Query(alias="to", max_length=10, description="Last day, included.")]
Form = Annotated[str, Query(alias="format", pattern="^(json|csv)$", description="json or csv.")]


def saving_routes(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling", tags=["savings"])
    answers: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}}}

    @routes.get("/savings/summary", dependencies=READ, response_model=SummaryShape, responses=answers)
    def summary(first: First = "", last: Last = "", form: Form = "json") -> SummaryShape | Response:
        """Over all policies; the last 30 days by default."""
        start, end, period, yesterday = bounds(first, last, context.now)
        shape = summary_shape(context.scaling.summary(start, end), period, yesterday)
        return as_csv(shape) if form == "csv" else shape

    @routes.get(
        "/policies/{policy_id}/savings", dependencies=READ, response_model=SavingsShape, responses=answers
    )
    def savings(
        policy_id: str, first: First = "", last: Last = "", form: Form = "json"
    ) -> SavingsShape | Response:
        """Of one policy; the last 30 days by default."""
        start, end, period, yesterday = bounds(first, last, context.now)
        shape = savings_shape(context.scaling.savings(policy_id, start, end), period, yesterday)
        return as_csv(shape) if form == "csv" else shape

    return routes


def as_csv(shape: SavingsShape) -> Response:
    return Response(csv_text(shape), media_type="text/csv")


MONTH_SECONDS = 730 * 3600
WHOLE_CENTS = Decimal("0.01")


def what_if_routes(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["money"])

    @routes.get("/backtest", dependencies=[Depends(NeedsScope(Scope.READ))])
    def backtest() -> LastBacktestShape:
        """The backtest that was published last: what each of its settings would cost a month."""
        found = last_published(site.store)
        return LastBacktestShape(backtest=None if found is None else backtest_shape(*found))

    return routes


def backtest_shape(at: int, fact: BacktestPublished) -> BacktestShape:
    seconds = max(fact.seconds, 1.0)
    months, days = Decimal(str(seconds)) / MONTH_SECONDS, seconds / DAY_SECONDS
    today = next((Decimal(one.cost) for one in fact.tried if one.today), None)

    def a_month(cost: Decimal) -> str:
        return str((cost / months).quantize(WHOLE_CENTS))

    return BacktestShape(
        published_at=at,
        recording=fact.recording,
        seconds=seconds,
        currency=fact.currency,
        calibration=fact.calibration,
        tried=[
            TriedShape(
                name=one.name,
                cost_a_month=a_month(Decimal(one.cost)),
                saves_a_month=None if today is None else a_month(today - Decimal(one.cost)),
                pending_seconds_a_day=round(one.pending_seconds / days, 1),
                wait_p95=one.wait_p95,
                evictions_a_day=round(one.evictions / days, 2),
                front=one.front,
                today=one.today,
            )
            for one in fact.tried
        ],
    )
