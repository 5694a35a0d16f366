"""Recordings from Ebbtide's own log, and from Prometheus in parts that can be resumed.

A decision is logged with everything that was observed if it is news, and at least every
`decision_log_sec`. Nothing is known of the pods between two of them, so the last number holds.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from ebbtide.adapters.prometheus.asking import (
    Prometheus,
    PrometheusSource,
    QueriedHistory,
    QueriedSpan,
    Unknown,
    number,
)
from ebbtide.config import Config
from ebbtide.core.prices import CostPoint
from ebbtide.core.words import a_while, count_of
from ebbtide.engine.journal import read_inputs
from ebbtide.entrypoints.report.collect import Period, ReportData, collect, entries_in
from ebbtide.errors import EbbtideError, Usage
from ebbtide.model.log import LogKind
from ebbtide.model.pod import Pod
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Market, Node
from ebbtide.ports import Store
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series
from ebbtide.simulator.recording.from_metrics import PastMetrics, record_metrics
from ebbtide.simulator.recording.metric_queries import queries
from ebbtide.simulator.recording.objects import (
    Key,
    PodRules,
    budgets_by_workload,
    guarded,
    kind_played,
    names_of,
    pods_by_workload,
    rules_by_workload,
    workload_of,
)

LATE = 1.5
"""A decision that comes later than so many times its interval leaves a gap."""


@dataclass(frozen=True, slots=True)
class _LoggedLook:
    at: int
    view: ClusterView


def record_log(store: Store, settings: Settings, written: Mapping[str, Any], period: Period) -> Recording:
    """`written` are the settings that go into the recording."""
    looks = _looks(store, period)
    if not looks:
        raise Usage(
            f"the log holds no decision from {period.first} to {period.last} that says what was seen; "
            "nothing was recorded. Let Ebbtide run for some days, or name another period with --days."
        )
    start, until = looks[0].at, period.until - looks[0].at
    counts = [Counter(key for pod in _counted(look.view) if (key := workload_of(pod))) for look in looks]
    seen = _seen(looks, settings)
    names = names_of(key for key, rules in seen.rules.items() if not rules.elsewhere)
    demand = {
        name: _series(looks, counts, key, start) for key, name in names.items() if key[0] != "DaemonSet"
    }
    report = collect(store, settings.cluster, (), period)
    recorded = _recorded(report, start, period, _coverage(looks, seen, names, period, settings))
    story = {
        "name": f"recorded from the log of {settings.cluster}",
        "start": datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "until": until,
        "settings": dict(written),
        "nodes": [_node(node, start) for node in looks[0].view.workers if settings.pool_named(node.pool)],
        "workloads": [_workload(key, name, seen) for key, name in names.items()],
    }
    if recorded.interruptions:
        lived = _spot_seconds(looks, period.until)
        story["cloud"] = {"spot_life_sec": round(lived / recorded.interruptions, 1)}
    return Recording(VERSION, story, demand, recorded)


@dataclass(frozen=True, slots=True)
class _SeenWorkloads:
    rules: dict[Key, PodRules]
    pods: dict[Key, Pod]
    """The last that was seen of each."""
    allowed: dict[Key, dict[str, int]]
    """Of each budget: the most pods that were ever allowed to be away."""


def _seen(looks: Sequence[_LoggedLook], settings: Settings) -> _SeenWorkloads:
    found = _SeenWorkloads({}, {}, {})
    for look in looks:
        pods = pods_by_workload(look.view)
        found.rules.update(rules_by_workload(pods, look.view, settings))
        found.pods.update((key, of_it[-1]) for key, of_it in pods.items())
        for key, guards in budgets_by_workload(pods, look.view.budgets).items():
            most = found.allowed.setdefault(key, {})
            most.update((name, max(now, most.get(name, 0))) for name, now in guards.items())
    return found


def _coverage(
    looks: Sequence[_LoggedLook],
    seen: _SeenWorkloads,
    names: Mapping[Key, str],
    period: Period,
    settings: Settings,
) -> dict[str, float]:
    whole = sum(not seen.rules[key].beyond for key in names)
    return {
        "demand": _known(looks, period, settings.decision_log_seconds),
        "pods": _share_of_pods(looks),
        "placement": round(whole / max(len(names), 1), 4),
    }


def _spot_seconds(looks: Sequence[_LoggedLook], until: int) -> float:
    """How long spot workers were there, all together."""
    ends = [*(look.at for look in looks[1:]), until]
    return float(
        sum(
            (end - look.at) * sum(node.market is Market.SPOT for node in look.view.workers)
            for look, end in zip(looks, ends, strict=True)
        )
    )


def _looks(store: Store, period: Period) -> list[_LoggedLook]:
    """In the order of time; only where all was seen."""
    found = []
    for entry in entries_in(store, (LogKind.DECISION,), period, brief=False):
        if "inputs" in entry.data:
            snapshot = read_inputs(entry).snapshot
            if not snapshot.problems:
                found.append(_LoggedLook(entry.at, snapshot.cluster))
    return found[::-1]


def _counted(view: ClusterView) -> list[Pod]:
    """Pods that are asked for, and come and go with no node."""
    return [pod for pod in view.pods if not (pod.tied_to_node or pod.terminating or pod.finished)]


def _series(looks: Sequence[_LoggedLook], counts: Sequence[Counter[Key]], key: Key, start: int) -> Series:
    at: list[float] = []
    replicas: list[int] = []
    for look, count in zip(looks, counts, strict=True):
        if not replicas or replicas[-1] != count[key]:
            at.append(float(look.at - start))
            replicas.append(count[key])
    return Series(at, replicas)


def _workload(key: Key, name: str, seen: _SeenWorkloads) -> dict[str, Any]:
    kind, namespace, _ = key
    asked, allowed = seen.pods[key].requests, seen.allowed.get(key, {})
    found = {
        "name": name.partition("/")[2],
        "namespace": namespace,
        "kind": kind_played(kind),
        "cpu": f"{asked.cpu_milli}m" if asked.cpu_milli else 0,
        "memory": f"{asked.memory_mib}Mi" if asked.memory_mib else 0,
    }
    return {**found, **guarded(allowed[each] for each in sorted(allowed)), **seen.rules[key].written}


def _node(node: Node, start: int) -> dict[str, Any]:
    found = {"name": node.name, "pool": node.pool, "type": node.instance_type, "market": node.market.value}
    return {
        **found,
        "zone": node.zone,
        "age_sec": max(start - node.created_at, 0),
        "labels": dict(node.labels),
    }


def _known(looks: Sequence[_LoggedLook], period: Period, interval: int) -> float:
    ends = [*(look.at for look in looks[1:]), period.until]
    gaps = (end - look.at - interval for look, end in zip(looks, ends, strict=True))
    missing = sum(gap for gap in gaps if gap > (LATE - 1) * interval)
    return round(1 - missing / max(period.until - looks[0].at, 1), 4)


def _share_of_pods(looks: Sequence[_LoggedLook]) -> float:
    """Of those that are not tied to a node: bare pods have no workload here."""
    pods = [pod for look in looks for pod in look.view.pods if not pod.tied_to_node and not pod.finished]
    return round(sum(workload_of(pod) is not None for pod in pods) / max(len(pods), 1), 4)


def _recorded(report: ReportData, start: int, period: Period, coverage: dict[str, float]) -> Recorded:
    points = report.points
    return Recorded(
        source="log of Ebbtide",
        coverage=coverage,
        node_hours=_over(points, "workers", start, period.until, 3600),
        cost=None if report.paid is None else f"{report.paid:.2f}",
        currency=report.currency,
        pending_pod_seconds=_over(points, "pending", start, period.until, 1),
        evictions=report.done.evictions,
        launched=report.done.nodes_added,
        interruptions=report.done.spot_notices,
    )


def _over(points: Sequence[CostPoint], name: str, since: int, until: int, unit: int) -> float | None:
    """What was noted, times how long it held; None where an earlier version did not note it."""
    ends = [*(point.at for point in points[1:]), until]
    values = [getattr(point, name) for point in points]
    if not points or None in values:
        return None
    held = (max(0, min(end, until) - max(point.at, since)) for point, end in zip(points, ends, strict=True))
    total = float(sum(value * seconds for value, seconds in zip(values, held, strict=True)))
    return round(total / unit, 3)


SKEW_SECONDS = 60
"""By more than this the clock of Prometheus differs from ours."""


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    days: int
    step: int
    until: int | None
    """None: up to now, by the clock of Prometheus."""
    output: Path
    objects: ClusterView | None = None
    """The cluster as it is now, where it could be read."""
    notes: tuple[str, ...] = ()
    """What is known before Prometheus is asked."""


@dataclass(frozen=True, slots=True)
class Found:
    recording: Recording
    notes: list[str]
    history: QueriedHistory


def record_prometheus(
    source: PrometheusSource, wanted: RecordingRequest, written: Mapping[str, Any], config: Config
) -> Found:
    server = Prometheus(source)
    kept = wanted.output.with_name(f"{wanted.output.name}.part")
    notes = list(wanted.notes)
    history = None
    try:
        end = _now(server, notes) if wanted.until is None else wanted.until
        end -= end % wanted.step
        history = QueriedHistory(server, QueriedSpan(source.url, end - wanted.days * 86_400, end), kept)
        if history.resumed:
            notes.append(f"{count_of(history.resumed, 'part')} of an earlier run in {kept} are used again")
        span = history.span
        past = PastMetrics(
            span.start, span.end, wanted.step, _read(history, wanted.step), notes, wanted.objects
        )
        return Found(record_metrics(past, written, config), notes, history)
    except Unknown as why:
        if history is not None and not history.read_any:
            history.done()
        raise EbbtideError(  # nothing but reading: there is nothing that may have been carried out
            f"{why}; nothing was written to {wanted.output}. Run the same command again: what was read is in "
            f"{kept} and is not asked for again."
            if kept.exists()
            else f"{why}; nothing was written to {wanted.output}. Correct the address or the token file, or "
            "try again."
        ) from why
    except Usage:
        kept.unlink(missing_ok=True)  # it says nothing that another run could use
        raise
    finally:
        server.close()


def _now(server: Prometheus, notes: list[str]) -> int:
    samples = server.ask("vector(time())")
    theirs = number(samples[0].value[1], "the time") if samples else time.time()
    ahead = round(theirs - time.time())
    if abs(ahead) > SKEW_SECONDS:
        notes.append(
            f"the clock of Prometheus is {a_while(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this "
            "machine's: its own time is used"
        )
    return int(theirs)


def _read(history: QueriedHistory, step: int) -> dict[str, Any]:
    asked = queries(step)
    total = sum(1 for one in asked for _ in history.parts(one))
    shown = sys.stderr.isatty()
    with Progress(console=Console(file=sys.stderr), disable=not shown, transient=True) as bar:
        task = bar.add_task("reading", total=total)
        found = {}
        for one in asked:
            bar.update(task, description=one.name)
            found[one.name] = history.read(one, lambda: bar.advance(task))
        return found
