"""A recording of what kube-state-metrics said over time: replicas, requests, nodes, what was pending.

Where all series are missing, nobody looked: the last value holds, and the time counts as not known. Where
only that of one workload is missing, the workload was not there. What no metric says (where pods may run,
what a drain must know of them) comes from the objects of the cluster, where they can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, isfinite
from statistics import fmean
from typing import Any

from ebbtide.adapters.prometheus.asking import QueriedSeries
from ebbtide.config import Config
from ebbtide.errors import Usage
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series, with_first_nodes
from ebbtide.simulator.recording.objects import (
    Key,
    PodRules,
    budgets_by_workload,
    guarded,
    kind_played,
    names_of,
    pods_by_workload,
    rules_by_workload,
)
from ebbtide.simulator.recording.past_nodes import PastNodes

CPU_USE = 0.5
"""Share of its request that a pod uses where nobody measured it."""
NEEDED = "kube-state-metrics (kube_deployment_spec_replicas, kube_statefulset_replicas)"


@dataclass(frozen=True, slots=True)
class PastMetrics:
    """What was read, by the names of `metric_queries.queries`."""

    start: int
    end: int
    step: int
    curves: Mapping[str, Sequence[QueriedSeries]]
    notes: list[str] = field(default_factory=list)
    """What a person should know of it."""
    objects: ClusterView | None = None
    """The cluster as it is now, where it could be read."""


def record_metrics(past: PastMetrics, written: Mapping[str, Any], config: Config) -> Recording:
    """`written` are the settings that go into the recording."""
    looks = _looks(past)
    if not looks:
        raise Usage(
            f"Prometheus has no series of {NEEDED} in this time; nothing was written. Install "
            "kube-state-metrics, or name the Prometheus that scrapes it."
        )
    start, end = looks[0], min(looks[-1] + past.step, past.end)
    _note_missing(past, looks, end)
    requests = _requests(past)
    _refuse_without_memory(requests)
    rules = {}
    if past.objects is not None:
        rules = rules_by_workload(pods_by_workload(past.objects), past.objects, config.settings)
    away = {key for key, found in rules.items() if found.elsewhere}
    curves = {key: curve for key, curve in _replicas(past).items() if key not in away}
    demand = {key: _series(curve, looks) for key, curve in curves.items()}
    requests = {key: asked for key, asked in requests.items() if key not in away}
    names = names_of([*demand, *requests])
    workloads, lacking = _workloads(past, demand, requests, names)
    coverage_of_rules = _add_rules(past, workloads, names, rules)
    control = {curve.metric.get("node") for curve in past.curves["control"]}
    workers = [curve for curve in past.curves["nodes"] if curve.metric.get("node") not in control]
    nodes = PastNodes(workers, past.curves["labels"], config.settings, past.step)
    known = {key for key in demand if key not in lacking}
    story = {
        "name": "recorded from Prometheus",
        "start": datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "until": end - start,
        "settings": dict(written),
        "nodes": nodes.at(start),
        "workloads": workloads,
    }
    coverage = {
        "demand": _share(len(looks), (end - start) // past.step + (end == past.end)),
        "pods": _share_of_pods(past),
        "requests": _share(len(known), len(demand)),
        "nodes": nodes.known,
        **_fallbacks(past, workloads),
        **coverage_of_rules,
    }
    recorded = Recorded(
        source="Prometheus",
        coverage=coverage,
        node_hours=nodes.hours,
        cost=nodes.cost,
        currency=nodes.currency,
        pending_pod_seconds=_waited(past),
        launched=nodes.launched_after(start),
    )
    series = {names[key]: found for key, found in demand.items() if key not in lacking}
    recording = Recording(VERSION, story, series, recorded)
    if story["nodes"]:
        return recording
    past.notes.append(
        "no node could be matched to a pool: the recording begins with as many as its pods need"
    )
    return with_first_nodes(recording, config)


def _looks(past: PastMetrics) -> list[int]:
    """When kube-state-metrics answered."""
    curves = (*past.curves["deployments"], *past.curves["statefulsets"])
    return sorted({int(at) for curve in curves for at, _ in curve.values})


def _note_missing(past: PastMetrics, looks: Sequence[int], end: int) -> None:
    start, days = looks[0], (end - looks[0]) / 86_400
    recorded = f"{days:.1f} of {(past.end - past.start) / 86_400:.1f} days are recorded"
    if start - past.start > past.step:
        past.notes.append(
            f"Prometheus knows nothing before {_moment(start)}: {recorded}. It keeps 15 days unless "
            "--storage.tsdb.retention.time says otherwise"
        )
    if end < past.end:
        past.notes.append(
            f"Prometheus knows nothing after {_moment(end)}: {recorded}. Name a time up to there with "
            "--until to have as many days as you asked for"
        )
    last, after = max(pairwise(looks), key=lambda both: both[1] - both[0], default=(start, start))
    if after - last > past.step:
        past.notes.append(
            f"Prometheus has gaps, the longest from {_moment(last)} to {_moment(after)}: the value before "
            "holds there. Record a time without gaps if that matters"
        )


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _replicas(past: PastMetrics) -> dict[Key, QueriedSeries]:
    kinds = (("Deployment", "deployment"), ("StatefulSet", "statefulset"))
    kept = {
        (kind, curve.metric.get("namespace", ""), curve.metric.get(label, "")): curve
        for kind, label in kinds
        for curve in past.curves[f"{label}s"]
    }
    others = {key: curve for curve in past.curves["others"] if (key := _owner(curve, {})) is not None}
    return kept | others


def _series(curve: QueriedSeries, looks: Sequence[int]) -> Series:
    """Only the changes, in seconds from the first look."""
    values = {int(at): number for at, text in curve.values if (number := _number(text)) is not None}
    at: list[float] = []
    replicas: list[int] = []
    for look in looks:
        count = round(values.get(look, 0.0))
        if not replicas or replicas[-1] != count:
            at.append(float(look - looks[0]))
            replicas.append(max(count, 0))
    return Series(at, replicas)


def _requests(past: PastMetrics) -> dict[Key, dict[str, float]]:
    """CPU and memory that a pod of each workload requests, as last seen."""
    deployment_of = {
        (c.metric.get("namespace", ""), c.metric.get("replicaset", "")): c.metric.get("owner_name", "")
        for c in past.curves["replicasets"]
    }
    found: dict[Key, dict[str, float]] = {}
    last: dict[tuple[Key, str], float] = {}
    for curve in past.curves["requests"]:
        key = _owner(curve, deployment_of)
        at, value = curve.values[-1][0], _number(curve.values[-1][1])
        resource = curve.metric.get("resource", "")
        if key is not None and value is not None and at >= last.get((key, resource), 0.0):
            last[key, resource] = at
            found.setdefault(key, {})[resource] = value
    return found


def _owner(curve: QueriedSeries, deployment_of: Mapping[tuple[str, str], str]) -> Key | None:
    kind, namespace = curve.metric.get("owner_kind", ""), curve.metric.get("namespace", "")
    name = curve.metric.get("owner_name", "")
    if kind != "ReplicaSet":
        return kind, namespace, name
    # Where nobody says which Deployment a ReplicaSet is of, its name does: it ends in a hash.
    found = deployment_of.get((namespace, name)) or name.rpartition("-")[0]
    return ("Deployment", namespace, found) if found else None


def _refuse_without_memory(requests: Mapping[Key, Mapping[str, float]]) -> None:
    if not any("memory" in asked for asked in requests.values()):
        raise Usage(
            "Prometheus does not say what memory pods request (kube_pod_container_resource_requests, "
            "kube_pod_owner), and without memory requests nothing can be planned; nothing was written. Let "
            "kube-state-metrics export both, and let pods request memory."
        )


def _workloads(
    past: PastMetrics,
    demand: Mapping[Key, Series],
    requests: Mapping[Key, Mapping[str, float]],
    names: Mapping[Key, str],
) -> tuple[list[dict[str, Any]], set[Key]]:
    """Those that can be played, DaemonSets among them, and those whose pods nobody saw."""
    lacking = {key for key in demand if key not in requests}
    ran = sorted(names[key] for key in lacking if max(demand[key].replicas, default=0) > 0)
    if ran:
        more = f" and {len(ran) - 1} more" if len(ran) > 1 else ""
        past.notes.append(f"nobody saw what pods of {ran[0]}{more} request: left out")
    used, budgets = _used(past), _budgets(past)
    guards = None
    if past.objects is not None:
        guards = budgets_by_workload(pods_by_workload(past.objects), past.objects.budgets)
    found = []
    for key in sorted(requests):
        kind, namespace, _ = key
        if key not in demand and kind != "DaemonSet":
            continue
        asked = requests[key]
        written: dict[str, Any] = {
            "name": names[key].partition("/")[2],
            "namespace": namespace,
            "kind": kind_played(kind),
            "cpu": f"{ceil(asked['cpu'] * 1000 - 1e-6)}m" if asked.get("cpu") else 0,
            "memory": f"{ceil(asked['memory'] / 2**20)}Mi" if asked.get("memory") else 0,
            "cpu_use": used.get(key, CPU_USE),
        }
        if kind != "DaemonSet":
            written |= guarded(_guards(key, budgets, guards))
        found.append(written)
    return found, lacking


def _used(past: PastMetrics) -> dict[Key, float]:
    """Share of the requested CPU that pods used, on average."""
    deployment_of = {
        (c.metric.get("namespace", ""), c.metric.get("replicaset", "")): c.metric.get("owner_name", "")
        for c in past.curves["replicasets"]
    }
    totals: dict[Key, list[float]] = {}
    for place, name in enumerate(("used", "asked")):
        for curve in past.curves[name]:
            key = _owner(curve, deployment_of)
            numbers = [number for _, text in curve.values if (number := _number(text)) is not None]
            if key is not None and numbers:
                totals.setdefault(key, [0.0, 0.0])[place] += fmean(numbers)
    return {
        key: round(min(used / asked, 100.0), 3) for key, (used, asked) in totals.items() if used and asked
    }


def _guards(
    key: Key, budgets: Mapping[Budgeted, int], guards: Mapping[Key, Mapping[str, int]] | None
) -> list[int]:
    """How many of its pods may be away, by each of its budgets: those whose selectors match; where nobody
    could look, the one that is named after it. Prometheus knows the budget itself, the object only what it
    allows at this moment."""
    _, namespace, name = key
    if guards is None:
        called = [one for one in ((namespace, name), (namespace, f"{name}-pdb")) if one in budgets]
        return [budgets[one] for one in called[:1]]
    return [budgets.get((namespace, one), now) for one, now in sorted(guards.get(key, {}).items())]


Budgeted = tuple[str, str]
"""Namespace and name of a disruption budget."""


def _budgets(past: PastMetrics) -> dict[Budgeted, int]:
    """How many pods may be away."""
    healthy = {_budget(c): _number(c.values[-1][1]) for c in past.curves["desired_healthy"]}
    found = {}
    for curve in past.curves["expected_pods"]:
        expected, desired = _number(curve.values[-1][1]), healthy.get(_budget(curve))
        if expected is not None and desired is not None:
            found[_budget(curve)] = max(round(expected - desired), 0)
    return found


def _budget(curve: QueriedSeries) -> Budgeted:
    return curve.metric.get("namespace", ""), curve.metric.get("poddisruptionbudget", "")


def _add_rules(
    past: PastMetrics,
    workloads: Sequence[dict[str, Any]],
    names: Mapping[Key, str],
    rules: Mapping[Key, PodRules],
) -> dict[str, float]:
    """Where pods may run and what a drain must know of them, into the workloads; and the share of the
    workloads of which that is known."""
    placed = {f"{one['namespace']}/{one['name']}": one for one in workloads}
    keys = [key for key, name in names.items() if name in placed]
    if past.objects is None:
        past.notes.append(
            "kube-state-metrics does not export selectors, tolerations and spreading: pods are taken to run "
            "on any node. Run this where the configuration reaches the cluster, or add a dump with --dump"
        )
        return {"placement": 0.0}
    whole = 0
    for key in keys:
        found = rules.get(key)
        if found is not None:
            placed[names[key]].update(found.written)
            whole += not found.beyond
            if found.beyond:
                past.notes.append(f"{names[key]} is played without {', '.join(dict.fromkeys(found.beyond))}")
    unseen = len([key for key in keys if key not in rules])
    if unseen:
        past.notes.append(
            f"placement is known for {len(keys) - unseen} of {len(keys)} workloads, from their pods of now: "
            "the others are taken to run on any node"
        )
    away = sorted(f"{key[1]}/{key[2]}" for key, found in rules.items() if found.elsewhere)
    if away:
        more = f" and {len(away) - 1} more" if len(away) > 1 else ""
        past.notes.append(f"{away[0]}{more} can run on no pool of the configuration: left out")
    return {"placement": _share(whole, len(keys))}


def _fallbacks(past: PastMetrics, workloads: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What is not exported, and what is taken instead."""
    placed = [one for one in workloads if one["kind"] != "DaemonSet"]
    budgets = {_budget(curve) for curve in past.curves["expected_pods"]}
    matched = sum("pdb" in one for one in placed)
    measured = len({key for key in _used(past) if key[0] != "DaemonSet"})
    if measured < len(placed):
        past.notes.append(
            f"CPU used is known for {measured} of {len(placed)} workloads: the others are taken to use half "
            "of what they request"
        )
    found = {"CPU used": _share(measured, len(placed))}
    return found | ({"budgets": _share(matched, len(budgets))} if budgets else {})


def _share_of_pods(past: PastMetrics) -> float:
    """Of those that are not tied to a node: bare pods have no workload here."""
    kept, others, pods = (_sum(past.curves[name]) for name in ("kept", "other_pods", "pods"))
    return _share(kept + others, pods)


def _waited(past: PastMetrics) -> float | None:
    """By the times of each pod; where nobody exports those, by how many were pending at each look."""
    if past.curves["waits"]:
        return round(_sum(past.curves["waits"]), 1)
    if not past.curves["waiting"]:
        return None
    past.notes.append(
        "kube_pod_status_scheduled_time is not exported: pending time is counted by looks, so short waits "
        "may be missed"
    )
    return round(_sum(past.curves["waiting"]) * past.step, 1)


def _sum(curves: Sequence[QueriedSeries]) -> float:
    numbers = (_number(text) for curve in curves for _, text in curve.values)
    return sum(number for number in numbers if number is not None)


def _share(part: float, whole: float) -> float:
    return round(min(part / whole, 1.0), 4) if whole else 0.0


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
