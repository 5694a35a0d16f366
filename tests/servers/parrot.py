"""A server that refuses every request and quotes it: headers and body, plain, in base64 and as in a URL.

A caller that tells others what this server said would give away the secrets that came with the request.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote
from xml.sax.saxutils import escape


@dataclass
class Parrot:
    url: str = ""
    heard: list[str] = field(default_factory=list)
    """Headers of every request."""
    events: list[str] = field(default_factory=list)
    """Bodies of Kubernetes Events."""


@contextmanager
def parrot() -> Iterator[Parrot]:
    found = Parrot()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode(errors="replace")
            heard = " ".join(f"{name}: {value}" for name, value in self.headers.items())
            found.heard.append(heard)
            if self.path.endswith("/events"):
                found.events.append(body)
            plain = f"{heard} {body}"
            said = f"cannot do {plain} / {base64.b64encode(plain.encode()).decode()} / {quote(plain)}"
            code, text = refusal(self.path, body, self.headers.get("x-amz-target", ""), said)
            answer = text.encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def refusal(path: str, body: str, target: str, said: str) -> tuple[int, str]:
    """In the words of the server that it stands in for."""
    if path.endswith("/api/v1/query"):
        return 500, json.dumps({"status": "error", "errorType": "internal", "error": said})
    if target:
        return 400, json.dumps({"__type": "com.amazonaws#ValidationException", "message": said})
    if "Action=" in body:
        error = f"<Code>InvalidParameterValue</Code><Message>{escape(said)}</Message>"
        return 400, f"<Response><Errors><Error>{error}</Error></Errors><RequestID>1</RequestID></Response>"
    if path.startswith("/hetzner"):
        return 422, json.dumps({"error": {"code": "invalid_input", "message": said, "details": {}}})
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 422, "message": said}
    return 422, json.dumps(status)
