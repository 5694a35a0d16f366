"""What kubelets do, for Node objects without a machine: pods bound to them start, and end when deleted.

One thread looks at all pods many times a second. A node in `stopped` does not answer: nothing starts or
ends there. Pods of a node that is gone are removed at once, which a real cluster does after a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import urllib3

from tests.servers.kube_api import Api, ApiRefused

PERIOD_SECONDS = 0.1


class Kubelets:
    def __init__(self, api: Api, period_seconds: float = PERIOD_SECONDS) -> None:
        self._api = api
        self._period_seconds = period_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)
        self._hosts = count()
        self.stopped: set[str] = set()
        self.least_ready: dict[str, int] = {}
        """Fewest ready pods ever seen, by value of the label `app`, once any was ready."""

    def _run(self) -> None:
        while not self._stop.wait(self._period_seconds):
            try:
                self.look()
            except (urllib3.exceptions.HTTPError, OSError, ApiRefused):
                continue  # the server is going down, or busy: look again

    def look(self) -> None:
        nodes = {item["metadata"]["name"] for item in self._api.items("/api/v1/nodes")}
        pods = self._api.items("/api/v1/pods")
        self._count(pods)
        for pod in pods:
            node = pod["spec"].get("nodeName")
            if not node or node in self.stopped:
                continue
            self._tend(pod, node in nodes)

    def _tend(self, pod: Mapping[str, Any], node_exists: bool) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        try:
            if not node_exists or "deletionTimestamp" in meta:
                self._api.delete(path, now=True)
            elif pod["status"].get("phase") == "Pending":
                self._api.patch(f"{path}/status", {"status": {**running_status(), **self._address()}})
        except ApiRefused as refused:
            if refused.code not in (404, 409):
                raise

    def _address(self) -> dict[str, Any]:
        """Of a network for documentation: nobody is there, and nobody connects to it."""
        address = f"192.0.2.{next(self._hosts) % 250 + 1}"
        return {"podIP": address, "podIPs": [{"ip": address}]}

    def _count(self, pods: list[Any]) -> None:
        ready: dict[str, int] = {}
        for pod in pods:
            app = pod["metadata"].get("labels", {}).get("app")
            alive = "deletionTimestamp" not in pod["metadata"]
            if app and alive and pod["status"].get("phase") == "Running":
                ready[app] = ready.get(app, 0) + 1
        for app in {*ready, *self.least_ready}:
            count = ready.get(app, 0)
            self.least_ready[app] = min(count, self.least_ready.get(app, count))


def running_status() -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
    return {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}, *conditions]}


@contextmanager
def kubelets(api: Api, period_seconds: float = PERIOD_SECONDS) -> Iterator[Kubelets]:
    found = Kubelets(api, period_seconds)
    found._thread.start()
    try:
        yield found
    finally:
        found._stop.set()
        found._thread.join(10)
