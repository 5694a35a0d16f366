"""Raw requests to the API server of a test, for what the test itself sets up and looks up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import urllib3

MERGE = "application/merge-patch+json"
Body = Mapping[str, Any]


class ApiRefused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text[:500]}")
        self.code = code


class Api:
    """Trusts the certificate that the server makes for itself when it starts."""

    def __init__(self, url: str, token: str, authority: Path) -> None:
        self._url = url
        self._token = token
        self._authority = authority
        self._lock = threading.Lock()
        self._made: urllib3.PoolManager | None = None

    @property
    def _pool(self) -> urllib3.PoolManager:
        with self._lock:
            if self._made is None:
                self._authority.stat()
                self._made = urllib3.PoolManager(ca_certs=str(self._authority), maxsize=8)
            return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.clear()

    def ready(self) -> bool:
        """Ready, and its built-in namespaces are there."""
        try:
            self.get("/readyz", raw=True)
            self.get("/api/v1/namespaces/default")
            self.get("/api/v1/namespaces/kube-system")
        except (ApiRefused, urllib3.exceptions.HTTPError, OSError):
            return False
        return True

    def get(self, path: str, raw: bool = False) -> Any:
        body = self._send("GET", path, None)
        return body if raw else json.loads(body)

    def items(self, path: str) -> list[Any]:
        found: list[Any] = self.get(path)["items"]
        return found

    def follow(self, path: str, version: str, seconds: int) -> Iterator[Any]:
        """The events of a watch from that version on, until the server ends it after so many seconds."""
        response = self._pool.request(
            "GET",
            f"{self._url}{path}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}",
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=seconds + 30,
            retries=False,
            preload_content=False,
        )
        try:
            for line in response:
                yield json.loads(line)
        finally:
            response.close()

    def post(self, path: str, body: Body) -> Any:
        return json.loads(self._send("POST", path, body))

    def put(self, path: str, body: Body) -> Any:
        return json.loads(self._send("PUT", path, body))

    def patch(self, path: str, body: Body) -> Any:
        return json.loads(self._send("PATCH", path, body, MERGE))

    def delete(self, path: str, now: bool = False) -> None:
        """Gone already is success."""
        body = {"gracePeriodSeconds": 0} if now else {"propagationPolicy": "Background"}
        try:
            self._send("DELETE", path, body)
        except ApiRefused as refused:
            if refused.code != 404:
                raise

    def _send(self, method: str, path: str, body: Body | None, kind: str = "application/json") -> bytes:
        response = self._pool.request(
            method,
            self._url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": kind},
            timeout=30,
            retries=False,
        )
        if response.status >= 300:
            raise ApiRefused(response.status, response.data.decode(errors="replace"))
        return response.data
