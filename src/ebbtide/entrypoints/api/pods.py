"""Why one pod is pending."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from ebbtide.engine.journal import read_decision
from ebbtide.entrypoints.api.cluster import newest
from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.views.pending_pod import why_pending
from ebbtide.entrypoints.views.schemas import AgainstShape, PodShape
from ebbtide.model.log import LogKind


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["cluster"])

    @routes.get("/pods/{namespace}/{name}", dependencies=[Depends(Needs(Scope.READ))])
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
