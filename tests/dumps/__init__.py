"""Three clusters as kubectl prints them: K3s on Hetzner, EKS with two node groups, kubeadm on EC2.

Written here and not kept as files: what matters in each is seen at a glance.
"""

from __future__ import annotations

import json
from typing import Any

VERSIONS = {"k3s": "v1.34.1+k3s1", "eks": "v1.33.5-eks-113cf36", "kubeadm": "v1.34.1"}


def node(
    name: str,
    version: str,
    labels: dict[str, str] | None = None,
    provider: str = "",
    address: str = "10.0.0.9",
    *,
    taints: list[dict[str, str]] | None = None,
    cpu: str = "3920m",
    memory: str = "7548368Ki",
) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory, "pods": "58", "ephemeral-storage": "18Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-10-01T08:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
        },
        "spec": {"providerID": provider, "taints": taints or []},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": version, "osImage": "Linux", "architecture": "amd64"},
        },
    }


def pod(name: str, on: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": on,
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def place(kind: str, zone: str, region: str) -> dict[str, str]:
    return {
        "node.kubernetes.io/instance-type": kind,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": region,
    }


def as_dump(items: list[dict[str, Any]]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def k3s() -> bytes:
    """On Hetzner with its cloud controller: one server, three agents of two types."""
    version = VERSIONS["k3s"]
    server = {"node-role.kubernetes.io/control-plane": "true", **place("cpx22", "fsn1-dc14", "fsn1")}
    agents = [
        ("agent-1", "cpx32", "fsn1-dc14"),
        ("agent-2", "cpx32", "nbg1-dc3"),
        ("agent-3", "cpx42", "fsn1-dc14"),
    ]
    return as_dump(
        [
            node("server-1", version, server, "hcloud://100", "10.0.0.2"),
            *(
                node(
                    name,
                    version,
                    place(kind, zone, zone[:4]),
                    f"hcloud://{101 + number}",
                    f"10.0.0.{3 + number}",
                )
                for number, (name, kind, zone) in enumerate(agents)
            ),
            pod("web-1", "agent-1"),
        ]
    )


def eks() -> bytes:
    """Two managed node groups: on-demand, and spot with a taint and a label of the user's own."""
    version, region = VERSIONS["eks"], "eu-central-1"
    general = {
        "eks.amazonaws.com/nodegroup": "general",
        "eks.amazonaws.com/nodegroup-image": "ami-0123456789abcdef0",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "eks.amazonaws.com/sourceLaunchTemplateId": "lt-0123456789abcdef0",
        "eks.amazonaws.com/sourceLaunchTemplateVersion": "4",
        "alpha.eksctl.io/cluster-name": "shop",
    }
    batch = {
        **general,
        "eks.amazonaws.com/nodegroup": "batch",
        "eks.amazonaws.com/capacityType": "SPOT",
        "team": "data",
    }
    taint = [{"key": "workload", "value": "batch", "effect": "NoSchedule"}]
    none: list[dict[str, str]] = []
    found = [
        ("ip-10-0-1-1", "m7i.large", "a", general, none),
        ("ip-10-0-2-1", "m7i.large", "b", general, none),
        ("ip-10-0-1-2", "c7g.xlarge", "a", batch, taint),
        ("ip-10-0-2-2", "x9z.huge", "b", batch, taint),
    ]
    return as_dump(
        [
            node(
                f"{name}.{region}.compute.internal",
                version,
                {**labels, **place(kind, f"{region}{zone}", region)},
                f"aws:///{region}{zone}/i-0{number:016d}",
                f"10.0.{number}.1",
                taints=taints,
            )
            for number, (name, kind, zone, labels, taints) in enumerate(found)
        ]
        + [pod("web-1", f"ip-10-0-1-1.{region}.compute.internal")]
    )


def kubeadm() -> bytes:
    """On EC2 with its cloud controller; two workers, one of them cordoned for the moment."""
    version, region = VERSIONS["kubeadm"], "eu-west-1"
    control = {"node-role.kubernetes.io/control-plane": "", **place("t3.medium", f"{region}a", region)}
    passing = [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    return as_dump(
        [
            node("cp-1", version, control, f"aws:///{region}a/i-1", "172.16.0.2"),
            node("worker-1", version, place("m7i.xlarge", f"{region}a", region), f"aws:///{region}a/i-2"),
            node(
                "worker-2",
                version,
                place("m7i.xlarge", f"{region}b", region),
                f"aws:///{region}b/i-3",
                taints=passing,
            ),
            pod("web-1", "worker-1"),
        ]
    )


DUMPS = {"k3s": k3s, "eks": eks, "kubeadm": kubeadm}
