"""The application: guard, routes in the order of the document, errors, and an OpenAPI document that names
the scope of every route; and, only in `ebbtide demo`, what can be broken.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.responses import PlainTextResponse, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from ebbtide import __version__
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.entrypoints.api import routing
from ebbtide.entrypoints.api.cluster import expected_routes, pod_routes
from ebbtide.entrypoints.api.cluster import router as cluster_routes
from ebbtide.entrypoints.api.events import router as event_routes
from ebbtide.entrypoints.api.guard import BodyLimit, Guard, Limiter, NeedsScope, scopes_of
from ebbtide.entrypoints.api.hold import router as hold_routes
from ebbtide.entrypoints.api.money import router as money_routes
from ebbtide.entrypoints.api.policies import router as policy_routes
from ebbtide.entrypoints.api.policies import strip_routes
from ebbtide.entrypoints.api.routing import Problem, RouteContext
from ebbtide.entrypoints.api.site import Demo, Scope, Site, Survived
from ebbtide.entrypoints.api.spending import router as spending_routes
from ebbtide.entrypoints.api.spending import saving_routes, what_if_routes
from ebbtide.entrypoints.api.wakes import router as wake_routes
from ebbtide.entrypoints.dashboard import router as pages
from ebbtide.entrypoints.views.schemas import (
    DemoShape,
    FaultShape,
    SaysShape,
    SituationShape,
    SituationStepShape,
)


def demo_routes(demo: Demo) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/demo", tags=["demo"])

    @routes.get("", dependencies=[Depends(NeedsScope(Scope.READ))])
    def offered() -> DemoShape:
        """What can be broken, and how far the answer to the last fault is."""
        faults = [FaultShape(id=fault.id, name=fault.name, says=fault.says) for fault in demo.faults]
        survived = demo.survived()
        return DemoShape(
            says=demo.says,
            faults=faults,
            speed=demo.speed(),
            situation=None if survived is None else situation_shape(survived),
        )

    @routes.post("/faults/{fault_id}", dependencies=[Depends(NeedsScope(Scope.ADMIN))])
    def strike(fault_id: str) -> SaysShape:
        """Break it now."""
        return SaysShape(says=demo.strike(fault_id))

    return routes


def situation_shape(survived: Survived) -> SituationShape:
    return SituationShape(
        fault_id=survived.fault_id,
        name=survived.name,
        explains=survived.explains,
        began_at=survived.began_at,
        ended_at=survived.ended_at or None,
        steps=[SituationStepShape(says=line.says, at=line.at or None) for line in survived.lines],
    )


PREFIX = "/api/v1"


def make_app(site: Site, limiter: Limiter | None = None) -> FastAPI:
    app = FastAPI(
        title="Ebbtide",
        version=__version__,
        description="What Ebbtide does and why, policies and wakes, and what was saved.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
        redirect_slashes=False,
    )
    app.state.site = site
    app.state.limiter = limiter or Limiter()
    routing.install(app)

    app.add_middleware(BodyLimit, most=site.max_body_bytes, site=site)
    app.add_middleware(Guard, site=site, limiter=app.state.limiter)
    for router in routers(site):
        _say_scopes(router.routes)
        app.include_router(router, responses=routing.DOCUMENTED)
    return app


def _say_scopes(routes: list[BaseRoute]) -> None:
    for route in routes:
        if isinstance(route, APIRoute):
            scopes = scopes_of(route.dependencies)
            extra: dict[str, Any] = {"x-scope": scopes[0].spoken if scopes else "none"}
            route.openapi_extra = {**(route.openapi_extra or {}), **extra}


def routers(site: Site) -> list[APIRouter]:
    found = [pages(), router(site), cluster_routes(site), pod_routes(site), money_routes(site)]
    found += [spending_routes(site), what_if_routes(site), expected_routes(site), event_routes(site)]
    if site.scaling is not None:
        pools = [pool.name for pool in site.settings.pools]
        book = Policies(site.scaling.ports.policies, site.clock, site.new_id, pools)
        context = RouteContext(site, site.scaling, book)
        found += [policy_routes(context), wake_routes(context), saving_routes(context), strip_routes(context)]
        found.append(hold_routes(context))
    if site.demo is not None:
        found.append(demo_routes(site.demo))
    return found


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

        @routes.get(
            "/metrics", dependencies=[Depends(NeedsScope(Scope.READ))], response_class=PlainTextResponse
        )
        def metrics() -> Response:
            """Metrics for Prometheus."""
            text, media_type = export()
            return Response(text, media_type=media_type)

    return routes
