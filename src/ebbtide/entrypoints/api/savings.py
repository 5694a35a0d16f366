"""What was saved: by policy, by day, over all, as JSON or CSV."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from ebbtide.entrypoints.api.context import RouteContext, bounds
from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.views.policy_schemas import SavingsShape, SummaryShape
from ebbtide.entrypoints.views.policy_shapes import csv_text, savings_shape, summary_shape

READ = [Depends(Needs(Scope.READ))]
First = Annotated[str, Query(alias="from", max_length=10, description="First day, as 2026-01-31.")]
Last = Annotated[str, Query(alias="to", max_length=10, description="Last day, included.")]
Form = Annotated[str, Query(alias="format", pattern="^(json|csv)$", description="json or csv.")]


def router(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling", tags=["savings"])
    answers: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {}}}}

    @routes.get("/savings/summary", dependencies=READ, response_model=SummaryShape, responses=answers)
    def summary(first: First = "", last: Last = "", form: Form = "json") -> SummaryShape | Response:
        """Over all policies; the last 30 days where nothing is said."""
        start, end, period, yesterday = bounds(first, last, context.now)
        shape = summary_shape(context.scaling.summary(start, end), period, yesterday)
        return as_csv(shape) if form == "csv" else shape

    @routes.get(
        "/policies/{policy_id}/savings", dependencies=READ, response_model=SavingsShape, responses=answers
    )
    def savings(
        policy_id: str, first: First = "", last: Last = "", form: Form = "json"
    ) -> SavingsShape | Response:
        """Of one policy; the last 30 days where nothing is said."""
        start, end, period, yesterday = bounds(first, last, context.now)
        shape = savings_shape(context.scaling.savings(policy_id, start, end), period, yesterday)
        return as_csv(shape) if form == "csv" else shape

    return routes


def as_csv(shape: SavingsShape) -> Response:
    return Response(csv_text(shape), media_type="text/csv")
