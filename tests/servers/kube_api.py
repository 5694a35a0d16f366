"""Raw requests to the API server of a test, for what the test itself sets up and looks up."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any

import urllib3

MERGE = "application/merge-patch+json"
Body = Mapping[str, Any]


class ApiRefused(Exception):
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text[:500]}")
        self.code = code


class Api:
    """The certificate is not verified: it was made by the server a moment ago, on this machine."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._token = token
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._pool = urllib3.PoolManager(ssl_context=context, maxsize=8, assert_hostname=False)
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def close(self) -> None:
        self._pool.clear()

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
