"""A server that answers PromQL queries as a test says: the faults that a real Prometheus shows too seldom."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

Answer = Callable[[str], tuple[int, str]]
"""From the text of a query to the status and the body."""


def vector(*samples: tuple[dict[str, str], float, str]) -> tuple[int, str]:
    """Labels, time and value of each series."""
    result = [{"metric": metric, "value": [at, value]} for metric, at, value in samples]
    return 200, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}})


@contextmanager
def promql_server(answer: Answer) -> Iterator[str]:
    """Its address; `answer` is asked for every query, from many threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: else each answer waits for an acknowledgement

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            (query,) = parse_qs(self.rfile.read(length).decode())["query"]
            code, text = answer(query)
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that did not wait for a slow answer has closed the connection: no fault of ours."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
