"""`/metrics`, `/healthz` and `/readyz` over plain HTTP, in threads of their own. Nothing can be changed by
them, and no secret is in them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app

from ebbtide.adapters.metrics_export.health import Health

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

IDLE_SECONDS = 10.0
"""How long a client may be silent in the middle of its request."""
PLAIN = ("Content-Type", "text/plain; charset=utf-8")


def make_app(health: Health) -> WSGIApplication:
    figures: WSGIApplication = make_wsgi_app(health.figures.registry)
    states: dict[str, Callable[[], str]] = {"/healthz": health.why_dead, "/readyz": health.why_not_ready}

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [PLAIN, ("Allow", "GET, HEAD")])
            return [b"read only\n"]
        if path == "/metrics":
            return figures(environ, start_response)
        if path not in states:
            start_response("404 Not Found", [PLAIN])
            return [b"there are /metrics, /healthz and /readyz\n"]
        why = states[path]()
        start_response("503 Service Unavailable" if why else "200 OK", [PLAIN])
        return [f"{why or 'ok'}\n".encode()]

    return app


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without asking for the name of our own address, which takes long where there is no DNS."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Probes come every few seconds: nothing of them is worth a line."""


class MetricsServer:
    """Listens from the moment it is made; `OSError` where that is not possible."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        kind = _Server6 if ":" in host else _Server
        self._server = make_server(host, port, make_app(health), kind, _Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
