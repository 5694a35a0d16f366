"""The cluster contract on a real control plane: one worker, a web deployment of three, a budget of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.model.effect import DeleteNode
from tests.integration.kube.objects import budget, node, template, workload
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube, shared_kube

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
REPLICAS = 3


class PromptCluster(KubeCluster):
    """Pods of a deleted node go with it at once; a real cluster takes a minute for that."""

    kube: SharedKube

    def delete_node(self, effect: DeleteNode) -> None:
        super().delete_node(effect)
        self.kube.kubelets.look()
        gone = effect.node_name
        if not any(n.name == gone for n in self.read().nodes):
            eventually(lambda: gone not in self.read().pods_on, 10, "a node without pods")


class KubeLab:
    watching = False

    def __init__(self, folder: Path) -> None:
        self.kube = shared_kube()
        self.kube.clear()
        api = self.kube.api
        api.post("/api/v1/nodes", node("w1"))
        api.post(BUDGETS, budget("web"))
        api.post(DEPLOYMENTS, workload("Deployment", "web", REPLICAS, template("web")))
        self.cluster = PromptCluster(connect(self.kube.kubeconfig), self.watching)
        self.cluster.kube = self.kube
        self.settle()

    def settle(self) -> None:
        eventually(self._settled, 30, "a settled cluster")

    def _settled(self) -> bool:
        pods = self.kube.api.items("/api/v1/namespaces/default/pods")
        if len(pods) != REPLICAS or any("deletionTimestamp" in pod["metadata"] for pod in pods):
            return False
        bound = [pod for pod in pods if pod["spec"].get("nodeName")]
        if any(pod["status"]["phase"] != "Running" for pod in bound) or not self._tried(pods):
            return False
        status = self.kube.api.get(f"{BUDGETS}/web").get("status", {})
        if status.get("currentHealthy") != len(bound) or status.get("disruptedPods"):
            return False
        seen = {(pod.uid, pod.ready) for pod in self.cluster.read().pods}
        return seen == {(pod["metadata"]["uid"], pod in bound) for pod in pods}

    def _tried(self, pods: list[Any]) -> bool:
        """Whether the scheduler has given an answer for every pod."""
        return all(
            any(c["type"] == "PodScheduled" for c in pod["status"].get("conditions", ())) for pod in pods
        )

    def person_cordons(self, node_name: str) -> None:
        self.kube.api.patch(f"/api/v1/nodes/{node_name}", {"spec": {"unschedulable": True}})
        eventually(lambda: self.cluster.read().node_named[node_name].unschedulable, 10, "the cordon")

    def close(self) -> None:
        self.cluster.close()


class WatchedKubeLab(KubeLab):
    watching = True
