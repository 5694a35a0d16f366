"""The application: guard, routes, errors, and an OpenAPI document that names the scope of every route."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from ebbtide import __version__
from ebbtide.entrypoints.api import problems
from ebbtide.entrypoints.api.guard import BodyLimit, Guard, scopes_of
from ebbtide.entrypoints.api.limiting import Limiter
from ebbtide.entrypoints.api.routers import routers
from ebbtide.entrypoints.api.site import Site

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
    problems.install(app)

    app.add_middleware(BodyLimit, most=site.max_body_bytes)
    app.add_middleware(Guard, site=site, limiter=app.state.limiter)
    for router in routers(site):
        _say_scopes(router.routes)
        app.include_router(router, responses=problems.DOCUMENTED)
    return app


def _say_scopes(routes: list[BaseRoute]) -> None:
    for route in routes:
        if isinstance(route, APIRoute):
            scopes = scopes_of(route.dependencies)
            extra: dict[str, Any] = {"x-scope": scopes[0].spoken if scopes else "none"}
            route.openapi_extra = {**(route.openapi_extra or {}), **extra}
