"""Two clusters for the same day: the simulator's, and a real API server with a real Prometheus.

What a node's kubelet would write at its join is written by the test, and so is the load.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Protocol

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.prometheus import PrometheusMetrics, PrometheusSource
from ebbtide.model.snapshot import Instance, Node
from ebbtide.ports import Cluster, Metrics
from ebbtide.simulator.world.ports import SimCluster
from tests.integration.kube import objects
from tests.servers.control_plane import Unavailable
from tests.servers.having import leave_out
from tests.servers.kube import kube_server
from tests.servers.processes import eventually
from tests.servers.prometheus import exporters, prometheus_server
from tests.servers.shared_kube import NOT_RUN
from tests.servers.stage import Stage

QUERY = "avg(cluster_cpu_use)"


class Ground(Protocol):
    def cluster(self) -> Cluster: ...

    def metrics(self) -> Metrics: ...

    def nodes(self) -> list[Node]: ...

    def join(self, instance: Instance) -> None: ...

    def use(self, cpu: float) -> None: ...

    def close(self) -> None: ...


class SimulatedGround:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def cluster(self) -> Cluster:
        return SimCluster(self._stage.world, self._stage.clock)

    def metrics(self) -> Metrics:
        return self._stage.metrics

    def nodes(self) -> list[Node]:
        return list(self._stage.world.view().nodes)

    def join(self, instance: Instance) -> None:
        self._stage.join(instance)

    def use(self, cpu: float) -> None:
        self._stage.metrics.cpu = cpu

    def close(self) -> None:
        return


class RealGround:
    def __init__(self, stage: Stage) -> None:
        self._stack = ExitStack()
        try:
            self._server = self._stack.enter_context(kube_server(controllers=False))
            self._exporters = self._stack.enter_context(exporters())
            self._url = self._stack.enter_context(prometheus_server(self._exporters, ["load"]))
        except Unavailable as why:
            self._stack.close()
            NOT_RUN.add(f"a whole day on a real API server: {why}")
            leave_out(str(why))
        api = self._server.api
        server_role = {"node-role.kubernetes.io/control-plane": "true"}
        api.post("/api/v1/nodes", objects.node("server", pool="", labels=server_role))
        pod = objects.bare_pod("coredns", nodeName="server", automountServiceAccountToken=False)
        api.post("/api/v1/namespaces/kube-system/pods", pod)
        self.use(0.5)

    def cluster(self) -> KubeCluster:
        return KubeCluster(connect(self._server.kubeconfig()))

    def metrics(self) -> PrometheusMetrics:
        return PrometheusMetrics(PrometheusSource(self._url, QUERY))

    def nodes(self) -> list[Node]:
        cluster = self.cluster()
        try:
            return list(cluster.read().nodes)
        finally:
            cluster.close()

    def join(self, instance: Instance) -> None:
        spec = {"providerID": instance.provider_id}
        made = objects.node(f"node-{instance.id}", instance.zone, instance.pool, spec=spec)
        self._server.api.post("/api/v1/nodes", made)

    def use(self, cpu: float) -> None:
        """Returns once Prometheus has scraped it."""
        self._exporters.pages["load"] = lambda: (200, f"cluster_cpu_use {cpu}\n")
        metrics = self.metrics()
        eventually(lambda: metrics.read_cpu(["any"]).value == cpu, 30, "the load in Prometheus")
        metrics.close()

    def close(self) -> None:
        self._stack.close()
