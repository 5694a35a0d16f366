"""What the cluster costs, what it could still save, and where its prices come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.core.prices import CostPoint, cost_point, paid
from ebbtide.engine.cost_notes import read_points
from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.money_schemas import (
    CandidateShape,
    ConsolidationShape,
    CostPointShape,
    CostsShape,
    FrontierShape,
    LookedAt,
    PriceShape,
    PricesShape,
)
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.sight import Origin
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.api.views import total_of
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.node import Market

READ = [Depends(Needs(Scope.READ))]
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
