"""Evictions and deletions that go their own ways on a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.errors import BudgetExhausted, Final, NotOurs, Retryable
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Uncordon
from ebbtide.model.pod import Pod
from tests.integration.kube.objects import Json, bare_pod, budget, node
from tests.servers.kubelets import running_status
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NAMESPACES = "/api/v1/namespaces"
SECRETS = "/api/v1/namespaces/kube-system/secrets"


@pytest.fixture
def cluster(kube: SharedKube) -> Iterator[KubeCluster]:
    kube.api.post("/api/v1/nodes", node("w1"))
    found = KubeCluster(connect(kube.kubeconfig))
    yield found
    found.close()


def started(kube: SharedKube, name: str, **spec: object) -> Pod:
    kube.api.post(PODS, bare_pod(name, nodeName="w1", **spec))
    kube.api.patch(f"{PODS}/{name}/status", {"status": running_status()})
    found = KubeCluster(connect(kube.kubeconfig)).read_pods_on("w1")
    return next(pod for pod in found if pod.name == name)


def evict(pod: Pod) -> Evict:
    return Evict(pod.namespace, pod.name, pod.uid, pod.node_name, pod.grace_seconds)


def our_events(kube: SharedKube, name: str) -> set[str]:
    ours = [e for e in kube.api.items("/api/v1/events") if e["source"].get("component") == "ebbtide"]
    return {event["reason"] for event in ours if event["involvedObject"]["name"] == name}


def test_a_pod_under_two_budgets_is_refused_permanently_and_an_event_says_so(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    kube.api.post(BUDGETS, budget("web", "one"))
    kube.api.post(BUDGETS, budget("web", "two"))
    pod = started(kube, "web")
    with pytest.raises(Final, match="let only one select it"):
        cluster.evict(evict(pod))
    assert our_events(kube, "web") == {"EvictionRefused"}
    assert not cluster.read_pods_on("w1")[0].terminating


def test_a_budget_that_never_allows_any_says_not_now_with_its_name(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    kube.api.post(BUDGETS, budget("web", maxUnavailable=0))
    pod = started(kube, "web")
    with pytest.raises(BudgetExhausted, match="web"):
        cluster.evict(evict(pod))
    assert our_events(kube, "web") == {"EvictionDelayed"}


def test_a_pod_leaves_with_its_own_grace(kube: SharedKube, cluster: KubeCluster) -> None:
    kube.kubelets.stopped.add("w1")
    pod = started(kube, "slow", terminationGracePeriodSeconds=77)
    cluster.evict(evict(pod))
    seen: Json = kube.api.get(f"{PODS}/slow")
    assert seen["metadata"]["deletionGracePeriodSeconds"] == 77
    assert cluster.read_pods_on("w1")[0].terminating


def test_in_a_namespace_that_is_ending_an_eviction_is_worth_repeating(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    kube.kubelets.stopped.add("w1")
    kube.api.post(NAMESPACES, {"metadata": {"name": "ending"}})
    held = bare_pod("held", nodeName="w1")
    held["metadata"]["finalizers"] = ["ebbtide.test/hold"]
    kube.api.post(f"{NAMESPACES}/ending/pods", held)
    pod = cluster.read_pods_on("w1")[0]
    try:
        kube.api.delete(f"{NAMESPACES}/ending")
        eventually(lambda: cluster.read_pods_on("w1")[0].terminating, 30, "the pod ending")
        with pytest.raises(Retryable, match="being terminated"):
            cluster.evict(evict(pod))
    finally:
        kube.api.patch(f"{NAMESPACES}/ending/pods/held", {"metadata": {"finalizers": None}})
        kube.api.delete(f"{NAMESPACES}/ending/pods/held", now=True)
    cluster.evict(evict(pod))


def test_the_password_that_k3s_keeps_goes_with_the_node_where_we_may_and_stays_where_not(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    name = "w1.node-password.k3s"
    kube.api.delete(f"{SECRETS}/{name}")
    kube.api.post(SECRETS, {"metadata": {"name": name}, "data": {}})
    uid = cluster.read().nodes[0].uid
    cluster.delete_node(DeleteNode("w1", uid))
    assert not cluster.read().nodes
    assert kube.api.get(f"{SECRETS}/{name}")
    allowed = KubeCluster(connect(kube.server.kubeconfig()))
    allowed.delete_node(DeleteNode("w1", uid))
    allowed.close()
    assert name not in {item["metadata"]["name"] for item in kube.api.items(SECRETS)}


def test_a_node_made_again_under_the_same_name_keeps_nothing_of_the_old_ones_fences(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    old = cluster.read().nodes[0].uid
    cluster.cordon(Cordon("w1", old, "op-1"), 9)
    cluster.delete_node(DeleteNode("w1", old))
    kube.api.post("/api/v1/nodes", node("w1"))
    new = cluster.read().nodes[0].uid
    with pytest.raises(NotOurs):
        cluster.uncordon(Uncordon("w1", old, "op-1"), 9)
    with pytest.raises(NotOurs):
        cluster.cordon(Cordon("w1", old, "op-1"), 9)
    cluster.delete_node(DeleteNode("w1", old))
    cluster.cordon(Cordon("w1", new, "op-2"), 1)
    assert cluster.read().nodes[0].unschedulable


def test_the_fences_of_many_operations_stay_few_and_a_mangled_one_is_not_overwritten(
    kube: SharedKube, cluster: KubeCluster
) -> None:
    uid = cluster.read().nodes[0].uid
    for number in range(12):
        cluster.cordon(Cordon("w1", uid, f"op-{number}"), 5)
        cluster.uncordon(Uncordon("w1", uid, f"op-{number}"), 5)
    annotations = kube.api.get("/api/v1/nodes/w1")["metadata"]["annotations"]
    assert annotations["ebbtide.dev/fences"].count("op-") == 8
    with pytest.raises(NotOurs):
        cluster.cordon(Cordon("w1", uid, "op-11"), 4)
    kube.api.patch("/api/v1/nodes/w1", {"metadata": {"annotations": {"ebbtide.dev/fences": "mine"}}})
    with pytest.raises(NotOurs, match="remove it"):
        cluster.cordon(Cordon("w1", uid, "op-12"), 5)
