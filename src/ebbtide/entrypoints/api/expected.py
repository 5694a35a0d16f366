"""What was asked of all pools together lately, and what is expected next: the band on the chart of Now.

It comes from the notes in the log, as the daemon's own forecast does. So it is there after a restart, and on
a server that runs no ticks.
"""

from __future__ import annotations

import threading

from fastapi import APIRouter, Depends
from pydantic import Field

from ebbtide.core.words import a_while
from ebbtide.engine.demand_notes import DemandNotes
from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.views.schemas import Shape
from ebbtide.errors import EbbtideError
from ebbtide.extras import how_to_add
from ebbtide.model.forecast import STEP_SECONDS, STEPS_A_DAY

HORIZON_STEPS = STEPS_A_DAY // 2
READ_SECONDS = 60
"""Notes are read no more often than this, however many pages are open."""


class DemandPointShape(Shape):
    at: int
    pods: int = Field(description="The most that were asked of all pools in a quarter of an hour.")


class BandShape(Shape):
    at: int
    p50: float
    p90: float
    p95: float = Field(description="In 19 of 20 cases no more pods are asked for.")


class ForecastShape(Shape):
    enabled: bool
    why_not: str = Field("", description="Why nothing is expected; empty where something is.")
    past: list[DemandPointShape] = Field(default_factory=list)
    expected: list[BandShape] = Field(default_factory=list)


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["cluster"])
    expected = _Expected(site)

    @routes.get("/forecast", dependencies=[Depends(Needs(Scope.READ))])
    def forecast() -> ForecastShape:
        """Pods that were asked for in the last day and are expected in the next twelve hours, by quarter
        of an hour. Without `forecast.enabled` nothing is noted or expected."""
        if not site.settings.forecast.enabled:
            return ForecastShape(enabled=False, why_not="forecast.enabled is off")
        return expected.at(int(site.clock.now()))

    return routes


class _Expected:
    def __init__(self, site: Site) -> None:
        self._pools = [pool.name for pool in site.settings.pools]
        self._notes = DemandNotes(site.store, site.new_id)
        self._lock = threading.Lock()
        self._read_at = 0
        self._step = -1
        self._found = ForecastShape(enabled=True)

    def at(self, now: int) -> ForecastShape:
        step = now // STEP_SECONDS
        with self._lock:
            if step != self._step or not 0 <= now - self._read_at < READ_SECONDS:
                self._read_at = now
                self._look(step)
            return self._found

    def _look(self, step: int) -> None:
        known = self._notes.newest
        try:
            # The quarter before this one is the last that can be noted.
            self._notes.catch_up(step, late=1)
        except EbbtideError:
            if step == self._step:
                return
        if step != self._step or self._notes.newest != known:
            self._found, self._step = self._shape(step), step

    def _shape(self, step: int) -> ForecastShape:
        series = [self._notes.series(pool, step).pods for pool in self._pools]
        length = max(map(len, series), default=0)
        pods = [0] * length
        for each in series:
            for back in range(1, len(each) + 1):
                pods[-back] += each[-back]
        first = step - length
        day = range(max(0, length - STEPS_A_DAY), length)
        past = [DemandPointShape(at=(first + each) * STEP_SECONDS, pods=pods[each]) for each in day]
        bands, why_not = _bands(pods, step)
        return ForecastShape(enabled=True, why_not=why_not, past=past, expected=bands)


def _bands(pods: list[int], step: int) -> tuple[list[BandShape], str]:
    try:
        import numpy as np

        from ebbtide.core.forecast.combine import HIGH, MEDIAN, NINETY, forecast, least_values
    except ModuleNotFoundError:
        return [], f"a forecast needs numpy: {how_to_add('foresight')}"
    least = least_values(STEPS_A_DAY, HORIZON_STEPS)
    if len(pods) < least:
        known, takes = a_while(len(pods) * STEP_SECONDS), a_while(least * STEP_SECONDS)
        return [], f"demand is noted for {known}, it takes {takes}"
    found = forecast(np.array(pods, dtype=np.float64), STEPS_A_DAY, HORIZON_STEPS)
    levels = zip(*(found[level].tolist() for level in (MEDIAN, NINETY, HIGH)), strict=True)
    return [
        BandShape(at=(step + ahead) * STEP_SECONDS, p50=round(p50, 2), p90=round(p90, 2), p95=round(p95, 2))
        for ahead, (p50, p90, p95) in enumerate(levels)
    ], ""
