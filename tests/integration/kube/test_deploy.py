"""The chart and the plain manifests: the same rights, hardened pods, and no right too many on a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.errors import ConfigError
from tests.integration.kube.chart import render_chart
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

DEPLOY = Path(__file__).parents[3] / "deploy"
K3S = {"k3s": {"nodeNames": ["worker-1"]}}
API = {
    "api": {
        "enabled": True,
        "port": 8808,
        "existingSecret": "ebbtide-api",
        "hosts": "ebbtide.example.org",
        "webhookSecret": "",
        "service": {"type": "ClusterIP", "port": 80, "annotations": {"team": "platform"}},
    }
}
ALL = {**K3S, **API, "workloadScaling": True, "sleepPolicies": {"enabled": True, "annotations": True}}
GATE = {"gate": {"enabled": True, "namespaces": ["default"]}}
RELEASE = "chart"
ACCOUNT = f"{RELEASE}:ebbtide"
NEEDED = [
    *(f"{verb} nodes" for verb in ("get", "list", "watch", "patch", "delete")),
    "get pods -n shop",
    *(
        f"{verb} {kind} -A"
        for verb in ("list", "watch")
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
    *(f"patch {kind}.apps --subresource=scale -n shop" for kind in ("deployments", "statefulsets")),
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
    *(
        f"{verb} {kind}.apps --subresource=status -n shop"
        for verb in ("get", "patch", "update")
        for kind in ("deployments", "statefulsets")
    ),
    "get persistentvolumes",
    "get persistentvolumeclaims -n shop",
    "get poddisruptionbudgets.policy -n shop",
    "get nodes.metrics.k8s.io",
    "get horizontalpodautoscalers.autoscaling -n shop",
    "patch replicasets.apps --subresource=scale -n shop",
    "patch horizontalpodautoscalers.autoscaling -n shop",
    "impersonate users",
    "create clusterrolebindings.rbac.authorization.k8s.io",
]


def manifests() -> list[Any]:
    """All but those of the gate, which has a deployment of its own."""
    return read_manifests(lambda name: name != "gate.yaml")


def read_manifests(wanted: Callable[[str], bool] = lambda _: True) -> list[Any]:
    files = sorted(file for file in (DEPLOY / "manifests").glob("*.yaml") if wanted(file.name))
    return [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]


def gate_manifests() -> list[Any]:
    return read_manifests(lambda name: name == "gate.yaml")


def gate_chart() -> list[Any]:
    """What the chart has more with a gate than without one."""
    without = render_chart(ALL)
    return [document for document in render_chart({**ALL, **GATE}) if _id(document) not in map(_id, without)]


def _id(document: Any) -> tuple[str, str, str]:
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def of_kind(documents: list[Any], kind: str) -> Any:
    found = [document for document in documents if document["kind"] == kind]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("made", [render_chart, manifests], ids=["chart", "manifests"])
def test_pods_run_without_root_or_a_writable_disk_with_probes_two_of_them_under_a_budget(
    made: Callable[[], list[Any]],
) -> None:
    documents = made()
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


def listens(container: Any, secret: dict[str, str]) -> dict[str, str]:
    """The variables of the API, as the container sees them with this secret."""
    found = {}
    for variable in container["env"]:
        if variable["name"].startswith("API_"):
            key = variable.get("valueFrom", {}).get("secretKeyRef", {}).get("key", "")
            found[variable["name"]] = secret.get(key, "") if key else variable["value"]
    return found


TOKENS = f"- {{name: grafana, scope: read, sha256: {'a' * 64}}}\n"
BY_HAND = {"listen": "0.0.0.0:8808", "hosts": "ebbtide-api", "tokens": TOKENS}


@pytest.mark.parametrize(
    ("made", "secret"),
    [
        (lambda: render_chart(API), {"tokens": TOKENS}),
        (lambda: render_chart({"api": {**API["api"], "hosts": ""}}), {"tokens": TOKENS}),
        (manifests, BY_HAND),
    ],
    ids=["chart", "chart without an ingress", "manifests"],
)
def test_the_api_has_a_service_and_tokens_of_a_secret_and_does_not_start_without(
    made: Callable[[], list[Any]], secret: dict[str, str]
) -> None:
    documents = made()
    container = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    service = of_kind(documents, "Service")
    labels = of_kind(documents, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (port,) = service["spec"]["ports"]
    served = {one["name"]: one["containerPort"] for one in container["ports"]}
    read = parse_document(of_kind(documents, "ConfigMap")["data"]["ebbtide.yaml"], "ebbtide.yaml")
    api = build_config(read, listens(container, secret)).api
    assert api.listen == f"0.0.0.0:{served[port['targetPort']]}"
    assert [token.name for token in api.tokens] == ["grafana"]
    assert service["metadata"]["name"] in api.hosts
    with pytest.raises(ConfigError, match=r"api\.tokens is empty"):
        build_config(read, listens(container, {**secret, "tokens": ""}))


def test_without_being_asked_for_there_is_no_api() -> None:
    documents = render_chart()
    assert [d for d in documents if d["kind"] == "Service"] == []
    container = of_kind(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert listens(container, {}) == {}
    container = of_kind(manifests(), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    read = parse_document(of_kind(manifests(), "ConfigMap")["data"]["ebbtide.yaml"], "ebbtide.yaml")
    assert build_config(read, listens(container, {})).api.listen == "off"


def test_the_chart_knows_an_ingress_by_its_name_and_mounts_the_secrets_of_webhooks() -> None:
    documents = render_chart({"api": {**API["api"], "webhookSecret": "hooks"}})
    assert of_kind(documents, "Service")["metadata"]["annotations"] == {"team": "platform"}
    pod = of_kind(documents, "Deployment")["spec"]["template"]["spec"]
    variables = listens(pod["containers"][0], {})
    assert variables["API_HOSTS"].split(",")[-1] == "ebbtide.example.org"
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "webhooks")
    assert variables["API_WEBHOOK_SECRETS_FILE"] == f"{mount['mountPath']}/webhook-secrets"
    assert {"name": "webhooks", "secret": {"secretName": "hooks"}} in pod["volumes"]


def test_chart_and_manifests_give_the_same_rights() -> None:
    assert rights(render_chart({**ALL, **GATE})) == rights(read_manifests())


@pytest.mark.parametrize("made", [gate_chart, gate_manifests], ids=["chart", "manifests"])
def test_a_gate_has_pods_as_hardened_as_the_others_and_a_service_that_says_which_are_ready(
    made: Callable[[], list[Any]],
) -> None:
    documents = made()
    deployment = of_kind(documents, "Deployment")["spec"]
    assert deployment["replicas"] == 2
    pod = deployment["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["serviceAccountName"] == of_kind(documents, "ServiceAccount")["metadata"]["name"]
    container = pod["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["args"][0] == "gate"
    labels = deployment["template"]["metadata"]["labels"]
    for selector in (
        of_kind(documents, "Service")["spec"]["selector"],
        of_kind(documents, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert labels["app.kubernetes.io/name"] == "ebbtide-gate", "a Service of the API must not select gates"


def test_the_chart_tells_autoscaler_and_gates_the_same_about_the_gate() -> None:
    deployments = [each for each in render_chart({**ALL, **GATE}) if each["kind"] == "Deployment"]
    told = [
        {
            one["name"]: one["value"]
            for one in each["spec"]["template"]["spec"]["containers"][0]["env"]
            if "GATE" in one["name"]
        }
        for each in deployments
    ]
    assert told == [{"GATE_SERVICE": "ebbtide/ebbtide-gate", "GATE_NAMESPACES": "default"}] * 2
    read = parse_document("", "ebbtide.yaml")
    keys = build_config(read, told[0]).gate
    assert (keys.service, keys.namespaces) == ("ebbtide/ebbtide-gate", ("default",))


def rights(documents: list[Any]) -> dict[str, Any]:
    return {d["metadata"]["name"]: d["rules"] for d in documents if d["kind"] in ("ClusterRole", "Role")}


def test_without_named_k3s_nodes_and_scaling_there_is_no_right_on_any_secret_or_workload() -> None:
    assert list(rights(render_chart())) == ["ebbtide"]


def test_a_real_server_takes_the_manifests_and_grants_what_is_needed_and_nothing_else(
    kube: SharedKube, tmp_path: Path
) -> None:
    kubectl, rendered = kube.server.kubectl, tmp_path / "chart.yaml"
    chart = render_chart(ALL, RELEASE)
    assert not kubectl("create", "namespace", RELEASE).returncode
    rendered.write_text(yaml.safe_dump_all(chart))
    for source in (str(DEPLOY / "manifests"), str(rendered)):
        dry = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", source)
        assert dry.returncode == 0, dry.stderr
    others = ("Deployment", "PodDisruptionBudget", "ConfigMap", "Service", "Job")
    roles = [d for d in chart if d["kind"] not in others]
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
