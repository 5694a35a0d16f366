"""Scaling workloads to zero and back on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.workloads import Kind, Target, Workloads
from ebbtide.errors import NotOurs
from tests.integration.kube.objects import Json, node, template, workload
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube

RIGHTS = RBAC.with_name("workload-scaling.yaml")
APPS = "/apis/apps/v1/namespaces/default/"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
WEB, DB = Target(Kind.DEPLOYMENT, "default", "web"), Target(Kind.STATEFUL_SET, "default", "db")


@pytest.fixture
def workloads(kube: SharedKube) -> Iterator[Workloads]:
    """With the rights of the service account and those for scaling workloads, and no others."""
    assert not kube.server.kubectl("apply", "-f", str(RIGHTS)).returncode
    question = "list horizontalpodautoscalers.autoscaling -n default"
    eventually(lambda: kube.server.can_i("ebbtide:ebbtide", question), 30, "the rights")
    connection = connect(kube.kubeconfig)
    yield Workloads(connection)
    connection.close()
    kube.server.kubectl("delete", "-f", str(RIGHTS))


def running(kube: SharedKube) -> int:
    return len(kube.api.items("/api/v1/namespaces/default/pods"))


def test_replicas_go_to_zero_and_come_back_as_they_were(kube: SharedKube, workloads: Workloads) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    kube.api.post(APPS + "deployments", workload("Deployment", "web", 3, template("web")))
    kube.api.post(APPS + "statefulsets", workload("StatefulSet", "db", 2, template("db")))
    eventually(lambda: running(kube) == 5, 30, "all pods")
    before = {target: workloads.scale(target, 0) for target in (WEB, DB)}
    assert before == {WEB: 3, DB: 2}
    assert workloads.scale(WEB, 0) == 0
    eventually(lambda: running(kube) == 0, 30, "no pod")
    for target, replicas in before.items():
        workloads.scale(target, replicas)
    eventually(lambda: running(kube) == 5, 30, "all pods again")


def test_a_workload_that_an_autoscaler_scales_is_left_to_it(kube: SharedKube, workloads: Workloads) -> None:
    kube.api.post(APPS + "deployments", workload("Deployment", "web", 3, template("web")))
    spec: Json = {
        "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    }
    kube.api.post(AUTOSCALERS, {"metadata": {"name": "busy"}, "spec": spec})
    try:
        with pytest.raises(NotOurs, match="HorizontalPodAutoscaler busy"):
            workloads.scale(WEB, 0)
    finally:
        kube.api.delete(f"{AUTOSCALERS}/busy")
    found = workloads.read(WEB)
    assert found is not None
    assert (found.replicas, found.autoscaler) == (3, "")


def test_a_workload_that_is_not_there_is_said_to_be_missing(kube: SharedKube, workloads: Workloads) -> None:
    assert workloads.read(WEB) is None
    with pytest.raises(NotOurs, match="there is no Deployment default/web"):
        workloads.scale(WEB, 1)
