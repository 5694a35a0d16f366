"""The workloads port on a Kubernetes API server: Deployments and StatefulSets, their replicas, and the
autoscalers on them.

The one right on them beyond reading is to patch their scale subresource: nothing but replicas can be changed
by it. (The right to patch a status would let its holder set owner references, and the garbage collector then
delete the workload.) Every scaling is one call on exactly the version that was seen, and makes a new version:

    other replicas      a merge patch
    the same replicas   a merge patch would change nothing, and a caller that saw the workload earlier
                        could still scale it to zero. So the same replicas are applied with a new field
                        manager: the server adds it as one more owner of the field, and that is a change.
                        The next patch of the replicas takes the field over, and the field manager goes.

Why it was done is told by an Event on the workload, after it was done.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.connection import (
    APPLY,
    MERGE_PATCH,
    ApiError,
    Call,
    Connection,
    Resource,
    read_list,
)
from ebbtide.adapters.kube.events import Events, Subject
from ebbtide.adapters.kube.objects import read_pod_requests, read_time
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.wire import ABSENT, Meta, PodSpec, Struct, WirePod
from ebbtide.errors import UNREADABLE, Conflict, EbbtideError, NotFound, Retryable, Unanswered
from ebbtide.model.pod import Workload, WorkloadKind, WorkloadRef

TEMPLATE_FIELD = b'"f:template"'


class Managed(Struct, frozen=True):
    """Who last changed which fields, and when."""

    time: str | None = None
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.field(default=ABSENT, name="fieldsV1")


class WorkloadMeta(Meta, frozen=True):
    managed_fields: list[Managed] | None = None


class TemplateMeta(Struct, frozen=True):
    labels: msgspec.Raw = ABSENT


class Template(Struct, frozen=True):
    metadata: TemplateMeta | None = None
    spec: PodSpec = PodSpec()


class WireWorkloadSpec(Struct, frozen=True):
    replicas: int = 1
    template: Template = Template()


class WorkloadStatus(Struct, frozen=True):
    ready_replicas: int = 0
    observed_generation: int = 0


class WireWorkload(Struct, frozen=True):
    metadata: WorkloadMeta
    spec: WireWorkloadSpec = WireWorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class WireScale(Struct, frozen=True):
    metadata: Meta


class Reference(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    scale_target_ref: Reference = Reference()


class WireAutoscaler(Struct, frozen=True):
    metadata: Meta
    spec: AutoscalerSpec = AutoscalerSpec()


AUTOSCALERS = Resource("autoscalers", "/apis/autoscaling/v2/horizontalpodautoscalers", WireAutoscaler)


def autoscalers_in(namespace: str) -> Resource[WireAutoscaler]:
    path = f"/apis/autoscaling/v2/namespaces/{quote(namespace)}/horizontalpodautoscalers"
    return Resource("autoscalers", path, WireAutoscaler)


def resource_of(ref: WorkloadRef) -> Resource[WireWorkload]:
    path = f"/apis/apps/v1/namespaces/{quote(ref.namespace)}/{ref.kind.lower()}s"
    return Resource(str(ref), path, WireWorkload)


def path_of(ref: WorkloadRef) -> str:
    return f"{resource_of(ref).path}/{quote(ref.name)}"


def read_workload(wire: WireWorkload, ref: WorkloadRef) -> Workload:
    """Pods that were ready for an older specification count for nothing until the controller has looked:
    a workload that just woke up again is not ready by the pods it had before."""
    meta, status, template = wire.metadata, wire.status, wire.spec.template
    rules = Understanding()
    labels = rules.labels(template.metadata.labels) if template.metadata is not None else ()
    observed = status.observed_generation >= meta.generation
    return Workload(
        ref=ref,
        replicas=wire.spec.replicas,
        ready_replicas=status.ready_replicas if observed else 0,
        version=meta.resource_version,
        created_at=read_time(meta.creation_timestamp),
        deployed_at=_deployed_at(meta),
        requests=read_pod_requests(WirePod(meta, template.spec)),
        labels=labels,
        scheduling=rules.scheduling(template.spec, meta.namespace, labels),
    )


def target_of(wire: WireAutoscaler) -> tuple[WorkloadRef | None, str]:
    """What an autoscaler scales, None where it is nothing of ours, and its name."""
    found, meta = wire.spec.scale_target_ref, wire.metadata
    if found.kind not in WorkloadKind.__members__.values():
        return None, meta.name
    return WorkloadRef(WorkloadKind(found.kind), meta.namespace, found.name), meta.name


def _deployed_at(meta: WorkloadMeta) -> int:
    """When somebody last changed fields with the pod template among them. Scaling by the subresource, ours
    or that of others, is not among them."""
    times = [
        int(datetime.fromisoformat(entry.time).timestamp())
        for entry in meta.managed_fields or ()
        if entry.time and not entry.subresource and TEMPLATE_FIELD in bytes(entry.fields_v1)
    ]
    return max(times, default=read_time(meta.creation_timestamp))


MANAGER = "ebbtide"
"""Who owns the replicas, for the server."""
SCALED = "Scaled"
T = TypeVar("T")


class KubeWorkloads:
    """With `watching`, autoscalers are kept current by a watch; without, they are listed for each look."""

    def __init__(
        self, connection: Connection, watching: bool = False, now: Callable[[], float] = time.time
    ) -> None:
        self._connection = connection
        self._now = now
        self._events = Events(connection)
        self._teller = ThreadPoolExecutor(1, "events")
        """A wake does not wait until it was told."""
        self._waits = ReadyWaits(connection)
        self._autoscalers: Follower[WireAutoscaler, tuple[WorkloadRef | None, str]] | None = None
        self._index: tuple[int, Mapping[WorkloadRef | None, str]] = (-1, {})
        if watching:
            self._autoscalers = Follower(connection, AUTOSCALERS, target_of, threading.Condition())
            self._autoscalers.start()

    def read(self, ref: WorkloadRef) -> Workload:
        seen = read_workload(self._look(ref), ref)
        return replace(seen, autoscaler=self._autoscaler_of(ref))

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        ref = seen.ref
        scaled = self._applied(seen) if replicas == seen.replicas else self._patched(seen, replicas)
        meta = scaled.metadata
        subject = Subject(ref.kind, ref.name, meta.uid, ref.namespace, "apps/v1")
        with suppress(RuntimeError):  # closed meanwhile
            self._teller.submit(self._events.send, subject, SCALED, note)
        return replace(
            seen,
            replicas=replicas,
            ready_replicas=seen.ready_replicas if replicas == seen.replicas else 0,
            version=meta.resource_version,
        )

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
        self._teller.shutdown(wait=True, cancel_futures=True)

    def _look(self, ref: WorkloadRef) -> WireWorkload:
        try:
            return _decoded(self._connection.try_get(path_of(ref), str(ref)), WireWorkload, ref)
        except ApiError as refused:
            if refused.not_found:
                raise NotFound(f"there is no {ref}") from refused
            raise self._connection.refused_reading(refused, str(ref)) from refused

    def _patched(self, seen: Workload, replicas: int) -> WireScale:
        body = {"metadata": {"resourceVersion": seen.version}, "spec": {"replicas": replicas}}
        return self._act(seen, f"?fieldManager={MANAGER}", body, MERGE_PATCH)

    def _applied(self, seen: Workload) -> WireScale:
        ref, name = seen.ref, f"{MANAGER}-{secrets.token_hex(6)}"
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": ref.name, "namespace": ref.namespace, "resourceVersion": seen.version},
            "spec": {"replicas": seen.replicas},
        }
        return self._act(seen, f"?fieldManager={name}&force=true", body, APPLY)

    def _act(self, seen: Workload, query: str, body: dict[str, Any], content_type: str) -> WireScale:
        ref = seen.ref
        call = Call("PATCH", f"{path_of(ref)}/scale{query}", f"scale {ref}", body, content_type)
        try:
            answer = self._connection.try_act(call)
        except ApiError as refused:
            if refused.conflict:
                says = f"{ref} changed since it was looked at: nothing was done to it"
                raise Conflict(says) from refused
            if refused.not_found:
                raise NotFound(f"there is no {ref}") from refused
            raise self._connection.refused_acting(refused, call.what) from refused
        return _answered(answer, WireScale, ref)

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


class ReadyWaits:
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
        return typed.decode(body, kind)
    except UNREADABLE as cause:
        raise error(f"the answer about {ref} is not one of an API server ({cause})") from cause


def _answered(body: bytes, kind: type[T], ref: WorkloadRef) -> T:
    """An answer to an act that cannot be read is none."""
    return _decoded(body, kind, ref, Unanswered)
