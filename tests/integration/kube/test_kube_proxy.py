"""A real kube-proxy in a network namespace: the cluster IP of a Service leads to the gate while its policy
sleeps, and to the pods while it is awake.

Pods have addresses in that namespace, and one small server listens on all of them; the gate listens there on
the address of a gate pod, and reaches pods by theirs. Nothing but the kubelets is played.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.kube.gatehouse import (
    GATE_ADDRESS,
    MEASURED,
    Gatehouse,
    Network,
    gatehouse,
    service,
    web_gate,
)
from tests.integration.kube.objects import node, template, workload
from tests.servers.control_plane import VERSION, Unavailable
from tests.servers.having import leave_out
from tests.servers.kube_proxy import NODE_ADDRESS, Mode, kube_proxy, leads_to, route
from tests.servers.namespace import KernelRefuses, Namespace, namespace
from tests.servers.processes import eventually
from tests.servers.shared_kube import NOT_RUN, SharedKube

PORT = 18_080
BODY = os.urandom(3 * 2**20)
SERVICES = "/api/v1/namespaces/default/services"
AT_HOME = {"addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}]}


@dataclass
class Cluster:
    house: Gatehouse
    net: Namespace
    mode: Mode
    address: str
    """The cluster IP."""

    def connect(self) -> socket.socket:
        with self.net.inside():
            return socket.create_connection((self.address, PORT), 120)

    def ask(self, body: bytes = b"") -> tuple[str, str]:
        """The address of the pod that answered, and the digest of what it got."""
        with self.connect() as wire:
            return say(wire, body)

    def leads_to(self) -> set[str]:
        found = leads_to(self.net, self.mode)
        return {"gate" if each == GATE_ADDRESS else "pod" for each in found}

    def passed_on(self) -> float:
        """Connections that the gate had a part in, however they ended."""
        found = self.house.process.metrics.registry.collect()
        samples = [sample for family in found for sample in family.samples]
        return sum(each.value for each in samples if each.name == "ebbtide_gate_connections_total")


def say(wire: socket.socket, body: bytes) -> tuple[str, str]:
    wire.sendall(len(body).to_bytes(4, "big") + body)
    with wire.makefile("rb") as lines:
        pod, digest = lines.readline().decode().split()
    return pod, digest


@contextmanager
def pods(net: Namespace) -> Iterator[None]:
    """One server on all pod addresses: it says which of them was meant, and the digest of what it got."""
    with net.inside():
        listener = socket.create_server(("0.0.0.0", PORT))
    threading.Thread(target=_serve, args=(listener,), daemon=True).start()
    try:
        yield
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            wire, _ = listener.accept()
            threading.Thread(target=_answer, args=(wire,), daemon=True).start()


def _answer(wire: socket.socket) -> None:
    with suppress(OSError), wire, wire.makefile("rb") as said:
        while size := said.read(4):
            digest = hashlib.sha256(said.read(int.from_bytes(size, "big"))).hexdigest()
            wire.sendall(f"{wire.getsockname()[0]} {digest}\n".encode())


@pytest.fixture(params=list(Mode))
def cluster(
    request: pytest.FixtureRequest, kube: SharedKube, rights: None, gate_rights: Path
) -> Iterator[Cluster]:
    mode: Mode = request.param
    kube.api.post("/api/v1/nodes", node("w1", status=AT_HOME))
    deployment = workload("Deployment", "web", 1, template("web"))
    kube.api.post("/apis/apps/v1/namespaces/default/deployments", deployment)
    kube.api.post(SERVICES, service("web", {"http": PORT}))
    address: str = kube.api.get(f"{SERVICES}/web")["spec"]["clusterIP"]
    with ExitStack() as last:
        last.callback(kube.api.delete, f"{SERVICES}/web")
        try:
            net = last.enter_context(namespace())
            route(net)
            last.enter_context(kube_proxy(kube.server, net, "w1", mode))
        except KernelRefuses as why:
            NOT_RUN.add(f"a real kube-proxy: {why}")
            pytest.skip(f"not run: {why}")
        except Unavailable as why:
            NOT_RUN.add(f"a real kube-proxy: {why}")
            leave_out(f"a real kube-proxy: {why}")
        last.enter_context(pods(net))
        network = Network(GATE_ADDRESS, net.inside)
        gates = {"web": web_gate("web")}
        house = last.enter_context(gatehouse(kube, gate_rights, gates, {"http": PORT}, network))
        yield Cluster(house, net, mode, address)


def test_the_cluster_ip_leads_to_the_gate_while_asleep_and_to_the_pods_while_awake(cluster: Cluster) -> None:
    digest = hashlib.sha256(BODY).hexdigest()
    eventually(lambda: cluster.leads_to() == {"pod"}, 60, "the rules for a pod")
    assert cluster.ask(BODY)[1] == digest
    assert cluster.passed_on() == 0, "awake: the gate is not in the path"

    cluster.house.sleep()
    eventually(lambda: cluster.leads_to() == {"gate"}, 60, "the rules for the gate")
    with cluster.connect() as held:
        pod, found = say(held, BODY)
        assert found == digest, "sent while asleep, and it arrived whole"
        assert pod not in (GATE_ADDRESS, NODE_ADDRESS)
        eventually(lambda: cluster.passed_on() == 1, 60, "one connection through the gate")
        eventually(lambda: cluster.leads_to() == {"pod"}, 60, "the rules for a pod again")
        for _ in range(5):
            assert cluster.ask(BODY) == (pod, digest)
        assert cluster.passed_on() == 1, "awake again: new connections do not pass the gate"
        assert say(held, b"more") == (pod, hashlib.sha256(b"more").hexdigest()), "what was held continues"
    MEASURED.append(
        f"gate: real kube-proxy {VERSION} ({cluster.mode}, in a network namespace): the cluster IP led to "
        "the gate while asleep and to the pod while awake. Played: kubelets and what runs in a pod."
    )
