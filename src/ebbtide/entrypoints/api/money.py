"""What the cluster costs, what it could still save, and where its prices come from. Amounts are decimals in
strings, each with its currency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.core.prices import CostPoint, cost_point, paid
from ebbtide.engine.notes import read_points
from ebbtide.engine.outages import Origin
from ebbtide.entrypoints.api.guard import NeedsScope
from ebbtide.entrypoints.api.site import Scope, Site
from ebbtide.entrypoints.api.views import total_of
from ebbtide.entrypoints.views.schemas import Shape
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.snapshot import Market


class CostPointShape(Shape):
    at: int
    per_hour: str
    unpriced: int
    workers: int | None = None
    pending: int | None = None


class CostsShape(Shape):
    per_hour: str | None
    currency: str
    unpriced: int = Field(description="Workers whose price is not known; no amount includes them.")
    last_day: str | None = Field(description="Cost of the last 24 hours, as far as it was observed.")
    points: list[CostPointShape]


class PriceShape(Shape):
    pool: str
    instance_type: str
    market: str
    per_hour: str | None
    currency: str
    source: str
    as_of: str


class PricesShape(Shape):
    prices: list[PriceShape]


class FrontierShape(Shape):
    pods_moved: int
    cost_per_hour: str


class CandidateShape(Shape):
    savings_per_hour: str
    cost_before: str
    cost_after: str
    bound: str = Field(description="No set of nodes for these pods costs less.")
    currency: str
    moves: int
    launches: int
    removed: list[str]
    frontier: list[FrontierShape]


class LookedAt(Shape):
    name: str
    instance_type: str
    age_seconds: int
    idle_seconds: int
    pods: int
    cost_per_hour: str | None
    kept: bool
    why: str


class ConsolidationShape(Shape):
    refused: str = Field(description="The first check that did not hold; empty where all did.")
    checks: list[str]
    candidate: CandidateShape | None
    nodes: list[LookedAt]


class SavedShape(Shape):
    """By what. The parts do not overlap; their sum is what was saved."""

    scale_down: str
    consolidation: str
    spot: str
    sleep: str


class SpendingDayShape(SavedShape):
    date: str = Field(description="In UTC.")
    paid: str
    whole: bool = Field(description="Whether the cost was known for all 24 hours.")


class ProjectionShape(Shape):
    expected: str
    low: str | None = Field(description="From the cheapest week in a row; null where one day is known.")
    high: str | None
    days: int = Field(description="Whole days that it rests on.")


class ShareShape(Shape):
    name: str
    per_hour: str
    idle_per_hour: str = Field(description="Of that, what no pod asks for.")
    count: int = Field(description="Nodes of a pool, pods of a namespace.")
    unpriced: int
    slept: str = Field(description="Of a namespace: what sleep saved in the period.")


class SpendingShape(Shape):
    currency: str = Field(description="Empty where no price is known, or prices are in several currencies.")
    since: int
    until: int
    paid: str
    saved: SavedShape
    compared_with: str = Field(description="What would have been paid, by the rule that is used for it.")
    month: ProjectionShape | None = Field(description="Null until one whole day is known.")
    days: list[SpendingDayShape]
    pools: list[ShareShape]
    namespaces: list[ShareShape]


class TriedShape(Shape):
    """One candidate of a backtest."""

    name: str
    cost_a_month: str
    saves_a_month: str | None = Field(description="Compared with today's settings; negative: it costs more.")
    pending_seconds_a_day: float = Field(description="Of all pods, added up.")
    wait_p95: float = Field(description="Seconds, of the pods that did not fit at once.")
    evictions_a_day: float
    front: bool = Field(description="No other is as good in cost, pending time and evictions.")
    today: bool = Field(description="The settings of the cluster when the backtest was published.")


class BacktestShape(Shape):
    published_at: int
    recording: str
    seconds: float = Field(description="How long the recording lasts.")
    currency: str = Field(description="Empty where no price is known.")
    calibration: str
    tried: list[TriedShape]


class LastBacktestShape(Shape):
    backtest: BacktestShape | None = Field(description="Null until one is published.")


READ = [Depends(NeedsScope(Scope.READ))]
DAY_SECONDS = 86400
MOST_POINTS = 2000


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["money"])

    @routes.get("/costs", dependencies=READ)
    def costs(
        hours: Annotated[int, Query(ge=1, le=24 * 90, description="How far back.")] = 24,
    ) -> CostsShape:
        """What the workers cost an hour, over time, and what was paid in the last day."""
        now = int(site.clock.now())
        seen = site.sight.seen()
        present = cost_point(seen.snapshot, site.settings)
        noted = read_points(site.store, MOST_POINTS)
        # Nothing is known of the cluster since this server started: what was noted last, and not 0.
        if seen.never(Origin.CLUSTER) and noted:
            present = replace(noted[-1], at=now)
        per_hour, currency = total_of(present)
        points = [*noted, present]
        shown = since(points, now - hours * 3600)
        return CostsShape(
            per_hour=None if per_hour is None else str(per_hour),
            currency=currency,
            unpriced=present.unpriced,
            last_day=str(paid(points, currency, now - DAY_SECONDS, now)) if currency else None,
            points=[
                CostPointShape(
                    at=point.at,
                    per_hour=str(point.per_hour.get(currency, 0)),
                    unpriced=point.unpriced,
                    workers=point.workers,
                    pending=point.pending,
                )
                for point in shown
            ],
        )

    @routes.get("/consolidation", dependencies=READ)
    def consolidate() -> ConsolidationShape:
        """What repacking could save now, the proven bound, and why it is not being done. Read-only."""
        now = int(site.clock.now())
        report = evaluate(site.sight.snapshot(), site.store.load(), site.settings, now, "looked-at")
        return consolidation_shape(report)

    @routes.get("/prices", dependencies=READ)
    def prices() -> PricesShape:
        """The price of every type that a pool may launch, with its source and day."""
        return PricesShape(prices=list(_prices(site)))

    return routes


def since(points: Sequence[CostPoint], start: int) -> list[CostPoint]:
    """With what held at the start: a cost is noted when it changes, so its last note may lie before."""
    shown = [point for point in points if point.at >= start]
    before = [point for point in points if point.at < start][-1:]
    return [*(replace(point, at=start) for point in before), *shown]


def _prices(site: Site) -> list[PriceShape]:
    found = []
    for pool in site.settings.pools:
        markets = {pool.market, Market.ON_DEMAND} if pool.on_demand_fallback else {pool.market}
        for node_type in pool.types:
            for market in sorted(markets):
                price = node_type.price_in(market)
                found.append(
                    PriceShape(
                        pool=pool.name,
                        instance_type=node_type.name,
                        market=market,
                        per_hour=str(price.per_hour) if price else None,
                        currency=price.currency if price else "",
                        source=price.source if price else "",
                        as_of=price.as_of if price else "",
                    )
                )
    return found


def consolidation_shape(report: ConsolidationReport) -> ConsolidationShape:
    failed = report.failed
    found = report.plan or report.candidate
    return ConsolidationShape(
        refused=failed.says if failed else "",
        checks=[f"{check.name}: {check.says}" for check in report.checks],
        candidate=_candidate(found) if found else None,
        nodes=[
            LookedAt(
                name=node.node_name,
                instance_type=node.instance_type,
                age_seconds=node.age_seconds,
                idle_seconds=node.idle_seconds,
                pods=node.pods,
                cost_per_hour=None if node.cost_per_hour is None else str(node.cost_per_hour),
                kept=node.kept,
                why=node.why,
            )
            for node in report.nodes
        ],
    )


def _candidate(plan: ConsolidationPlan) -> CandidateShape:
    return CandidateShape(
        savings_per_hour=str(plan.savings_per_hour),
        cost_before=str(plan.cost_before),
        cost_after=str(plan.cost_after),
        bound=str(plan.bound),
        currency=plan.currency,
        moves=len(plan.moves),
        launches=len(plan.slots),
        removed=[removal.node_name for removal in (*plan.empties, *plan.sources)],
        frontier=[
            FrontierShape(pods_moved=point.pods_moved, cost_per_hour=str(point.cost_per_hour))
            for point in plan.frontier
        ],
    )
