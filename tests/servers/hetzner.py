"""A server that speaks the part of the Hetzner Cloud API that Ebbtide uses, with its documented error codes.

Servers have unique names, boot after a while, and go at once when deleted. Replies can be lost and errors
ordered; a token other than `TOKEN` is refused.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.servers.hetzner_shapes import LOCATIONS, TYPES, action, page, private_net, type_json

TOKEN = "hetzner-test-token"
IMAGES = ("debian-12",)
STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "uniqueness_error": 409,
    "conflict": 409,
    "placement_error": 409,
    "resource_unavailable": 412,
    "resource_limit_exceeded": 403,
    "invalid_input": 422,
    "protected": 423,
    "locked": 423,
    "rate_limit_exceeded": 429,
    "service_error": 500,
    "unavailable": 503,
}
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")

Reply = tuple[int, dict[str, Any]]


class Refused(Exception):
    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(code)
        self.reply: Reply = (
            STATUS[code],
            {"error": {"code": code, "message": message or code.replace("_", " "), "details": {}}},
        )


def in_group(server: dict[str, Any]) -> int:
    """The placement group of a server; 0 where it has none."""
    return int((server.get("placement_group") or {}).get("id", 0))


class HetznerServer:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.servers: dict[int, dict[str, Any]] = {}
        self.closed_locations: set[str] = set()
        self.not_offered: set[tuple[str, str]] = set()
        """Type and location."""
        self.group_size = 10
        self.calls: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._ordered: list[tuple[str, str]] = []
        self._number = 4711
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def lose_replies(self, method: str, times: int) -> None:
        self._lost[method] += times

    def refuse(self, method: str, code: str, times: int = 1) -> None:
        self._ordered += [(method, code)] * times

    def boot_all(self) -> None:
        for server in self.servers.values():
            server["status"] = "running"

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def answer(self, method: str, target: str, token: str, body: Any) -> Reply | None:
        """None where the reply is lost."""
        with self.lock:
            self.calls[method] += 1
            try:
                reply = self._reply(method, target, token, body)
            except Refused as refused:
                reply = refused.reply
            if self._lost[method] > 0:
                self._lost[method] -= 1
                return None
            return reply

    def _reply(self, method: str, target: str, token: str, body: Any) -> Reply:
        if token != f"Bearer {TOKEN}":
            raise Refused("unauthorized", "unable to authenticate")
        ordered = next((pair for pair in self._ordered if pair[0] == method), None)
        if ordered is not None:
            self._ordered.remove(ordered)
            raise Refused(ordered[1])
        parts = urlsplit(target)
        asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix("/v1")
        if path == "/servers":
            return self._create(body) if method == "POST" else self._list(asked)
        if path == "/pricing":
            types = [type_json(name, number) for number, name in enumerate(TYPES)]
            return 200, {"pricing": {"currency": "EUR", "vat_rate": "19.00", "server_types": types}}
        if found := re.fullmatch(r"/servers/(\d+)", path):
            return self._one(method, int(found[1]), body)
        raise Refused("not_found")

    def _one(self, method: str, number: int, body: Any) -> Reply:
        if number not in self.servers:
            raise Refused("not_found", "server not found")
        if method == "PUT":
            self._check_labels(body["labels"])
            self.servers[number]["labels"] = body["labels"]
        if method == "DELETE":
            if self.servers[number]["protection"]["delete"]:
                raise Refused("protected", "server is delete protected")
            del self.servers[number]
            return 200, {"action": action("delete_server", number)}
        return 200, {"server": self.servers[number]}

    def _list(self, asked: dict[str, str]) -> Reply:
        found = list(self.servers.values())
        if "name" in asked:
            found = [server for server in found if server["name"] == asked["name"]]
        if "label_selector" in asked:
            key, _, value = asked["label_selector"].partition("=")
            found = [server for server in found if server["labels"].get(key) == value]
        number, size = int(asked.get("page", 1)), min(50, int(asked.get("per_page", 25)))
        part = found[(number - 1) * size : number * size]
        return 200, {"servers": part, "meta": page(number, len(found), size)}

    def _create(self, body: Any) -> Reply:
        self._check(body)
        server = self.make(body["name"], body["location"], body["server_type"], body.get("labels", {}))
        server["user_data"] = body.get("user_data", "")
        server["asked"] = body
        if group := body.get("placement_group"):
            server["placement_group"] = {"id": group, "name": f"group-{group}", "type": "spread"}
        return 201, {
            "server": server,
            "action": action("create_server", server["id"]),
            "next_actions": [],
            "root_password": None,
        }

    def make(self, name: str, location: str, type_name: str, labels: dict[str, str]) -> dict[str, Any]:
        self._number += 1
        number = self._number
        self.servers[number] = {
            "id": number,
            "name": name,
            "status": "initializing",
            "created": datetime.now(UTC).isoformat(),
            "labels": labels,
            "location": {"id": 1, "name": location},
            "server_type": type_json(type_name, 1),
            "private_net": [private_net(f"10.0.{number // 250}.{number % 250}")],
            "public_net": None,
            "protection": {"delete": False, "rebuild": False},
            "volumes": [],
        }
        return self.servers[number]

    def _check_labels(self, labels: dict[str, str]) -> None:
        for key, value in labels.items():
            if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
                raise Refused("invalid_input", f"label {key}={value} is not allowed")

    def _check(self, body: Any) -> None:
        if len(body["name"]) > 63 or not HOST_NAME.fullmatch(body["name"]):
            raise Refused("invalid_input", "name is not a host name")
        self._check_labels(body.get("labels", {}))
        if body["server_type"] not in TYPES:
            raise Refused("invalid_input", f"server type {body['server_type']} not found")
        if body["image"] not in IMAGES:
            raise Refused("invalid_input", f"image {body['image']} not found")
        if body["location"] not in LOCATIONS:
            raise Refused("invalid_input", f"location {body['location']} not found")
        if (body["server_type"], body["location"]) in self.not_offered:
            raise Refused("invalid_input", "unsupported location for server type")
        if len(body.get("user_data", "")) > 32 * 1024:
            raise Refused("invalid_input", "user_data is too long")
        if any(server["name"] == body["name"] for server in self.servers.values()):
            raise Refused("uniqueness_error", "server name is already used")
        if body["location"] in self.closed_locations:
            raise Refused("resource_unavailable", "we are currently out of this type")
        group = body.get("placement_group")
        if group and sum(in_group(server) == group for server in self.servers.values()) >= self.group_size:
            raise Refused("placement_error", "the placement group is full")


def _handler(server: HetznerServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "")
            reply = server.answer(self.command, self.path, token, json.loads(raw) if raw else None)
            if reply is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            content = json.dumps(reply[1]).encode()
            self.send_response(reply[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _any

        def log_message(self, format: str, *args: object) -> None:
            return

    return Handler


@contextmanager
def hetzner_server() -> Iterator[HetznerServer]:
    server = HetznerServer()
    try:
        yield server
    finally:
        server.stop()
