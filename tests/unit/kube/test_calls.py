"""What a call to the API server asks of its own machine."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from ebbtide.adapters.kube.connection import connect


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((self.client_address, self.headers["authorization"]))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_calls_share_a_connection_and_look_up_no_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy belongs to the connection. It was looked up in the environment with every call, under the
    lock that all threads share."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.asked = []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lookups: list[str] = []

    def look() -> dict[str, str]:
        lookups.append("looked")
        return {}

    try:
        connection = connect(_kubeconfig(tmp_path, server.server_port))
        monkeypatch.setattr("ebbtide.adapters.kube.access.getproxies", look)
        for _ in range(3):
            connection.get("/version", "its version")
        connection.close()
    finally:
        server.shutdown()
        server.server_close()
    assert {token for _, token in server.asked} == {"Bearer secret-of-the-test"}  # type: ignore[attr-defined]
    assert len({address for address, _ in server.asked}) == 1, "kept alive"  # type: ignore[attr-defined]
    assert lookups == []


def _kubeconfig(folder: Path, port: int) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "secret-of-the-test"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path
