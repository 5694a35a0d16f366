"""Kubernetes Events on nodes, pods and workloads: what was done to them, and why something was not; also why
a node is kept, refused by a decision or given back by an operation.

They are for people. Telling never fails an act and never takes long; the same news about the same object
is told once in a while only. Of kept nodes a thread of its own tells, of few at a time: a slow API server
holds no tick up. What cannot be told is dropped: all of it is in the log too.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from ebbtide.adapters.kube.connection import ApiError, Call, Connection
from ebbtide.errors import EbbtideError
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.operation import Consolidate, Operation, Removal, ScaleDown, Source, Spot
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Snapshot

SECONDS = 2.0
AGAIN_SECONDS = 600
REMEMBERED = 4096
COMPONENT = "ebbtide"
KEPT_AGAIN_SECONDS = 3600.0
MOST_AT_ONCE = 20
"""Nodes told of after one decision; the others have their turn after the next."""
MOST_WAITING = 100
CLOSE_SECONDS = 3.0
KEPT = "NotRemoved"
GIVEN_UP = ("RELEASING", "RELEASED")


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
        with suppress(EbbtideError, ApiError):
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


class NodeTeller:
    def __init__(self, events: Events, uid_of: Callable[[], Mapping[str, str]]) -> None:
        self._events = events
        self._uid_of = uid_of
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None

    def looked(self, snapshot: Snapshot, record: Record) -> None:
        """Nothing of it is news for a node."""

    def decided(self, decision: Decision) -> None:
        refusals = [refusal for verdict in decision.verdicts for refusal in verdict.refusals]
        if not refusals:
            return
        uids, told = self._uid_of(), 0
        for refusal in refusals:
            if refusal.node_name in uids and told < MOST_AT_ONCE:
                told += self._tell(refusal.node_name, uids[refusal.node_name], f"kept: {refusal.reason}")

    def began(self, work: Operation | Spot) -> None:
        """Told with the first thing that is done to a node."""

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        known = {part.instance_id for part in _leaving(before) if part.state in GIVEN_UP}
        for part in _leaving(after):
            if part.state in GIVEN_UP and part.instance_id not in known and part.node_uid:
                self._tell(part.node_name, part.node_uid, f"given up by {after.id}: {part.reason}")

    def performed(self, outcomes: Sequence[Outcome]) -> None:
        """The runner that performs them reports them."""

    def closed(self, work: Operation | Spot, succeeded: bool) -> None:
        """Told step by step."""

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        """Nothing of it is news for a node."""

    def close(self) -> None:
        """Waits a little for what is still to be told."""
        if self._thread is not None:
            try:
                self._waiting.put(None, timeout=CLOSE_SECONDS)
                self._thread.join(CLOSE_SECONDS)
            except queue.Full:
                return  # the thread ends with the process

    def _tell(self, name: str, uid: str, says: str) -> bool:
        """Whether it is news. Numbers that change with every observation do not count."""
        if not self._events.is_news((uid, KEPT, re.sub(r"\d+", "#", says)), KEPT_AGAIN_SECONDS):
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="events", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(lambda: self._events.send(Subject("Node", name, uid), KEPT, says))
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        while (send := self._waiting.get()) is not None:
            send()


def _leaving(work: Operation | Spot) -> tuple[Removal | Source, ...]:
    match work:
        case ScaleDown():
            return work.removals
        case Consolidate():
            return work.sources
        case Spot() if work.removal is not None:
            return (work.removal,)
        case _:
            return ()
