"""`/metrics`, `/healthz` and `/readyz` over plain HTTP, in threads of their own: whether this process is
alive (it ticks) and ready (its last tick reached the store and the cluster). Nothing can be changed by
them, and no secret is in them.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Protocol
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app

from ebbtide.adapters.metrics_export.metrics import ClusterMetrics, MetricsRegistry
from ebbtide.core.words import a_while

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

SLACK_SECONDS = 300.0
"""Beyond three intervals: a tick may last as long as its slowest calls together."""
MISSED_TICKS = 3
IDLE_SECONDS = 10.0
"""How long a client may be silent in the middle of its request."""
MOST_CONNECTIONS = 32
"""Probes and Prometheus need a few. Each has a descriptor and a thread of the process that scales."""
PLAIN = ("Content-Type", "text/plain; charset=utf-8")


@dataclass(frozen=True, slots=True)
class Health:
    metrics: MetricsRegistry
    interval_seconds: float
    """The longest of all clusters."""

    @property
    def registry(self) -> CollectorRegistry:
        return self.metrics.registry

    @property
    def limit_seconds(self) -> float:
        """A replica of a fleet reaches for a cluster less often the more it holds."""
        return MISSED_TICKS * self.interval_seconds * max(1, len(self.metrics.clusters)) + SLACK_SECONDS

    def why_dead(self) -> str:
        """Empty where every loop ticks."""
        now = self.metrics.now()
        for name, cluster in self.metrics.clusters.items():
            silent = now - max(cluster.ticked_at, cluster.started_at)
            if silent > self.limit_seconds:
                limit = a_while(int(self.limit_seconds))
                return f"{name}: no tick for {a_while(int(silent))}, the limit is {limit}"
        return ""

    def why_not_ready(self) -> str:
        for name, cluster in self.metrics.clusters.items():
            if why := _why_not_ready(cluster):
                return f"{name}: {why}"
        return ""


def _why_not_ready(cluster: ClusterMetrics) -> str:
    """Kinds, not sentences: who may ask need not know what stands in our log."""
    if not cluster.ticked_at:
        return "no tick has ended yet"
    if cluster.error:
        return f"the last tick failed ({cluster.error}); the log says why"
    return "" if cluster.sees_cluster else "the cluster could not be read at the last tick; the log says why"


class Told(Protocol):
    """What is served: metrics, and whether the process is well."""

    @property
    def registry(self) -> CollectorRegistry: ...

    def why_dead(self) -> str: ...

    def why_not_ready(self) -> str: ...


def make_app(health: Told) -> WSGIApplication:
    metrics_app: WSGIApplication = make_wsgi_app(health.registry)
    states: dict[str, Callable[[], str]] = {"/healthz": health.why_dead, "/readyz": health.why_not_ready}

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [PLAIN, ("Allow", "GET, HEAD")])
            return [b"read only\n"]
        if path == "/metrics":
            return metrics_app(environ, start_response)
        if path not in states:
            start_response("404 Not Found", [PLAIN])
            return [b"there are /metrics, /healthz and /readyz\n"]
        why = states[path]()
        start_response("503 Service Unavailable" if why else "200 OK", [PLAIN])
        return [f"{why or 'ok'}\n".encode()]

    return app


class _EndpointServer(ThreadingMixIn, WSGIServer):
    """If all places are taken, the oldest connection is closed: half-open connections would otherwise take
    the descriptors of the engine, or keep the probes out until the process is restarted."""

    daemon_threads = True
    request_queue_size = 4 * MOST_CONNECTIONS
    """Beyond it the kernel drops what a client sends, and a probe tries again only seconds later."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}
        super().__init__(*args, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._open) >= MOST_CONNECTIONS:
                first = next(iter(self._open))
                del self._open[first]
                with suppress(OSError):  # its thread sees the end and closes it
                    first.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def server_bind(self) -> None:
        """Without asking for the name of our own address, which takes long where there is no DNS."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Server6(_EndpointServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def handle(self) -> None:
        with suppress(OSError):  # gone before its request was whole
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds: nothing of them is worth a line."""


class MetricsEndpoint:
    """Listens from the moment it is made; `OSError` where that is not possible."""

    def __init__(self, health: Told, host: str, port: int) -> None:
        kind = _Server6 if ":" in host else _EndpointServer
        self._server = make_server(host, port, make_app(health), kind, _Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
