"""`/healthz`, `/readyz` and `/metrics`: for probes and for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import PlainTextResponse, Response

from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Site


def router(site: Site) -> APIRouter:
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", response_class=PlainTextResponse)
    def healthz() -> str:
        """Whether the process is alive. Needs no token."""
        if problem := site.healthy():
            raise Problem(503, problem)
        return "ok\n"

    @routes.get("/readyz", response_class=PlainTextResponse)
    def readyz() -> str:
        """Whether it can do its work. Needs no token."""
        if problem := site.ready():
            raise Problem(503, problem)
        return "ok\n"

    if site.metrics is not None:
        export = site.metrics

        @routes.get("/metrics", dependencies=[Depends(Needs(Scope.READ))], response_class=PlainTextResponse)
        def metrics() -> Response:
            """Metrics for Prometheus."""
            text, media_type = export()
            return Response(text, media_type=media_type)

    return routes
