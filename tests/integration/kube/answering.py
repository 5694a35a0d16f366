"""An API server whose every answer the test gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ebbtide.adapters.kube.access import Access
from ebbtide.adapters.kube.connection import Connection
from tests.integration.kube.objects import node
from tests.servers.prometheus import http_server

Answer = tuple[int, str]


@contextmanager
def api_server(answer: Callable[[str, dict[str, str]], Answer], seconds: float = 5) -> Iterator[Connection]:
    """An API server whose every answer the test gives, by path and query."""

    def asked(path: str) -> Answer:
        parts = urlsplit(path)
        return answer(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

    with http_server(asked) as port:
        connection = Connection(Access(f"http://127.0.0.1:{port}"), seconds)
        try:
            yield connection
        finally:
            connection.close()


def page(names: list[str], more: str = "") -> str:
    items = [node(name) for name in names]
    return json.dumps({"metadata": {"resourceVersion": "7", "continue": more}, "items": items})


def status(code: int, message: str = "", **details: Any) -> Answer:
    return code, json.dumps({"kind": "Status", "code": code, "message": message, "details": details})
