"""The chart with real Helm: what it refuses, and one life on an API server from install to uninstall."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.chart_reference import chart_page
from tests.e2e.shell import Shell
from tests.integration.kube.chart import CHART, EXAMPLE, helm, render_chart
from tests.servers.shared_kube import SharedKube

BEFORE = Path(__file__).parents[2] / "upgrade" / "chart"
RELEASE = "tide"
KINDS = "deploy,rs,job,cm,secret,sa,role,rolebinding,pdb,svc,pods"
OF_CLUSTER = "clusterrole,clusterrolebinding,role,rolebinding"


def test_helm_finds_nothing_to_complain_about() -> None:
    told = helm("lint", "--strict", str(CHART), "--values", str(EXAMPLE))
    assert told.returncode == 0, told.stdout
    assert "0 chart(s) failed" in told.stdout


def test_the_readme_is_made_from_the_values_and_the_schema_knows_each_of_them() -> None:
    assert (CHART / "README.md").read_text() == chart_page()
    schema = json.loads((CHART / "values.schema.json").read_text())

    def keys(node: Any) -> Any:
        return {name: keys(one) for name, one in node.get("properties", {}).items() if name != "global"}

    def known(values: Any, shape: Any) -> None:
        for name, inner in shape.items():
            assert name in values
            known(values[name], inner)
        assert not shape or set(values) == set(shape)

    known(yaml.safe_load((CHART / "values.yaml").read_text()), keys(schema))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"replica": 3}, "replica"),
        ({"image": {"repo": "x"}}, "repo"),
        ({"replicas": "two"}, "want integer"),
        ({"api": {"service": {"type": "Cluster"}}}, "ClusterIP"),
        ({"metrics": {"port": 80}}, "/metrics/port"),
        ({"image": {"repository": ""}}, "image.repository is not set, and no image is published"),
        ({"config": None}, "config is empty: put the keys of ebbtide.yaml under config"),
        ({"config": {"cluster": {"kind": "simulator"}}}, "such a release would only simulate"),
        ({"config": {"cluster": {"name": ""}}}, "config.cluster.name is not set"),
        ({"config": {"hetzner": {"image": "fill-me-in"}}}, "config still has the value fill-me-in"),
        ({"podMonitor": {"enabled": True}}, "install the Prometheus Operator first"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_values_are_refused_with_a_sentence(values: dict[str, Any], says: str) -> None:
    told = helm(
        *("template", RELEASE, str(CHART), "--values", str(EXAMPLE), "--values", "-"),
        stdin=yaml.safe_dump(values),
    )
    assert told.returncode != 0
    assert says in told.stderr, told.stderr


def test_with_its_defaults_alone_nothing_is_rendered() -> None:
    told = helm("template", RELEASE, str(CHART))
    assert told.returncode != 0
    assert "Nothing was installed." in told.stderr
    assert told.stdout == ""


def test_what_is_asked_for_is_in_the_pods() -> None:
    values = {
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
        "podLabels": {"team": "platform"},
        "podAnnotations": {"note": "kept"},
        "podDisruptionBudget": {"enabled": False},
        "jobs": {"serviceAccountName": "tables"},
    }
    documents = render_chart(values)
    kinds = [one["kind"] for one in documents]
    assert "PodDisruptionBudget" not in kinds
    for one in documents:
        if one["kind"] in ("Deployment", "Job"):
            spec = one["spec"]["template"]["spec"]
            assert spec["imagePullSecrets"] == [{"name": "registry"}]
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
        if one["kind"] == "Job":
            assert one["spec"]["template"]["spec"]["serviceAccountName"] == "tables"
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    assert template["spec"]["priorityClassName"] == "system-cluster-critical"
    assert template["metadata"]["labels"]["team"] == "platform"
    assert template["metadata"]["annotations"]["note"] == "kept"


def test_a_pod_monitor_selects_the_pods_where_there_is_the_operator() -> None:
    told = helm(
        *("template", RELEASE, str(CHART), "--values", str(EXAMPLE)),
        *("--set", "podMonitor.enabled=true,podMonitor.labels.release=prom"),
        *("--api-versions", "monitoring.coreos.com/v1"),
    )
    found = {one["kind"]: one for one in yaml.safe_load_all(told.stdout) if one}
    monitor, deployment = found["PodMonitor"], found["Deployment"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["labels"]["release"] == "prom"
    ports = [port["name"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]]
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] in ports


def test_what_the_jobs_run_makes_the_tables_and_pauses_the_cluster_of_the_configuration(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    store = {"STORE_URL": "sqlite:///record.db"}
    for job in (one for one in render_chart() if one["kind"] == "Job"):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
        shell.run(*container["args"], environ={**store, **given})
    name = {"CLUSTER_NAME": yaml.safe_load(EXAMPLE.read_text())["config"]["cluster"]["name"]}
    told = shell.run("status", environ={**store, **name}).out
    assert "just installed" in told, told
    assert "just installed" not in shell.run("status", environ={**store, "CLUSTER_NAME": "other"}).out


@contextmanager
def jobs_that_succeed(kube: SharedKube, seen: list[tuple[str, bool]]) -> Iterator[None]:
    """In the place of kubelets: each job ends well. Noted is whether the Deployment was there by then."""
    stop = threading.Event()
    path = f"/apis/batch/v1/namespaces/{RELEASE}/jobs"

    def play() -> None:
        while not stop.wait(0.1):
            for job in kube.api.get(path)["items"]:
                if job.get("status", {}).get("succeeded"):
                    continue
                deployments = kube.api.get(f"/apis/apps/v1/namespaces/{RELEASE}/deployments")["items"]
                name = job["metadata"]["name"]
                seen.append((name, bool(deployments)))
                now = job["metadata"]["creationTimestamp"]
                kinds = ("SuccessCriteriaMet", "Complete")
                status = {
                    "startTime": now,
                    "completionTime": now,
                    "succeeded": 1,
                    "conditions": [
                        {"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds
                    ],
                }
                told = kube.server.kubectl(
                    *("-n", RELEASE, "patch", "job", name, "--subresource=status", "--type=merge"),
                    *("-p", json.dumps({"status": status})),
                )
                assert told.returncode == 0, told.stderr

    player = threading.Thread(target=play)
    player.start()
    try:
        yield
    finally:
        stop.set()
        player.join()


def left(kube: SharedKube) -> set[str]:
    mine = kube.server.kubectl("get", KINDS, "-n", RELEASE, "-o", "name").stdout.split()
    others = kube.server.kubectl("get", OF_CLUSTER, "-A", "-o", "name").stdout.split()
    return {*mine, *(name for name in others if f"/{RELEASE}" in name)}


def test_installed_paused_upgraded_from_the_chart_before_and_uninstalled_without_a_trace(
    kube: SharedKube, tmp_path: Path
) -> None:
    assert not kube.server.kubectl("create", "namespace", RELEASE).returncode
    to = ("--namespace", RELEASE, "--kubeconfig", str(kube.server.kubeconfig()), "--timeout", "60s")
    whole = ("--values", str(EXAMPLE), "--set", "api.enabled=true,workloadScaling=true,k3s.nodeNames={w-1}")
    seen: list[tuple[str, bool]] = []
    try:
        empty = left(kube)
        with jobs_that_succeed(kube, seen):
            told = helm("install", RELEASE, str(CHART), *to, *whole, home=tmp_path)
            assert told.returncode == 0, told.stderr
            assert "Removals are PAUSED" in told.stdout
            assert seen == [(f"{RELEASE}-db-upgrade", False), (f"{RELEASE}-pause", False)]
            assert left(kube) > empty
            told = helm("upgrade", RELEASE, str(CHART), *to, *whole, "--set", "replicas=3", home=tmp_path)
            assert told.returncode == 0, told.stderr
            assert "PAUSED" not in told.stdout
            assert seen[2:] == [(f"{RELEASE}-db-upgrade", True)]
            told = helm("uninstall", RELEASE, *to, "--wait", home=tmp_path)
            assert told.returncode == 0, told.stderr
            assert left(kube) == empty
            told = helm("install", RELEASE, str(BEFORE), *to, home=tmp_path)
            assert told.returncode == 0, told.stderr
            told = helm("upgrade", RELEASE, str(CHART), *to, *whole, home=tmp_path)
            assert told.returncode == 0, told.stderr
            assert seen[3:] == [(f"{RELEASE}-db-upgrade", True)]
            told = helm("uninstall", RELEASE, *to, "--wait", home=tmp_path)
            assert told.returncode == 0, told.stderr
            assert left(kube) == empty
    finally:
        helm("uninstall", RELEASE, *to, home=tmp_path)
        kube.server.kubectl("delete", "namespace", RELEASE, "--wait=false")
