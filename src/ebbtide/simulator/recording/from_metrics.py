"""A recording of what kube-state-metrics said over time: replicas, requests, nodes, what was pending; and
what is asked of Prometheus for it.

Where all series are missing, nobody looked: the last value holds, and the time counts as not known. Where
only that of one workload is missing, the workload was not there.

What is asked of Prometheus for a recording: the names of kube-state-metrics, one query for each source. What
changes by the minute is looked at every `step` seconds. What rarely changes is looked at every hour, and
then covers the whole hour, so a pod that lived for some minutes is not missed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, isfinite
from statistics import fmean
from typing import Any

from ebbtide.adapters.prometheus.asking import QueriedSeries, RangeQuery
from ebbtide.config import Config
from ebbtide.errors import Usage
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series, with_first_nodes
from ebbtide.simulator.recording.past_nodes import PastNodes

HOUR = 3600
KINDS = "ReplicaSet|StatefulSet|DaemonSet"
LABELS = (
    "label_ebbtide_dev_pool",
    "label_ebbtide_dev_instance_type",
    "label_node_kubernetes_io_instance_type",
    "label_beta_kubernetes_io_instance_type",
    "label_topology_kubernetes_io_zone",
    "label_failure_domain_beta_kubernetes_io_zone",
    "label_ebbtide_dev_market",
    "label_karpenter_sh_capacity_type",
    "label_eks_amazonaws_com_capacityType",
)
"""Of a node, as kube-state-metrics writes them; it exports those of its --metric-labels-allowlist."""


def _lately(series: str) -> str:
    return f"last_over_time({series}[1h])"


def _by_owner(amount: str, owner: str, by: str = "") -> str:
    """An amount of each pod, with the owner of the pod."""
    owned = f"max by (namespace, pod, owner_kind, owner_name) ({owner})"
    pods = f"sum by (namespace, pod{by}) ({amount})"
    return f"{pods} * on (namespace, pod) group_left (owner_kind, owner_name) {owned}"


_OWNER = f'kube_pod_owner{{owner_kind=~"{KINDS}"}}'
_REQUESTS = 'kube_pod_container_resource_requests{resource=~"cpu|memory"}'
_EACH = f"max by (namespace, pod, container, resource) ({_lately(_REQUESTS)})"
LATE = 120
"""How long after it was scheduled a pod may be seen first."""


def _waits() -> str:
    """Seconds from the making of each pod until it was scheduled, of those that were within the last hour."""
    whole = f"[{HOUR + 2 * LATE}s]"
    made, placed = (
        f"max by (namespace, pod, uid) (last_over_time({name}{whole}))"
        for name in ("kube_pod_created", "kube_pod_status_scheduled_time")
    )
    lately = f"({placed} > time() - {HOUR + LATE} <= time() - {LATE})"
    return f"sum({lately} - on (namespace, pod, uid) {made})"


_OWNERS = "namespace, owner_kind, owner_name"


def queries(step: int) -> list[RangeQuery]:
    """In the order in which they are asked: what a recording cannot do without comes first."""
    loose = 'kube_pod_owner{owner_kind!="DaemonSet",owner_kind!="Node"}'
    kept = 'kube_pod_owner{owner_kind=~"ReplicaSet|StatefulSet"}'
    used = 'rate(container_cpu_usage_seconds_total{container!="",container!="POD"}[5m])'
    asked_cpu = 'kube_pod_container_resource_requests{resource="cpu"}'
    budget = "kube_poddisruptionbudget_status"
    return [
        RangeQuery("deployments", "max by (namespace, deployment) (kube_deployment_spec_replicas)", step, 40),
        RangeQuery("statefulsets", "max by (namespace, statefulset) (kube_statefulset_replicas)", step, 40),
        RangeQuery(
            "requests",
            f"max by ({_OWNERS}, resource) ({_by_owner(_EACH, _lately(_OWNER), ', resource')})",
            HOUR,
            200,
        ),
        RangeQuery(
            "replicasets",
            f"max by (namespace, replicaset, owner_name) ({_lately('kube_replicaset_owner')})",
            HOUR,
            400,
        ),
        RangeQuery(
            "waiting",
            'sum(max by (namespace, pod) (kube_pod_status_scheduled{condition="false"}))',
            step,
        ),
        RangeQuery("waits", _waits(), HOUR),
        RangeQuery("nodes", "max by (node) (kube_node_created)", step, 100),
        RangeQuery(
            "labels", f"max by (node, {', '.join(LABELS)}) ({_lately('kube_node_labels')})", HOUR, 200
        ),
        RangeQuery("control", 'max by (node) (kube_node_role{role=~"control-plane|master"})', HOUR, 10),
        RangeQuery("pods", f"count(max by (namespace, pod) ({loose}))", HOUR),
        RangeQuery("kept", f"count(max by (namespace, pod) ({kept}))", HOUR),
        RangeQuery("used", f"sum by ({_OWNERS}) ({_by_owner(used, _OWNER)})", HOUR, 100),
        RangeQuery("asked", f"sum by ({_OWNERS}) ({_by_owner(asked_cpu, _OWNER)})", HOUR, 100),
        *(
            RangeQuery(
                name,
                f"max by (namespace, poddisruptionbudget) ({_lately(f'{budget}_{name}')})",
                HOUR,
                100,
            )
            for name in ("expected_pods", "desired_healthy")
        ),
    ]


Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""
CPU_USE = 0.5
"""Share of its request that a pod uses where nobody measured it."""
NEEDED = "kube-state-metrics (kube_deployment_spec_replicas, kube_statefulset_replicas)"


@dataclass(frozen=True, slots=True)
class PastMetrics:
    """What was read, by the names of `state_metrics.queries`."""

    start: int
    end: int
    step: int
    curves: Mapping[str, Sequence[QueriedSeries]]
    notes: list[str] = field(default_factory=list)
    """What a person should know of it."""


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
    demand = {key: _series(curve, looks) for key, curve in _replicas(past).items()}
    requests = _requests(past)
    _refuse_without_memory(requests)
    workloads, lacking = _workloads(past, demand, requests)
    control = {curve.metric.get("node") for curve in past.curves["control"]}
    workers = [curve for curve in past.curves["nodes"] if curve.metric.get("node") not in control]
    nodes = PastNodes(workers, past.curves["labels"], config.settings, past.step)
    known = {_name(key) for key in demand if key not in lacking}
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
    series = {_name(key): found for key, found in demand.items() if key not in lacking}
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
    return {
        (kind, curve.metric.get("namespace", ""), curve.metric.get(label, "")): curve
        for kind, label in kinds
        for curve in past.curves[f"{label}s"]
    }


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
    past: PastMetrics, demand: Mapping[Key, Series], requests: Mapping[Key, Mapping[str, float]]
) -> tuple[list[dict[str, Any]], set[Key]]:
    """Those that can be played, DaemonSets among them, and those whose pods nobody saw."""
    lacking = {key for key in demand if key not in requests}
    ran = sorted(_name(key) for key in lacking if max(demand[key].replicas, default=0) > 0)
    if ran:
        more = f" and {len(ran) - 1} more" if len(ran) > 1 else ""
        past.notes.append(f"nobody saw what pods of {ran[0]}{more} request: left out")
    used, budgets = _used(past), _budgets(past)
    found = []
    for key in sorted(requests):
        kind, namespace, name = key
        if key not in demand and kind != "DaemonSet":
            continue
        asked = requests[key]
        written: dict[str, Any] = {
            "name": name,
            "namespace": namespace,
            "kind": kind,
            "cpu": f"{ceil(asked['cpu'] * 1000 - 1e-6)}m" if asked.get("cpu") else 0,
            "memory": f"{ceil(asked['memory'] / 2**20)}Mi" if asked.get("memory") else 0,
            "cpu_use": used.get(key, CPU_USE),
        }
        if (namespace, name) in budgets and kind != "DaemonSet":
            written["pdb"] = {"max_unavailable": budgets[namespace, name]}
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


def _budgets(past: PastMetrics) -> dict[tuple[str, str], int]:
    """How many pods may be away, of budgets that are named after their workload."""
    healthy = {_budget(c): _number(c.values[-1][1]) for c in past.curves["desired_healthy"]}
    found = {}
    for curve in past.curves["expected_pods"]:
        expected, desired = _number(curve.values[-1][1]), healthy.get(_budget(curve))
        if expected is not None and desired is not None:
            found[_budget(curve)] = max(round(expected - desired), 0)
    return found


def _budget(curve: QueriedSeries) -> tuple[str, str]:
    name = curve.metric.get("poddisruptionbudget", "")
    return curve.metric.get("namespace", ""), name.removesuffix("-pdb")


def _fallbacks(past: PastMetrics, workloads: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What is not exported, and what is taken instead."""
    placed = [one for one in workloads if one["kind"] != "DaemonSet"]
    budgets = {_budget(curve) for curve in past.curves["expected_pods"]}
    matched = sum((one["namespace"], one["name"]) in budgets for one in placed)
    measured = len({key for key in _used(past) if key[0] != "DaemonSet"})
    if measured < len(placed):
        past.notes.append(
            f"CPU used is known for {measured} of {len(placed)} workloads: the others are taken to use half "
            "of what they request"
        )
    past.notes.append(
        "kube-state-metrics does not export selectors, tolerations and spreading: pods are taken to run on "
        "any node"
    )
    found = {"CPU used": _share(measured, len(placed)), "selectors": 0.0}
    return found | ({"budgets": _share(matched, len(budgets))} if budgets else {})


def _share_of_pods(past: PastMetrics) -> float:
    """Of those that are not tied to a node: jobs and bare pods have no workload here."""
    kept, pods = (_sum(past.curves[name]) for name in ("kept", "pods"))
    return _share(kept, pods)


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


def _name(key: Key) -> str:
    return f"{key[1]}/{key[2]}"


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
