"""All routers, in the order of the document."""

from __future__ import annotations

from fastapi import APIRouter

from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.entrypoints.api.cluster import router as cluster_routes
from ebbtide.entrypoints.api.context import RouteContext
from ebbtide.entrypoints.api.demo import router as demo_routes
from ebbtide.entrypoints.api.events import router as event_routes
from ebbtide.entrypoints.api.health import router as health_routes
from ebbtide.entrypoints.api.hold import router as hold_routes
from ebbtide.entrypoints.api.money import router as money_routes
from ebbtide.entrypoints.api.pods import router as pod_routes
from ebbtide.entrypoints.api.policies import router as policy_routes
from ebbtide.entrypoints.api.savings import router as saving_routes
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.api.spending import router as spending_routes
from ebbtide.entrypoints.api.strips import router as strip_routes
from ebbtide.entrypoints.api.wakes import router as wake_routes
from ebbtide.entrypoints.dashboard import router as pages


def routers(site: Site) -> list[APIRouter]:
    found = [pages(), health_routes(site), cluster_routes(site), pod_routes(site), money_routes(site)]
    found += [spending_routes(site), event_routes(site)]
    if site.scaling is not None:
        pools = [pool.name for pool in site.settings.pools]
        book = Policies(site.scaling.ports.policies, site.clock, site.new_id, pools)
        context = RouteContext(site, site.scaling, book)
        found += [policy_routes(context), wake_routes(context), saving_routes(context), strip_routes(context)]
        found.append(hold_routes(context))
    if site.demo is not None:
        found.append(demo_routes(site.demo))
    return found
