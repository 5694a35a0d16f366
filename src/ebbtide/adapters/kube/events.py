"""Kubernetes Events on nodes, pods and workloads: what was done to them, and why something was not.

They are for people. Telling never fails an act and never takes long; the same news about the same
object is told once in a while only.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from ebbtide.adapters.kube.connection import Call, Connection
from ebbtide.adapters.kube.errors import Refused
from ebbtide.errors import EbbtideError

SECONDS = 2.0
AGAIN_SECONDS = 600
REMEMBERED = 4096
COMPONENT = "ebbtide"


@dataclass(frozen=True, slots=True)
class Subject:
    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


class Events:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told: dict[tuple[str, ...], float] = {}
        self._lock = threading.Lock()

    def tell(self, subject: Subject, reason: str, message: str, warning: bool = False) -> None:
        if self.is_news((subject.uid, reason), AGAIN_SECONDS):
            self.send(subject, reason, message, warning)

    def send(self, subject: Subject, reason: str, message: str, warning: bool = False) -> None:
        namespace = subject.namespace or "default"
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "ebbtide-", "namespace": namespace},
            "involvedObject": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": subject.name,
                "uid": subject.uid,
                "namespace": subject.namespace,
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:1000],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }
        call = Call("POST", f"/api/v1/namespaces/{namespace}/events", "an event", body)
        with suppress(EbbtideError, Refused):
            self._connection.try_act(call, SECONDS)

    def is_news(self, about: tuple[str, ...], again_seconds: float) -> bool:
        """Whether this was not told of late; it counts as told from now on."""
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(about, -again_seconds) < again_seconds:
                return False
            if len(self._told) >= REMEMBERED:
                self._told.clear()
            self._told[about] = now
            return True
