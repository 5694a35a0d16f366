"""Only in `ebbtide demo`: what can be broken, and breaking it."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Demo, Survived
from ebbtide.entrypoints.views.schemas import (
    DemoShape,
    FaultShape,
    SaysShape,
    SituationShape,
    SituationStepShape,
)


def router(demo: Demo) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/demo", tags=["demo"])

    @routes.get("", dependencies=[Depends(Needs(Scope.READ))])
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

    @routes.post("/faults/{fault_id}", dependencies=[Depends(Needs(Scope.ADMIN))])
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
