"""Only in `ebbtide demo`: what can be broken, and breaking it."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Demo
from ebbtide.entrypoints.views.schemas import DemoShape, FaultShape, SaysShape


def router(demo: Demo) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/demo", tags=["demo"])

    @routes.get("", dependencies=[Depends(Needs(Scope.READ))])
    def offered() -> DemoShape:
        """What can be broken."""
        faults = [FaultShape(id=fault.id, name=fault.name, says=fault.says) for fault in demo.faults]
        return DemoShape(says=demo.says, faults=faults)

    @routes.post("/faults/{fault_id}", dependencies=[Depends(Needs(Scope.ADMIN))])
    def strike(fault_id: str) -> SaysShape:
        """Break it now."""
        return SaysShape(says=demo.strike(fault_id))

    return routes
