"""The declarations port on a Kubernetes API server: `SleepPolicy` objects with the status that `kubectl get`
and `kubectl wait` read, and workloads with the annotation.

Objects are read in whole lists and never written, apart from the status of a `SleepPolicy`. There is no
finalizer: the store knows which policies have lost their object, so neither an object nor its namespace waits
for Ebbtide to be deleted.

The status of a `SleepPolicy`: what `kubectl get` and `kubectl wait` read, from a report and back. A
condition keeps the time of its last change while it stays what it is, so writing the same report twice
writes the same status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ebbtide.adapters.kube.connection import MERGE_PATCH, ApiError, Call, Connection, Resource, read_list
from ebbtide.adapters.kube.events import Events, Subject
from ebbtide.adapters.kube.objects import read_time
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.errors import Usage
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Declaration, Declarer, ObjectRef, Policy, Readiness, Report, SavedLately

READY, ASLEEP = "Ready", "Asleep"
PHASES = {
    Phase.ACTIVE: "Active",
    Phase.IDLE: "Idle",
    Phase.FALLING: "Falling",
    Phase.ZERO: "Asleep",
    Phase.WAKING: "Waking",
}
_PHASE_OF = {shown: phase for phase, shown in PHASES.items()}
IN_USE = "it is in use, or has not been idle for long enough"


class WireCondition(Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class WireSavings(Struct, frozen=True):
    until: str = ""
    asleep_seconds: int = 0
    amount: str = ""
    currency: str = ""


class WireStatus(Struct, frozen=True):
    observed_generation: int = 0
    target: str = ""
    phase: str = ""
    since: str | None = None
    savings: WireSavings | None = None
    conditions: list[WireCondition] | None = None


def read_report(status: WireStatus) -> Report | None:
    """None where it says nothing that we would have written."""
    conditions = {each.type: each for each in status.conditions or ()}
    ready, asleep = conditions.get(READY), conditions.get(ASLEEP)
    if ready is None or ready.reason not in Readiness.__members__.values():
        return None
    saved = status.savings
    why = asleep.message if asleep is not None and asleep.status == "False" else ""
    return Report(
        Readiness(ready.reason),
        ready.message,
        status.observed_generation,
        status.target,
        _PHASE_OF.get(status.phase, ""),
        read_time(status.since) if status.since else 0,
        "" if why == IN_USE else why,
        SavedLately(saved.until, saved.asleep_seconds, saved.amount, saved.currency) if saved else None,
        tuple((each.type, each.status, each.last_transition_time or "") for each in conditions.values()),
    )


def write_report(report: Report, told: Report | None, now: int) -> dict[str, Any]:
    changed = {kind: (status, at) for kind, status, at in (told.transitions if told is not None else ())}
    body: dict[str, Any] = {
        "observedGeneration": report.generation,
        "conditions": [
            _condition(changed, now, READY, report.ready is Readiness.APPLIED, (report.ready, report.says))
        ],
    }
    if not report.phase:
        return body
    phase = Phase(report.phase)
    at_zero = phase is Phase.ZERO
    says = "its workloads are at zero" if at_zero else report.why_awake or IN_USE
    body["conditions"].append(_condition(changed, now, ASLEEP, at_zero, (PHASES[phase], says)))
    saved = report.saved
    return {
        **body,
        "target": report.target,
        "phase": PHASES[phase],
        "since": _moment(report.since) if report.since else None,
        "savings": _savings(saved) if saved is not None else None,
    }


def _condition(
    changed: dict[str, tuple[str, str]], now: int, kind: str, holds: bool, told: tuple[str, str]
) -> dict[str, str]:
    status = str(holds)
    before, at = changed.get(kind, ("", ""))
    return {
        "type": kind,
        "status": status,
        "reason": told[0],
        "message": told[1],
        "lastTransitionTime": at if before == status and at else _moment(now),
    }


def _savings(saved: SavedLately) -> dict[str, Any]:
    hours, minutes = divmod(saved.asleep_seconds // 60, 60)
    return {
        "until": saved.until,
        "asleepSeconds": saved.asleep_seconds,
        "asleep": f"{hours}h{minutes}m",
        "amount": saved.amount,
        "currency": saved.currency,
        "shown": f"{saved.amount} {saved.currency}" if saved.amount else "",
    }


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


GROUP, VERSION = "ebbtide.dev", "v1alpha1"
PATH = f"/apis/{GROUP}/{VERSION}/sleeppolicies"
ANNOTATION = "ebbtide.dev/sleep"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
REFUSED = "SleepPolicyRefused"
TOLD_AGAIN_SECONDS = 6 * 3600
NOT_INSTALLED = (
    "this cluster knows no SleepPolicy; apply deploy/manifests/sleep-policies.yaml, "
    "or set scale_to_zero.sleep_policies to false"
)
ReadSpec = Callable[[ObjectRef, Mapping[str, Any], int], Policy]
ReadLine = Callable[[ObjectRef, str, int], Policy]


class WireSleepPolicy(Struct, frozen=True):
    metadata: Meta
    spec: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it
    status: WireStatus | None = None


class WireMetadata(Struct, frozen=True):
    metadata: Meta


SLEEP_POLICIES = Resource("SleepPolicies", PATH, WireSleepPolicy)
ANNOTATED = {
    Declarer.DEPLOYMENT: Resource("Deployments", "/apis/apps/v1/deployments", WireMetadata, METADATA_ONLY),
    Declarer.STATEFUL_SET: Resource(
        "StatefulSets", "/apis/apps/v1/statefulsets", WireMetadata, METADATA_ONLY
    ),
}


class KubeDeclarations:
    """`read_spec` and `read_line` make a policy of what an object says; None: those objects are not asked."""

    def __init__(
        self,
        connection: Connection,
        read_spec: ReadSpec | None,
        read_line: ReadLine | None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._connection = connection
        self._read_spec = read_spec
        self._read_line = read_line
        self._now = now
        self._events = Events(connection)

    @property
    def kinds(self) -> frozenset[Declarer]:
        objects = {Declarer.SLEEP_POLICY} if self._read_spec is not None else set()
        return frozenset(objects | (ANNOTATED.keys() if self._read_line is not None else set()))

    def read(self) -> Sequence[Declaration]:
        return [*self._objects(), *self._annotated()]

    def _objects(self) -> Iterable[Declaration]:
        if self._read_spec is None:
            return ()
        read_spec = self._read_spec

        def one(wire: WireSleepPolicy) -> Declaration:
            ref = _ref(Declarer.SLEEP_POLICY, wire.metadata)
            told = read_report(wire.status) if wire.status is not None else None
            return self._declaration(ref, wire.metadata, lambda now: read_spec(ref, wire.spec, now), told)

        try:
            found, _ = read_list(self._connection, SLEEP_POLICIES, _same)
        except Usage as error:
            # Without its definition there is no list, and that is no empty list: nothing is known to be gone.
            refused = error.__cause__
            if isinstance(refused, ApiError) and refused.not_found:
                raise Usage(NOT_INSTALLED) from refused
            raise
        return [one(wire) for wire in found if wire.metadata.deletion_timestamp is None]

    def _annotated(self) -> Iterable[Declaration]:
        if self._read_line is None:
            return
        read_line = self._read_line
        for kind, resource in ANNOTATED.items():
            found, _ = read_list(self._connection, resource, _metadata)
            for meta in found:
                text = (meta.annotations or {}).get(ANNOTATION)
                if text is None or meta.deletion_timestamp is not None:
                    continue
                ref = _ref(kind, meta)

                def line(now: int, ref: ObjectRef = ref, text: str = text) -> Policy:
                    return read_line(ref, text, now)

                yield self._declaration(ref, meta, line, None)

    def _declaration(
        self, ref: ObjectRef, meta: Meta, read: Callable[[int], Policy], told: Report | None
    ) -> Declaration:
        policy, problem = None, ""
        try:
            policy = read(int(self._now()))
        except ValueError as error:
            problem = str(error)
        created = read_time(meta.creation_timestamp)
        return Declaration(
            ref, meta.uid, meta.resource_version, meta.generation, created, policy, problem, told
        )

    def tell(self, declaration: Declaration, report: Report) -> None:
        ref = declaration.ref
        if ref.kind is not Declarer.SLEEP_POLICY:
            self._tell_by_event(declaration, report)
            return
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{ref.namespace}/sleeppolicies/{ref.name}/status"
        body = {
            # A runner that was overtaken must not bring an older report back.
            "metadata": {"resourceVersion": declaration.version},
            "status": write_report(report, declaration.told, int(self._now())),
        }
        call = Call("PATCH", path, f"the status of {ref}", body, MERGE_PATCH)
        try:
            self._connection.try_act(call)
        except ApiError as refused:
            if not (refused.not_found or refused.conflict):
                raise self._connection.refused_acting(refused, call.what) from refused

    def _tell_by_event(self, declaration: Declaration, report: Report) -> None:
        ref = declaration.ref
        if report.ready is Readiness.APPLIED:
            return
        if self._events.is_news((declaration.uid, report.says), TOLD_AGAIN_SECONDS):
            subject = Subject(ref.kind, ref.name, declaration.uid, ref.namespace, "apps/v1")
            self._events.send(subject, REFUSED, f"{ANNOTATION}: {report.says}", warning=True)


def _same(wire: WireSleepPolicy) -> WireSleepPolicy:
    return wire


def _metadata(wire: WireMetadata) -> Meta:
    return wire.metadata


def _ref(kind: Declarer, meta: Meta) -> ObjectRef:
    return ObjectRef(kind, meta.namespace, meta.name)
