"""An API server that answers what a test says and keeps every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ebbtide.adapters.kube.access import Access
from ebbtide.adapters.kube.connection import Connection

Answer = tuple[int, Any]


def refusal(code: int, message: str = "no", **details: Any) -> Answer:
    return code, {"kind": "Status", "message": message, **({"details": details} if details else {})}


class Server:
    """Answers what the test says, the last of them forever, and keeps every request but Events."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.calls: list[tuple[str, str, Any, str]] = []
        self.told: list[dict[str, Any]] = []
        self.accepted: list[str] = []
        """The form that each read asked for."""
        self.agents: set[str] = set()

    def says(self, call: str, *answers: Answer) -> None:
        self.answers[call] = list(answers)

    def take(self, method: str, path: str, body: Any, kind: str) -> Answer:
        if path.endswith("/events"):
            self.told.append(body)
            return 201, {}
        self.calls.append((method, path, body, kind))
        waiting = self.answers.get(f"{method} {path}", [refusal(404)])
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    def sent(self, method: str) -> list[tuple[str, Any, str]]:
        return [(path, body, kind) for asked, path, body, kind in self.calls if asked == method]

    @property
    def reasons(self) -> list[tuple[str, str, str, str]]:
        return [
            (e["reason"], e["type"], e["involvedObject"]["kind"], e["involvedObject"]["uid"])
            for e in self.told
        ]


@contextmanager
def connected(server: Server) -> Iterator[Connection]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kind = self.headers.get("Content-Type", "")
            if self.command == "GET":
                server.accepted.append(self.headers.get("Accept", ""))
            server.agents.add(self.headers.get("User-Agent", ""))
            code, content = server.take(self.command, self.path, json.loads(body) if body else None, kind)
            sent = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            return

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
    port = listening.server_port
    connection = Connection(Access(f"http://127.0.0.1:{port}"), 30)
    try:
        yield connection
    finally:
        connection.close()
        listening.shutdown()
        listening.server_close()
