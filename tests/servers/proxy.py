"""A proxy in front of moto that behaves as EC2 and the network do, on their good days and their bad ones.

It adds what moto leaves out: a ClientToken makes a launch idempotent, and other parameters under the same
token are refused. On demand it loses replies, answers with an error, delivers a call twice, or shows a
list that lags behind.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode

Form = dict[str, str]
Answer = tuple[int, bytes]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors>
<RequestID>ebbtide-test</RequestID></Response>"""


@dataclass
class Fault:
    """What happens to the next calls of an action; `where` limits it to calls with these parameters."""

    action: str
    times: int
    code: str = ""
    status: int = 400
    lose_reply: bool = False
    repeat: bool = False
    lag: bool = False
    where: Form = field(default_factory=dict)

    def meets(self, action: str, form: Form) -> bool:
        return (
            self.times > 0
            and action == self.action
            and all(form.get(key) == value for key, value in self.where.items())
        )


def _nothing_yet(form: Form) -> Form:
    """One filter more, that no instance passes."""
    number = 1 + sum(1 for key in form if key.startswith("Filter.") and key.endswith(".Name"))
    return {f"Filter.{number}.Name": "instance-id", f"Filter.{number}.Value.1": "i-00000000000000000"}


class FaultyProxy:
    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._tokens: dict[str, tuple[Form, bytes]] = {}
        self.calls: Counter[str] = Counter()
        self.forms: list[Form] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def lose_replies(self, action: str, times: int) -> None:
        self.add(Fault(action, times, lose_reply=True))

    def refuse(self, action: str, code: str, times: int = 1, status: int = 400, **where: str) -> None:
        self.add(
            Fault(action, times, code, status, where={key.replace("_", "."): v for key, v in where.items()})
        )

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def answer(self, body: bytes, path: str, headers: list[tuple[str, str]]) -> Answer | None:
        """None where the connection is cut instead of an answer."""
        form = dict(parse_qsl(body.decode(), keep_blank_values=True))
        action = form.get("Action", "")
        with self._lock:
            self.calls[action] += 1
            self.forms.append(form)
            fault = next((fault for fault in self._faults if fault.meets(action, form)), None)
            if fault is not None:
                fault.times -= 1
            if fault is not None and fault.code:
                return fault.status, XML.format(code=fault.code, message=f"{fault.code} for a test").encode()
            if fault is not None and fault.lag:
                form |= _nothing_yet(form)
            answer = self._once(action, form, path, headers)
            if fault is not None and fault.repeat:
                answer = self._once(action, form, path, headers)
            return None if fault is not None and fault.lose_reply else answer

    def _once(self, action: str, form: Form, path: str, headers: list[tuple[str, str]]) -> Answer:
        token = form.get("ClientToken", "")
        if action != "RunInstances" or not token:
            return self._forward(form, path, headers)
        if token in self._tokens:
            before, answer = self._tokens[token]
            if before == form:
                return 200, answer
            code = "IdempotentParameterMismatch"
            return 400, XML.format(code=code, message="The token was used with other parameters").encode()
        status, answer = self._forward(form, path, headers)
        if status == 200:
            self._tokens[token] = (form, answer)
        return status, answer

    def _forward(self, form: Form, path: str, headers: list[tuple[str, str]]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._target_port, timeout=300)
        body = urlencode(form).encode()
        kept = {name: value for name, value in headers if name.lower() not in ("content-length", "host")}
        try:
            connection.request("POST", path, body, kept)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = proxy.answer(body, self.path, list(self.headers.items()))
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, content = answer
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(OSError):  # the client may have given up
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


@contextmanager
def faulty_proxy(target_port: int) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(target_port)
    try:
        yield proxy
    finally:
        proxy.stop()
