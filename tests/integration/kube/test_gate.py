"""Wake on request on a real control plane: sent while asleep, each protocol arrives whole."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebbtide.model.idle import Phase
from tests.integration.kube.backend import NAMES, Backend, backend
from tests.integration.kube.gatehouse import (
    GATE_ADDRESS,
    MEASURED,
    SLICES,
    Gatehouse,
    gatehouse,
    members,
    service,
    web_gate,
)
from tests.integration.kube.objects import node, template, workload
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC, SharedKube, shared_kube

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
MANIFEST = RBAC.with_name("gate.yaml")
BODY = os.urandom(3 * 2**20)
DIGEST = hashlib.sha256(BODY).hexdigest()
PLAYED = (
    "gate: real: API server, etcd, deployment, replica set and endpoint slice controllers, scheduler, gate "
    "and backend, with the rights of deploy/manifests. Played: kubelets (pods are statuses), the pod network "
    "(pod addresses stand for loopback), kube-proxy (the client connects to an endpoint of the slices)."
)


@pytest.fixture(scope="module")
def gate_rights() -> Iterator[Path]:
    """The kubeconfig of the gate's own service account, with the rights of the manifest and no others."""
    server = shared_kube().server
    applied = server.kubectl("apply", "-f", str(MANIFEST))
    assert not applied.returncode, applied.stderr
    # The gate of this test runs here, and not as a pod.
    server.kubectl("delete", "deployment", "ebbtide-gate", "--namespace=ebbtide")
    for account in ("ebbtide", "ebbtide-gate"):
        question = "delete endpointslices.discovery.k8s.io -n default"
        eventually(lambda a=account, q=question: server.can_i(f"ebbtide:{a}", q), 30, "the rights")  # type: ignore[misc]
    made = server.kubectl("create", "token", "ebbtide-gate", "--namespace=ebbtide", "--duration=24h")
    yield server.kubeconfig("ebbtide-gate", token=made.stdout.strip())
    server.kubectl("delete", "-f", str(MANIFEST))


@pytest.fixture
def house(kube: SharedKube, rights: None, gate_rights: Path) -> Iterator[tuple[Gatehouse, Backend]]:
    with backend() as behind:
        kube.api.post("/api/v1/nodes", node("w1"))
        kube.api.post(DEPLOYMENTS, workload("Deployment", "web", 2, template("web")))
        kube.api.post(SERVICES, service("web", behind.ports))
        try:
            with gatehouse(kube, gate_rights, {"web": web_gate("web")}, behind.ports) as found:
                eventually(lambda: found.proxy.kinds("web", "http") == {"pod"}, 60, "endpoints of pods")
                yield found, behind
        finally:
            kube.api.delete(f"{SERVICES}/web")


def get(found: Gatehouse, wire: socket.socket) -> None:
    wire.sendall(b"GET /hello HTTP/1.1\r\nHost: web\r\n\r\n")
    assert b"GET /hello HTTP/1.1" in everything(wire)


