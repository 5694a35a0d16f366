"""Room ahead of expected demand: what a daemon adds to the settings of a tick, and the notes it learns from.

It only adds headroom, so nothing is removed because of it. A pool gets some only if preparing for the
forecast would have left fewer pods pending, over the days before, than a constant headroom of equal cost.
That is checked again each hour. Everything is computed from the notes: another runner gets the same result,
and without notes the settings are as configured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from ebbtide.core.forecast.ahead import LEAST_DAYS, Peak, Verdict, expected_peak, judge
from ebbtide.core.forecast.demand import demand_by_pool
from ebbtide.core.forecast.members import Floats
from ebbtide.core.words import a_while, count_of, time_of_day
from ebbtide.engine.notes import DemandNotes, DemandSeries
from ebbtide.engine.ports import Observers
from ebbtide.errors import EbbtideError
from ebbtide.model.pool import Headroom, Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, PoolDemand, Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.ports import Store

STEPS_AN_HOUR = 3600 // STEP_SECONDS
LEAST_KNOWN = 0.9
"""Of the last week: with larger gaps a replay of it says little."""
MOST_PODS = 10_000


NO_PEAK = Peak(0.0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is expected of one pool."""

    why_off: str = ""
    """Why nothing is prepared; empty where it is."""
    peak: Peak = NO_PEAK
    at: int = 0
    """From when the highest demand is expected."""
    verdict: Verdict | None = None


class Foresight(Observers):
    def __init__(self, store: Store, settings: Settings, new_id: Callable[[], str]) -> None:
        super().__init__()
        self._settings = settings
        self._notes = DemandNotes(store, new_id)
        self._step = -1
        self._outlooks: dict[str, Outlook] = {}
        self._verdicts: dict[str, tuple[int, Verdict]] = {}
        self._given: tuple[Settings, Settings] | None = None

    def looked(self, snapshot: Snapshot, _record: Record) -> None:
        if not snapshot.problems:
            self._notes.saw(snapshot, self._settings)

    def expecting(self, settings: Settings, snapshot: Snapshot) -> Settings:
        """With the room that expected demand needs beyond what is asked for now. Where the cluster or the
        notes cannot be read, the settings are as they are."""
        if snapshot.problems:
            return settings
        try:
            outlooks = self.outlooks(settings, snapshot.at)
        except EbbtideError:
            return settings
        now = demand_by_pool(snapshot.cluster, settings)
        rooms = tuple(
            self._room(pool, outlooks[pool.name], now[pool.name])
            for pool in settings.pools
            if not pool.may_be_empty
        )
        # The same value for the same room: a simulation knows by it that nothing changed.
        wanted = replace(settings, headroom=(*settings.headroom, *rooms))
        if self._given is None or self._given[0] is not settings or self._given[1] != wanted:
            self._given = (settings, wanted)
        return self._given[1]

    def outlooks(self, settings: Settings, at: int) -> dict[str, Outlook]:
        """By pool; worked out again with each step."""
        step = at // STEP_SECONDS
        if step != self._step:
            self._notes.catch_up(step)
            self._outlooks = {pool.name: self._outlook(pool, settings, step) for pool in settings.pools}
            self._step = step
        return self._outlooks

    def _outlook(self, pool: Pool, settings: Settings, step: int) -> Outlook:
        series, asked = self._notes.series(pool.name, step), settings.forecast
        why = _too_little(series)
        if why:
            return Outlook(why)
        values = np.array(series.pods, dtype=np.float64)
        verdict = self._verdict(pool.name, values, settings, step)
        if not verdict.wins:
            return Outlook(_says_lost(verdict), verdict=verdict)
        peak = expected_peak(values, asked.steps, asked.quantile)
        return Outlook("", peak, (step + max(peak.step, 1)) * STEP_SECONDS, verdict)

    def _verdict(self, pool: str, values: Floats, settings: Settings, step: int) -> Verdict:
        """Of the last full hour, so every runner judges by the same."""
        hour = step // STEPS_AN_HOUR
        known = self._verdicts.get(pool)
        if known is None or known[0] != hour:
            until = len(values) - step % STEPS_AN_HOUR
            asked = settings.forecast
            self._verdicts[pool] = known = (hour, judge(values[:until], asked.steps, asked.quantile))
        return known[1]

    def _room(self, pool: Pool, outlook: Outlook, now: PoolDemand) -> Headroom:
        if outlook.why_off:
            says = f"forecast for pool {pool.name}: {outlook.why_off}"
            return Headroom(1, 1, 0, pool.name, expected=says)
        of = now if now.pods else self._notes.last(pool.name) or PoolDemand(1, 1, 1)
        cpu, memory = max(ceil(of.cpu_milli / of.pods), 1), max(ceil(of.memory_mib / of.pods), 1)
        low, high = ceil(outlook.peak.low - 1e-9), ceil(outlook.peak.high - 1e-9)
        count = min(max(high - now.pods, 0), MOST_PODS)
        nodes = count_of(_nodes(pool, count, cpu, memory), "node") if count else "nothing"
        pods = count_of(high, "pod") if low == high else f"{low} to {high} pods"
        says = f"{nodes} ahead of {time_of_day(outlook.at)}, expected {pods} in pool {pool.name}"
        return Headroom(cpu, memory, count, pool.name, expected=says)


def _too_little(series: DemandSeries) -> str:
    least, has = LEAST_DAYS * STEPS_A_DAY + STEPS_AN_HOUR, len(series.pods)
    if has < least:
        return f"off, demand is noted for {a_while(has * STEP_SECONDS)} and it takes {LEAST_DAYS} days"
    if series.known < LEAST_KNOWN:
        return f"off, demand is known for only {series.known:.0%} of the last week"
    return ""


def _says_lost(verdict: Verdict) -> str:
    days = count_of(round(verdict.days), "day")
    return (
        f"off, over the last {days} a constant headroom of {verdict.extra:.1f} pods would have cost the same "
        "and left no more pods pending"
    )


def _nodes(pool: Pool, count: int, cpu: int, memory: int) -> int:
    """How many nodes of the pool's first type that many pods fill."""
    of = pool.types[0].allocatable
    return max(ceil(count * cpu / of.cpu_milli), ceil(count * memory / of.memory_mib))
