"""The recipes of deploy/gateways, each on the real program: requests to a sleeping app arrive whole.

Real: the gateway, the API with its hold endpoint over HTTP, and an app that listens only from the moment it
is scaled up. Played: the cluster (workloads in memory) and the clock of the policy.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope
from ebbtide.model.policy import Target
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import make_settings
from tests.integration.api.conftest import TOKENS, site_of
from tests.integration.api.test_hold import Answer, Patient
from tests.policy_harness import PolicyHarness, make_policy, make_ref, make_workload
from tests.servers.control_plane import Unavailable
from tests.servers.gateways import Ports, gateway, listens, program_of, three_ports
from tests.servers.having import leave_out
from tests.servers.processes import eventually

KINDS = ("nginx", "caddy", "envoy", "haproxy", "traefik")
SHOP = make_ref("shop")
BODY = bytes(range(256)) * 12 * 1024  # 3 MiB
LONG = 60.0
TOKEN = TOKENS[Scope.WAKE]
OWN = "Basic of-the-app"
"""What the client sends to the app: no business of ours."""


class App(BaseHTTPRequestHandler):
    """Says what arrived."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self._chunks() if self.headers.get("Transfer-Encoding") else self._counted()
        told = {
            "asked": f"{self.command} {self.path}",
            "digest": hashlib.sha256(body).hexdigest(),
            "authorization": self.headers.get("Authorization"),
        }
        text = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def _counted(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> bytes:
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def log_message(self, format: str, *args: object) -> None: ...


@dataclass
class Scene:
    """An app that sleeps behind a gateway."""

    ports: Ports
    harness: PolicyHarness
    last: ExitStack
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def get(self, path: str = "/cart?a=1&wait=3000&late=200", **headers: str) -> Answer:
        return self._ask("GET", path, None, headers)

    def post(self, chunked: bool) -> Answer:
        body = iter([BODY[:1_000_000], BODY[1_000_000:]]) if chunked else BODY
        return self._ask("POST", "/cart", body, {})

    def _ask(self, method: str, path: str, body: object, headers: dict[str, str]) -> Answer:
        with closing(http.client.HTTPConnection("127.0.0.1", self.ports.gateway, timeout=LONG)) as caller:
            told = {"Authorization": OWN, **headers}
            caller.request(method, path, body, told)  # type: ignore[arg-type]
            found = caller.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read())

    def send(self, call: Callable[[], Answer]) -> Future[Answer]:
        return self.pool.submit(call)

    def wakes(self) -> None:
        eventually(lambda: bool(self.harness.memory_workloads.calls), what="the wake")

    def comes_up(self) -> None:
        """The pod listens, and then is ready."""
        server = ThreadingHTTPServer(("127.0.0.1", self.ports.app), App)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.last.callback(server.server_close)
        self.last.callback(server.shutdown)
        self.harness.memory_workloads.put(SHOP, ready_replicas=2)


@contextmanager
def sleeping(kind: str, folder: Path, wait: float | None = None, api: bool = True) -> Iterator[Scene]:
    try:
        program_of(kind)
    except Unavailable as why:
        leave_out(str(why))
    harness = PolicyHarness((make_policy("shop", target=Target((SHOP,))),), Patient(make_workload("shop")))
    harness.sleep()
    harness.memory_workloads.calls.clear()
    harness.memory_workloads.slow = True
    site = site_of(harness.store, harness.clock, harness.scaling, Snapshot(0, ClusterView()), make_settings())
    with ExitStack() as last:
        ports = three_ports()
        if api:
            last.enter_context(served(make_app(replace(site, hosts=("*",))), "127.0.0.1", ports.api))
        last.enter_context(gateway(kind, ports, TOKEN, folder, wait))
        scene = Scene(ports, harness, last)
        last.callback(scene.pool.shutdown)
        last.callback(harness.memory_workloads.put, SHOP, ready_replicas=2)  # who still waits must not stay
        yield scene


def told(answer: Answer) -> tuple[str, str, str]:
    assert answer.status == 200, answer
    found = json.loads(answer.body)
    return found["asked"], found["digest"], found["authorization"]


@pytest.mark.parametrize("kind", KINDS)
def test_requests_to_a_sleeping_app_are_held_and_arrive_whole(kind: str, tmp_path: Path) -> None:
    with sleeping(kind, tmp_path) as scene:
        assert not listens(scene.ports.app)
        asked = [
            scene.send(scene.get),
            scene.send(lambda: scene.post(chunked=False)),
            scene.send(lambda: scene.post(chunked=True)),
        ]
        scene.wakes()
        assert not any(each.done() for each in asked)
        scene.comes_up()
        get, counted, chunked = (told(each.result()) for each in asked)
        whole = hashlib.sha256(BODY).hexdigest()
        assert get == ("GET /cart?a=1&wait=3000&late=200", hashlib.sha256(b"").hexdigest(), OWN)
        assert counted == ("POST /cart", whole, OWN)
        assert chunked == ("POST /cart", whole, OWN)
        assert scene.harness.memory_workloads.calls == [(SHOP, 2)]
        assert told(scene.get("/again"))[0] == "GET /again"


LATE = {
    "nginx": (503, "text/html"),
    "caddy": (503, "application/problem+json"),
    "envoy": (429, "application/problem+json"),
    "haproxy": (503, "application/problem+json"),
    "traefik": (307, None),
}


@pytest.mark.parametrize("kind", KINDS)
def test_when_time_is_up_the_client_gets_an_answer_that_it_can_use(kind: str, tmp_path: Path) -> None:
    with sleeping(kind, tmp_path, wait=0.5) as scene:
        found = scene.get("/cart?a=1")
        assert (found.status, found.headers.get("content-type")) == LATE[kind], found
        assert found.headers["retry-after"] == "30"
        if kind == "traefik":
            assert found.headers["location"] == "/cart?a=1"
        scene.wakes()
        scene.comes_up()
        assert told(scene.get("/cart?a=1"))[0] == "GET /cart?a=1"


DOWN = {"nginx": 503, "caddy": 502, "envoy": 503, "haproxy": 503, "traefik": 500}


@pytest.mark.parametrize("kind", KINDS)
def test_while_ebbtide_is_down_the_client_gets_an_error_at_once(kind: str, tmp_path: Path) -> None:
    with sleeping(kind, tmp_path, api=False) as scene:
        assert scene.get().status == DOWN[kind]
