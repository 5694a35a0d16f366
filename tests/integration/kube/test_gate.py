"""Wake on request on a real control plane: sent while asleep, each protocol arrives whole."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebbtide.gate.admission import Address
from ebbtide.gate.minecraft import packet, string
from ebbtide.model.idle import Phase
from ebbtide.model.policy import GateProtocol, HttpRules
from tests.integration.kube.backend import NAMES, Backend, backend
from tests.integration.kube.backend_http2 import call_grpc, post_by_h2c
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
from tests.servers.shared_kube import SharedKube
from tests.unit.gate.test_minecraft import handshake

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SERVICES = "/api/v1/namespaces/default/services"
PORTS_OF = {"web": ("http", "tls", "tcp", "h2c", "grpc"), "shop": ("shop",), "game": ("game",)}
Talk = Callable[[socket.socket], None]
Story = Callable[[Address], None]
BODY = os.urandom(3 * 2**20)
DIGEST = hashlib.sha256(BODY).hexdigest()
PLAYED = (
    "gate: real: API server, etcd, deployment, replica set and endpoint slice controllers, scheduler, gate "
    "and backend, with the rights of deploy/manifests. Played: kubelets (pods are statuses), the pod network "
    "(pod addresses stand for loopback), kube-proxy (the client connects to an endpoint of the slices; "
    "test_kube_proxy.py has a real one)."
)


@pytest.fixture
def house(kube: SharedKube, rights: None, gate_rights: Path) -> Iterator[tuple[Gatehouse, Backend]]:
    """Three policies: one that passes everything unread, one that reads HTTP, and a game server."""
    gates = {
        "web": web_gate("web"),
        "shop": web_gate("shop", protocol=GateProtocol.HTTP, http=HttpRules(waiting_page=True)),
        "game": web_gate("game", protocol=GateProtocol.MINECRAFT),
    }
    with backend() as behind:
        kube.api.post("/api/v1/nodes", node("w1"))
        for name in gates:
            kube.api.post(DEPLOYMENTS, workload("Deployment", name, 1, template(name)))
            kube.api.post(SERVICES, service(name, {port: behind.ports[port] for port in PORTS_OF[name]}))
        try:
            with gatehouse(kube, gate_rights, gates, behind.ports) as found:
                for name, (port, *_) in PORTS_OF.items():
                    eventually(lambda n=name, p=port: found.proxy.kinds(n, p) == {"pod"}, 60, "pods")  # type: ignore[misc]
                yield found, behind
        finally:
            for name in gates:
                kube.api.delete(f"{SERVICES}/{name}")


def get(wire: socket.socket) -> None:
    wire.sendall(b"GET /hello HTTP/1.1\r\nHost: web\r\n\r\n")
    assert b"GET /hello HTTP/1.1" in everything(wire)


def post_by_length(wire: socket.socket) -> None:
    wire.sendall(b"POST /up HTTP/1.1\r\nHost: web\r\nContent-Length: %d\r\n\r\n" % len(BODY))
    wire.sendall(BODY)
    assert DIGEST.encode() in everything(wire)


def post_in_chunks(wire: socket.socket) -> None:
    wire.sendall(b"POST /up HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n")
    for start in range(0, len(BODY), 70_000):
        part = BODY[start : start + 70_000]
        wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    wire.sendall(b"0\r\n\r\n")
    assert DIGEST.encode() in everything(wire)


def websocket(wire: socket.socket) -> None:
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


def plain_tcp(wire: socket.socket) -> None:
    wire.sendall(BODY)
    wire.shutdown(socket.SHUT_WR)
    assert everything(wire) == DIGEST.encode()


def tls_by_name(authority: dict[str, str]) -> Talk:
    def talk(wire: socket.socket) -> None:
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


def h2c(wire: socket.socket) -> None:
    assert post_by_h2c(wire, BODY) == DIGEST.encode()


def minecraft_login(wire: socket.socket) -> None:
    said = handshake(2) + packet(0, string("Steve") + bytes(16))
    wire.sendall(said)
    assert f"Steve {hashlib.sha256(said).hexdigest()}".encode() in everything(wire)


def over_a_wire(talk: Talk) -> Story:
    def story(address: Address) -> None:
        with socket.create_connection(address, timeout=120) as wire:
            talk(wire)

    return story


def grpc_call(address: Address) -> None:
    assert call_grpc(address, BODY) == DIGEST.encode()


def test_what_is_sent_while_asleep_arrives_whole(house: tuple[Gatehouse, Backend]) -> None:
    found, behind = house
    stories: list[tuple[str, str, str, Story]] = [
        ("HTTP/1.1 GET", "web", "http", over_a_wire(get)),
        ("HTTP/1.1 POST, 3 MB by length", "web", "http", over_a_wire(post_by_length)),
        ("HTTP/1.1 POST, 3 MB in chunks", "web", "http", over_a_wire(post_in_chunks)),
        ("WebSocket", "web", "http", over_a_wire(websocket)),
        ("HTTP/2 without TLS, POST, 3 MB", "web", "h2c", over_a_wire(h2c)),
        ("gRPC, 3 MB", "web", "grpc", grpc_call),
        ("TLS by name", "web", "tls", over_a_wire(tls_by_name(behind.authority))),
        ("TCP, 3 MB", "web", "tcp", over_a_wire(plain_tcp)),
        ("HTTP read by the gate, GET", "shop", "shop", over_a_wire(get)),
        ("HTTP read by the gate, POST, 3 MB", "shop", "shop", over_a_wire(post_in_chunks)),
        ("Minecraft login", "game", "game", over_a_wire(minecraft_login)),
    ]
    MEASURED.append(f"gate: {'sent while asleep':36} first byte after  of it the gate's own")
    for name, service_name, port, story in stories:
        address = asleep(found, service_name, port)
        before, count = counted(found, service_name), ended(found, service_name, "released") or 0
        story(address)
        # The gate counts in a thread of its own, when it has passed the connection on.
        eventually(lambda n=service_name, c=count: (ended(found, n, "released") or 0) > c, 60, "counted")  # type: ignore[misc]
        first, own = (after - old for after, old in zip(counted(found, service_name), before, strict=True))
        MEASURED.append(f"gate: {name:36} {first:13.2f} s {own * 1000:18.1f} ms")
        # Awake: the gate is out of the path.
        eventually(lambda n=service_name, p=port: found.proxy.kinds(n, p) == {"pod"}, 30, "pods alone")  # type: ignore[misc]
    MEASURED.append(PLAYED)
    for policy in found.policies:
        used = [each for each in stories if each[1] == policy.name]
        assert found.state(policy).wake_count >= len(used)
        assert ended(found, policy.name, "released") == len(used)


def test_pings_and_probes_wake_nobody_and_a_browser_gets_a_page(house: tuple[Gatehouse, Backend]) -> None:
    found, _ = house
    states = {policy.name: found.state(policy) for policy in found.policies}
    with socket.create_connection(asleep(found, "game", "game"), timeout=30) as wire:
        wire.sendall(handshake(1) + b"\x01\x00" + b"\x09\x01" + bytes(8))
        assert b"game is asleep. Join to wake it." in everything(wire)
    with socket.create_connection(asleep(found, "shop", "shop"), timeout=30) as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: shop\r\n\r\n")
        assert everything(wire).startswith(b"HTTP/1.1 503 ")
    for policy in found.policies:
        assert found.state(policy).phase is Phase.ZERO
        assert found.state(policy).wake_count == states[policy.name].wake_count
    with socket.create_connection(asleep(found, "shop", "shop"), timeout=30) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: shop\r\nAccept: text/html\r\n\r\n")
        page = everything(wire)
        assert b'http-equiv="refresh"' in page
        assert b"Ready in about 30 seconds." in page, "what is said while no wake has been timed"
    eventually(lambda: found.proxy.kinds("shop", "shop") == {"pod"}, 60, "awake after a page")


def asleep(found: Gatehouse, name: str, port: str) -> Address:
    """Where its Service leads while it sleeps: to a gate."""
    found.sleep()
    eventually(lambda: found.proxy.kinds(name, port) == {"gate"}, 30, "gates alone")
    kind, address = found.proxy.endpoint(name, port)
    assert kind == "gate"
    return address


def counted(found: Gatehouse, policy: str) -> tuple[float, float]:
    """Seconds to first bytes in all, and those that were the gate's own."""
    values, labels = found.process.metrics.registry.get_sample_value, {"policy": policy}
    names = ("ebbtide_gate_first_byte_seconds_sum", "ebbtide_gate_release_seconds_sum")
    first, own = (values(name, labels) or 0.0 for name in names)
    return first, own


def ended(found: Gatehouse, policy: str, outcome: str) -> float | None:
    labels = {"policy": policy, "outcome": outcome}
    return found.process.metrics.registry.get_sample_value("ebbtide_gate_connections_total", labels)


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
