"""The workloads port on a Kubernetes API server: replicas of Deployments and StatefulSets.

Nothing but replicas and an annotation can be changed by the rights this needs. Replicas go through the scale
subresource; the annotation goes through the status subresource, where the server ignores everything of the
specification. So a scaling is two steps:

    note     on exactly the version that was seen; whoever saw an earlier one can scale no more
    scale    on the version the note made. A controller that wrote its status in between is no matter:
             the generation and our mark tell whether anything else happened

A crash between the two leaves a note, and replicas as they were.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from ebbtide.adapters.kube.answers import CONFLICT, NOT_FOUND, Refused, refused_acting, refused_reading
from ebbtide.adapters.kube.connection import MERGE_PATCH, Call, Connection
from ebbtide.adapters.kube.following import Follower
from ebbtide.adapters.kube.lists import read_list
from ebbtide.adapters.kube.scalable import (
    AUTOSCALERS,
    WireAutoscaler,
    WireScale,
    WireWorkload,
    autoscalers_in,
    path_of,
    read_workload,
    resource_of,
    target_of,
)
from ebbtide.errors import UNREADABLE, Conflict, EbbtideError, NotFound, Retryable, Unanswered
from ebbtide.model.workload import Workload, WorkloadRef

TRIES = 5
NOTE, MARK = "ebbtide.dev/scaled-because", "ebbtide.dev/scaled-mark"
MOST_TOLD = 1000
T = TypeVar("T")


class KubeWorkloads:
    """With `watching`, autoscalers are kept current by a watch; without, they are listed for each look."""

    def __init__(
        self, connection: Connection, watching: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        self._connection = connection
        self._now = now
        self._waits = Waits(connection)
        self._autoscalers: Follower[WireAutoscaler, tuple[WorkloadRef | None, str]] | None = None
        self._index: tuple[int, Mapping[WorkloadRef | None, str]] = (-1, {})
        if watching:
            self._autoscalers = Follower(connection, AUTOSCALERS, target_of, threading.Condition())
            self._autoscalers.start()

    def read(self, ref: WorkloadRef) -> Workload:
        seen = read_workload(self._look(ref), ref)
        return replace(seen, autoscaler=self._autoscaler_of(ref))

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        ref, mark = seen.ref, secrets.token_hex(8)
        noted = self._note(seen, note, mark)
        for _ in range(TRIES):
            if noted.spec.replicas == replicas:
                return replace(read_workload(noted, ref), autoscaler=seen.autoscaler)
            version = self._rescale(noted, ref, replicas)
            if version:
                done = read_workload(noted, ref)
                return replace(done, replicas=replicas, version=version, autoscaler=seen.autoscaler)
            again = self._look(ref)
            meta = again.metadata
            ours = (meta.annotations or {}).get(MARK) == mark and meta.uid == noted.metadata.uid
            if not ours or meta.generation != noted.metadata.generation:
                raise Conflict(f"{ref} was changed by somebody else: its replicas were left as they are")
            noted = again
        raise Retryable(f"{ref} changes all the time: its replicas were left as they are")

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        seen = self.read(ref)
        if seen.ready:
            return seen
        found = self._waits.wait(ref, lambda: until - self._now())
        if found is not None:
            return replace(found, autoscaler=seen.autoscaler)
        with suppress(Retryable):
            return self.read(ref)
        return seen

    @property
    def waits(self) -> Mapping[WorkloadRef, int]:
        """How many wait for which workload to be ready; each by one watch."""
        return self._waits.watched

    def close(self) -> None:
        if self._autoscalers is not None:
            self._autoscalers.stop()
        self._waits.close()

    def _look(self, ref: WorkloadRef) -> WireWorkload:
        try:
            return _decoded(self._connection.try_get(path_of(ref), str(ref)), WireWorkload, ref)
        except Refused as refused:
            if refused.code == NOT_FOUND:
                raise NotFound(f"there is no {ref}") from refused
            raise refused_reading(refused, str(ref), self._connection.server) from refused

    def _note(self, seen: Workload, note: str, mark: str) -> WireWorkload:
        annotations = {NOTE: note[:MOST_TOLD], MARK: mark}
        body = {"metadata": {"resourceVersion": seen.version, "annotations": annotations}}
        answer = self._act(seen.ref, "status", body)
        if answer is None:
            raise Conflict(f"{seen.ref} changed since it was looked at: nothing was done to it")
        return _answered(answer, WireWorkload, seen.ref)

    def _rescale(self, noted: WireWorkload, ref: WorkloadRef, replicas: int) -> str:
        """The new version; empty where that of `noted` is no longer the last one."""
        version = noted.metadata.resource_version
        body = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        answer = self._act(ref, "scale", body)
        return "" if answer is None else _answered(answer, WireScale, ref).metadata.resource_version

    def _act(self, ref: WorkloadRef, part: str, body: dict[str, Any]) -> bytes | None:
        """None where the version is no longer the last one."""
        what = f"scale {ref}"
        try:
            return self._connection.try_act(Call("PATCH", f"{path_of(ref)}/{part}", what, body, MERGE_PATCH))
        except Refused as refused:
            if refused.code == CONFLICT:
                return None
            if refused.code == NOT_FOUND:
                raise NotFound(f"there is no {ref}") from refused
            raise refused_acting(refused, what, self._connection.server) from refused

    def _autoscaler_of(self, ref: WorkloadRef) -> str:
        watched = self._autoscalers
        if watched is None or not watched.current:
            found, _ = read_list(self._connection, autoscalers_in(ref.namespace), target_of)
            return dict(found).get(ref, "")
        changes, index = watched.changes, self._index
        if index[0] != changes:
            self._index = index = (changes, dict(watched.items()))
        return index[1].get(ref, "")


@dataclass(slots=True)
class Wait:
    follower: Follower[WireWorkload, Workload]
    changed: threading.Condition
    waiting: int = 0


class Waits:
    """Watches of single workloads, each shared by all who wait for it and gone with the last of them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._open: dict[WorkloadRef, Wait] = {}

    def wait(self, ref: WorkloadRef, seconds_left: Callable[[], float]) -> Workload | None:
        """What the watch last showed, as soon as it is ready; None where it showed nothing in time.
        `NotFound` when it is deleted meanwhile."""
        wait = self._join(ref)
        follower = wait.follower

        def told() -> bool:
            seen = follower.find(ref.namespace, ref.name)
            return seen.ready if seen is not None else follower.current

        try:
            with wait.changed:
                while not told() and (left := seconds_left()) > 0:
                    wait.changed.wait(left)
            seen = follower.find(ref.namespace, ref.name)
            if seen is None and follower.current:
                raise NotFound(f"there is no {ref}")
            return seen
        finally:
            self._leave(ref)

    @property
    def watched(self) -> Mapping[WorkloadRef, int]:
        with self._lock:
            return {ref: wait.waiting for ref, wait in self._open.items()}

    def close(self) -> None:
        with self._lock:
            followers = [wait.follower for wait in self._open.values()]
        for follower in followers:
            follower.stop()

    def _join(self, ref: WorkloadRef) -> Wait:
        with self._lock:
            if ref not in self._open:
                changed = threading.Condition()
                only = {"fieldSelector": f"metadata.name={ref.name}"}
                made = Follower(
                    self._connection, resource_of(ref), lambda wire: read_workload(wire, ref), changed, only
                )
                made.start()
                self._open[ref] = Wait(made, changed)
            self._open[ref].waiting += 1
            return self._open[ref]

    def _leave(self, ref: WorkloadRef) -> None:
        with self._lock:
            wait = self._open[ref]
            wait.waiting -= 1
            if wait.waiting:
                return
            del self._open[ref]
        wait.follower.stop()


def _decoded(body: bytes, kind: type[T], ref: WorkloadRef, error: type[EbbtideError] = Retryable) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except UNREADABLE as cause:
        raise error(f"the answer about {ref} is not one of an API server ({cause})") from cause


def _answered(body: bytes, kind: type[T], ref: WorkloadRef) -> T:
    """An answer to an act that cannot be read is none."""
    return _decoded(body, kind, ref, Unanswered)
