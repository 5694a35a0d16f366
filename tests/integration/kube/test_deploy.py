"""The chart and the plain manifests: the same rights, hardened pods, and no right too many on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.kube.chart import render_chart
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

DEPLOY = Path(__file__).parents[3] / "deploy"
CHART = DEPLOY / "helm" / "ebbtide"
K3S = {"k3s": {"nodeNames": ["worker-1"]}}
ALL = {**K3S, "workloadScaling": True}
RELEASE = "chart"
ACCOUNT = f"{RELEASE}:ebbtide"
NEEDED = [
    *(f"{verb} nodes" for verb in ("get", "list", "watch", "patch", "delete")),
    *(
        f"{verb} {kind} -A"
        for verb in ("get", "list", "watch")
        for kind in ("pods", "persistentvolumeclaims", "persistentvolumes", "poddisruptionbudgets.policy")
    ),
    "create pods --subresource=eviction -n shop",
    "create events -n shop",
    "create events -n default",
    "delete secrets/worker-1.node-password.k3s -n kube-system",
]
SCALING = [
    *(
        f"{verb} {kind}.apps -A"
        for verb in ("get", "list", "watch")
        for kind in ("deployments", "statefulsets")
    ),
    *(
        f"patch {kind}.apps --subresource={part} -n shop"
        for kind in ("deployments", "statefulsets")
        for part in ("scale", "status")
    ),
    *(f"{verb} horizontalpodautoscalers.autoscaling -A" for verb in ("list", "watch")),
]
FORBIDDEN = [
    "delete pods -n shop",
    "create pods -n shop",
    "create pods --subresource=exec -n shop",
    "get pods --subresource=log -n shop",
    "get secrets -n kube-system",
    "list secrets -A",
    "delete secrets -n kube-system",
    "delete secrets/something-else -n kube-system",
    "delete secrets/worker-1.node-password.k3s -n shop",
    "get secrets/worker-1.node-password.k3s -n kube-system",
    "update nodes",
    "create nodes",
    "patch nodes --subresource=status",
    "deletecollection nodes",
    "delete poddisruptionbudgets.policy -n shop",
    *(
        f"{verb} {kind}.apps -n shop"
        for verb in ("patch", "update", "create", "delete")
        for kind in ("deployments", "statefulsets")
    ),
    "update deployments.apps --subresource=scale -n shop",
    "patch replicasets.apps --subresource=scale -n shop",
    "patch horizontalpodautoscalers.autoscaling -n shop",
    "impersonate users",
    "create clusterrolebindings.rbac.authorization.k8s.io",
]


def manifests() -> list[Any]:
    files = sorted((DEPLOY / "manifests").glob("*.yaml"))
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def of_kind(documents: list[Any], kind: str) -> Any:
    found = [document for document in documents if document["kind"] == kind]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("documents", [render_chart(CHART), manifests()], ids=["chart", "manifests"])
def test_pods_run_without_root_or_a_writable_disk_with_probes_two_of_them_under_a_budget(
    documents: list[Any],
) -> None:
    deployment = of_kind(documents, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["serviceAccountName"] == "ebbtide"
    container = pod["containers"][0]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: probe["path"] for name, probe in asked.items()} == {
        "startup": "/healthz",
        "readiness": "/readyz",
        "liveness": "/healthz",
    }
    assert {probe["port"] for probe in asked.values()} == {container["ports"][0]["name"]}
    port = container["ports"][0]["containerPort"]
    assert {"name": "METRICS_ADDR", "value": f"0.0.0.0:{port}"} in container["env"]
    scraped = deployment["template"]["metadata"]["annotations"]
    assert (scraped["prometheus.io/scrape"], scraped["prometheus.io/port"]) == ("true", str(port))
    assert container["resources"]["limits"]["memory"]
    budget = of_kind(documents, "PodDisruptionBudget")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_chart_and_manifests_give_the_same_rights() -> None:
    assert rights(render_chart(CHART, ALL)) == rights(manifests())


def rights(documents: list[Any]) -> dict[str, Any]:
    return {d["metadata"]["name"]: d["rules"] for d in documents if d["kind"] in ("ClusterRole", "Role")}


def test_without_named_k3s_nodes_and_scaling_there_is_no_right_on_any_secret_or_workload() -> None:
    assert list(rights(render_chart(CHART))) == ["ebbtide"]


def test_a_real_server_takes_the_manifests_and_grants_what_is_needed_and_nothing_else(
    kube: SharedKube, tmp_path: Path
) -> None:
    kubectl, rendered = kube.server.kubectl, tmp_path / "chart.yaml"
    chart = render_chart(CHART, ALL, RELEASE)
    assert not kubectl("create", "namespace", RELEASE).returncode
    rendered.write_text(yaml.safe_dump_all(chart))
    for source in (str(DEPLOY / "manifests"), str(rendered)):
        dry = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", source)
        assert dry.returncode == 0, dry.stderr
    roles = [d for d in chart if d["kind"] not in ("Deployment", "PodDisruptionBudget", "ConfigMap")]
    rendered.write_text(yaml.safe_dump_all(roles))
    applied = kubectl("apply", "-f", str(rendered))
    assert applied.returncode == 0, applied.stderr
    try:
        eventually(lambda: kube.server.can_i(ACCOUNT, NEEDED[-1]), 30, "the rights of the chart")
        needed = [*NEEDED, *SCALING]
        assert [question for question in needed if not kube.server.can_i(ACCOUNT, question)] == []
        assert may_list_node_metrics(kube)
        assert [question for question in FORBIDDEN if kube.server.can_i(ACCOUNT, question)] == []
        workloads = [d for d in roles if d["metadata"]["name"].endswith("-workloads")]
        rendered.with_name("workloads.yaml").write_text(yaml.safe_dump_all(workloads))
        assert not kubectl("delete", "-f", str(rendered.with_name("workloads.yaml"))).returncode
        eventually(lambda: not kube.server.can_i(ACCOUNT, SCALING[0]), 30, "no right on workloads")
        assert [question for question in SCALING if kube.server.can_i(ACCOUNT, question)] == []
    finally:
        kubectl("delete", "--ignore-not-found", "-f", str(rendered))
        kubectl("delete", "namespace", RELEASE, "--wait=false")


def may_list_node_metrics(kube: SharedKube) -> bool:
    """Asked of the server itself: kubectl only knows groups that are installed."""
    asked = {"verb": "list", "group": "metrics.k8s.io", "resource": "nodes"}
    review = {"spec": {"user": f"system:serviceaccount:{ACCOUNT}", "resourceAttributes": asked}}
    answer = kube.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
