"""Histories compared: a cluster seen tick by tick, its timers kept by the engine and by the oracle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.timers import track
from ebbtide.model.decision import Action
from tests.builders import NOW, make_record
from tests.oracle import launch, load, scale_down
from tests.oracle.clusters import PENDING, PLAIN, Drawn, clusters
from tests.oracle.drawing import Source
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of

PACE = (30, 60, 60, 120, 180, 240, 299)


@dataclass(frozen=True, slots=True)
class History:
    cluster: Drawn
    ticks: tuple[tuple[int, float | None, bool], ...]
    """Seconds since the last tick, CPU, and whether a pod is pending."""


def cases(source: Source) -> History:
    cluster = clusters(source, PLAIN, 4)
    busy = source.pick(((0.1,), (0.1, 0.1, 0.1, 0.1, 0.5), (0.1, 0.1, 0.3, None), (0.1, 0.9)))
    held = source.pick((False, True))
    ticks = source.picks(tuple(product(PACE, busy, (False,) * 7 + (True,))), 10, 14)
    return History(cluster, tuple((pace, cpu, pending and not held) for pace, cpu, pending in ticks))


def compare(case: History, report: Report) -> None:
    """The oracle counts idle and pending time from its own look at each tick, not from the record."""
    now, record = NOW, make_record()
    idle_since = pending_since = 0
    quiet = tuple(pod for pod in case.cluster.pods if pod.node_name)
    for pace, cpu, queued in case.ticks:
        now += pace
        pods = (*quiet, PENDING[1]("queued")) if queued else quiet
        snapshot = replace(case.cluster, pods=pods).seen(cpu, now)
        settings = case.cluster.settings
        record, _ = track(snapshot, record, settings, now)
        decision = decide(snapshot, record, settings, now, "d1")
        seen = moment_of(snapshot, record, settings, now)
        idle = cpu is not None and cpu < settings.cpu_down and not load.pending(seen)
        idle_since = (idle_since or now) if idle else 0
        pending_since = (pending_since or now) if queued else 0
        moment = replace(seen, idle_since=idle_since, pending_since=pending_since)
        report.cases["decisions"] += 1
        report.cases["decisions in histories"] += 1
        told = f"{decision.action} at +{now - NOW} s ({decision.reason})"
        names = [removal.node_name for removal in decision.removals]
        if decision.action is Action.SCALE_DOWN:
            report.check([scale_down.may_start(moment, names)], told)
        elif scale_down.must_start(moment).demands:
            report.differs(f"a scale-down must start: {told}")
        if decision.action is Action.SCALE_UP:
            report.check([launch.may_launch(moment, [slot.pool for slot in decision.slots])], told)
        elif launch.must_launch(moment).demands:
            report.differs(f"a launch must happen: {told}")
        if decision.action in (Action.SCALE_DOWN, Action.SCALE_UP):
            return