def post_by_length(found: Gatehouse, wire: socket.socket) -> None:
    wire.sendall(b"POST /up HTTP/1.1\r\nHost: web\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    wire.sendall(BODY)
    assert DIGEST.encode() in everything(wire)


def post_in_chunks(found: Gatehouse, wire: socket.socket) -> None:
    wire.sendall(b"POST /up HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(BODY), 70_000):
        part = BODY[start : start + 70_000]
        wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    wire.sendall(b"0\r\n\r\n")
    assert DIGEST.encode() in everything(wire)


def websocket(found: Gatehouse, wire: socket.socket) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    wire.sendall(
        f"GET /ws HTTP/1.1\r\nHost: web\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += wire.recv(4096)
    assert answer.startswith(b"HTTP/1.1 101 ")
    mask = os.urandom(4)
    said = bytes(byte ^ mask[place % 4] for place, byte in enumerate(b"hello"))
    wire.sendall(b"\x81\x85" + mask + said)
    assert wire.recv(4096) == b"\x81\x05hello"


def plain_tcp(found: Gatehouse, wire: socket.socket) -> None:
    wire.sendall(BODY)
    wire.shutdown(socket.SHUT_WR)
    assert everything(wire) == DIGEST.encode()


def tls_by_name(authority: dict[str, str]) -> Callable[[Gatehouse, socket.socket], None]:
    def talk(found: Gatehouse, wire: socket.socket) -> None:
        """The certificate of the name that was asked for, checked end to end: nobody in between read it."""
        context = ssl.create_default_context(cadata=authority[NAMES[1]])
        with context.wrap_socket(wire, server_hostname=NAMES[1]) as safe:
            safe.sendall(BODY[:1000])
            digest = hashlib.sha256(BODY[:1000]).hexdigest()
            assert everything(safe) == f"{NAMES[1]} {digest}".encode()

    return talk


def everything(wire: socket.socket) -> bytes:
    parts = []
    while part := wire.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_what_is_sent_while_asleep_arrives_whole(house: tuple[Gatehouse, Backend]) -> None:
    found, behind = house
    (policy,) = found.policies
    stories: list[tuple[str, str, Callable[[Gatehouse, socket.socket], None]]] = [
        ("HTTP/1.1 GET", "http", get),
        ("HTTP/1.1 POST, 3 MB by length", "http", post_by_length),
        ("HTTP/1.1 POST, 3 MB in chunks", "http", post_in_chunks),
        ("WebSocket", "http", websocket),
        ("TLS by name", "tls", tls_by_name(behind.authority)),
        ("TCP, 3 MB", "tcp", plain_tcp),
    ]
    for name, port, talk in stories:
        found.sleep()
        eventually(lambda p=port: found.proxy.kinds("web", p) == {"gate"}, 30, "gates alone")  # type: ignore[misc]
        kind, address = found.proxy.endpoint("web", port)
        assert kind == "gate"
        before = ours(found)
        began = time.monotonic()
        with socket.create_connection(address, timeout=120) as wire:
            talk(found, wire)
        whole, own = time.monotonic() - began, (ours(found) - before) * 1000
        MEASURED.append(
            f"gate: {name:32} whole answer after {whole:6.2f} s, {own:5.1f} ms of it the gate's own"
        )
        # Awake: the gate is out of the path.
        eventually(lambda p=port: found.proxy.kinds("web", p) == {"pod"}, 30, "pods alone")  # type: ignore[misc]
    MEASURED.append(PLAYED)
    eventually(lambda: found.state(policy).phase in (Phase.ACTIVE, Phase.IDLE), 30, "awake")
    assert found.state(policy).wake_count >= len(stories)
    assert found.process.metrics.registry.get_sample_value(
        "ebbtide_gate_connections_total", {"policy": "web", "outcome": "released"}
    ) == len(stories)


def ours(found: Gatehouse) -> float:
    labels = {"policy": "web"}
    return found.process.metrics.registry.get_sample_value("ebbtide_gate_release_seconds_sum", labels) or 0.0


def test_the_endpoints_follow_the_gates_and_are_gone_when_a_service_is_released(
    house: tuple[Gatehouse, Backend],
) -> None:
    found, _ = house
    api = found.kube.api
    found.sleep()

    def gates() -> list[str]:
        slices = api.items(SLICES.format("default"))
        mine = [each for each in slices if each["metadata"]["name"] == "web-ebbtide-gate"]
        return [one["addresses"][0] for each in mine for one in each["endpoints"]]

    assert gates() == [GATE_ADDRESS]
    others = members("192.0.2.252", "192.0.2.253")
    api.patch(f"{SLICES.format('ebbtide')}/gates", {"endpoints": others["endpoints"]})
    eventually(lambda: gates() == ["192.0.2.252", "192.0.2.253"], 30, "the gates that are ready")
    found.scaling.arrive(found.policies[0].id)
    eventually(lambda: gates() == [], 60, "a Service that was released")
