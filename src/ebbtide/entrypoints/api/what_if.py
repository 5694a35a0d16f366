"""What other settings would have cost: the backtest that was published last, by month and by day."""

from __future__ import annotations

from decimal import Decimal

from fastapi import APIRouter, Depends

from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.money_schemas import BacktestShape, LastBacktestShape, TriedShape
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.published import last_published
from ebbtide.model.events import BacktestPublished

DAY_SECONDS = 86_400
MONTH_SECONDS = 730 * 3600
CENTS = Decimal("0.01")


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["money"])

    @routes.get("/backtest", dependencies=[Depends(Needs(Scope.READ))])
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
        return str((cost / months).quantize(CENTS))

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
