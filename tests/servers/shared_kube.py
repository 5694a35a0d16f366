"""One control plane for a whole test run, started when it is first asked for and ended with the process.

Tests that share it begin with `clear`: nothing that an earlier one left is there any more.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.servers.control_plane import Unavailable
from tests.servers.having import leave_out
from tests.servers.kube import KubeServer, kube_server
from tests.servers.kube_api import Api
from tests.servers.kubelets import Kubelets, kubelets
from tests.servers.processes import eventually

NOT_RUN: set[str] = set()
"""Why tests on a real control plane were not run; said in the last lines of the run."""

RBAC = Path(__file__).parents[2] / "deploy" / "manifests" / "rbac.yaml"
WORKLOADS = "/apis/apps/v1/namespaces/{}/"
EVERYTHING = (
    *(WORKLOADS + kind for kind in ("deployments", "replicasets", "statefulsets", "daemonsets")),
    "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "/api/v1/namespaces/{}/persistentvolumeclaims",
    "/api/v1/namespaces/{}/events",
    "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
)


@dataclass(frozen=True)
class SharedKube:
    server: KubeServer
    kubelets: Kubelets
    kubeconfig: Path
    """Of the service account that deploy/manifests gives to Ebbtide, with no right beyond it."""

    @property
    def api(self) -> Api:
        return self.server.api

    def clear(self) -> None:
        self.kubelets.stopped.clear()
        for namespace in ("default", "kube-system"):
            for path in EVERYTHING:
                self.api.delete(path.format(namespace))
        self.api.delete("/api/v1/nodes")
        self.api.delete("/api/v1/persistentvolumes")
        eventually(self._is_empty, 60, "an empty cluster")
        self.kubelets.least_ready.clear()

    def _is_empty(self) -> bool:
        for namespace in ("default", "kube-system"):
            self.api.delete(f"/api/v1/namespaces/{namespace}/pods", now=True)
        owners = (
            WORKLOADS.format("default") + "replicasets",
            WORKLOADS.format("kube-system") + "replicasets",
        )
        return not any(self.api.items(path) for path in ("/api/v1/pods", "/api/v1/nodes", *owners))


@cache
def _start() -> SharedKube | str:
    stack = ExitStack()
    try:
        server = stack.enter_context(kube_server())
    except Unavailable as why:
        return f"a real control plane: {why}"
    found = stack.enter_context(kubelets(server.api))
    atexit.register(stack.close)
    return SharedKube(server, found, server.kubeconfig("ebbtide", token=token_of_ebbtide(server)))


def token_of_ebbtide(server: KubeServer) -> str:
    """The token of the service account that deploy/manifests gives to Ebbtide, once its rights are known."""
    applied = server.kubectl("apply", "-f", str(RBAC))
    made = server.kubectl("create", "token", "ebbtide", "--namespace=ebbtide", "--duration=24h")
    if applied.returncode or made.returncode:
        raise RuntimeError(applied.stderr + made.stderr)
    # The server learns of new roles a moment after it has stored them.
    eventually(lambda: server.can_i("ebbtide:ebbtide", "delete nodes"), 30, "the rights of ebbtide")
    return made.stdout.strip()


def shared_kube() -> SharedKube:
    """Leaves the test out, saying why, where no control plane can be had."""
    found = _start()
    if isinstance(found, str):
        NOT_RUN.add(found)
        leave_out(found)
    return found
