"""Kubernetes objects as JSON, with overrides: what a test writes into an API server or a dump."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
READY = [{"type": "Ready", "status": "True"}]


def node(name: str, zone: str = "a", pool: str = "general", **overrides: Any) -> Json:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/instance-type": "cpx32",
        **({"ebbtide.dev/pool": pool} if pool else {}),
        **overrides.get("labels", {}),
    }
    offer = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, **overrides.get("metadata", {})},
        "spec": {"providerID": f"test://i-{name}", **overrides.get("spec", {})},
        "status": {
            "allocatable": offer,
            "capacity": offer,
            "conditions": READY,
            **overrides.get("status", {}),
        },
    }


def template(app: str, cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def bare_pod(name: str, **spec: Any) -> Json:
    made = template(name, **spec)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **made["metadata"]},
        "spec": made["spec"],
    }


def seen_pod(name: str, node_name: str = "a1", **overrides: Any) -> Json:
    """A pod as an API server shows it: placed, running, owned by a ReplicaSet."""
    made = template(overrides.pop("app", "web"))
    owner = {"kind": "ReplicaSet", "controller": True, "name": "web", "uid": "rs", "apiVersion": "apps/v1"}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": [owner]}
    return {
        "kind": "Pod",
        "metadata": {**metadata, **made["metadata"], **overrides.get("metadata", {})},
        "spec": {**made["spec"], "nodeName": node_name, **overrides.get("spec", {})},
        "status": {"phase": "Running", "conditions": READY, **overrides.get("status", {})},
    }


def workload(kind: str, name: str, replicas: int | None, pod: Json) -> Json:
    """A Deployment, StatefulSet or DaemonSet."""
    spec: Json = {"selector": {"matchLabels": pod["metadata"]["labels"]}, "template": pod}
    if replicas is not None:
        spec["replicas"] = replicas
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def budget(app: str, name: str = "", **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name or app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **(spec or {"maxUnavailable": 1})},
    }
