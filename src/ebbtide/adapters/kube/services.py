"""Services, the EndpointSlices of their pods, and the one of ours that points at the gates.

A Service with a selector has slices that Kubernetes' own controller writes; it leaves alone those that
another manages, and kube-proxy sends traffic to the endpoints of all. So a slice of ours adds the gates, and
nothing of the Service itself is changed. It belongs to the Service, and goes with it.

Every takeover writes a new stamp, so the version changes even if nothing else does: a caller that saw it
earlier can no longer remove it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.connection import MERGE_PATCH, ApiError, Call, Connection, Resource, read_list
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.errors import UNREADABLE, Conflict, EbbtideError, NotFound, NotOurs, Retryable, Unanswered
from ebbtide.model.policy import GatePort, Service, ServicePort, ServiceRef, Takeover

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
OURS = "ebbtide"
SERVICE_NAME = "kubernetes.io/service-name"
STAMP = "ebbtide.dev/taken"
SUFFIX = "-ebbtide-gate"
TCP = "TCP"
IPV4, IPV6 = "IPv4", "IPv6"
HEADLESS = "None"
EXTERNAL = "ExternalName"
T = TypeVar("T")


class SliceMeta(Meta, frozen=True):
    labels: dict[str, str] | None = None  # type: ignore[assignment]


class Conditions(Struct, frozen=True):
    ready: bool | None = None


class Endpoint(Struct, frozen=True):
    addresses: list[str] | None = None
    conditions: Conditions = Conditions()

    @property
    def ready(self) -> bool:
        """Nothing said counts as ready, as the API has it."""
        return self.conditions.ready is not False


class SlicePort(Struct, frozen=True):
    name: str | None = None
    port: int | None = None
    protocol: str | None = None


class WireSlice(Struct, frozen=True):
    metadata: SliceMeta
    address_type: str = IPV4
    endpoints: list[Endpoint] | None = None
    ports: list[SlicePort] | None = None

    @property
    def service(self) -> ServiceRef:
        return ServiceRef(self.metadata.namespace, (self.metadata.labels or {}).get(SERVICE_NAME, ""))

    @property
    def ours(self) -> bool:
        return (self.metadata.labels or {}).get(MANAGED_BY) == OURS

    @property
    def ready(self) -> tuple[str, ...]:
        return tuple(
            address for each in self.endpoints or () if each.ready for address in (each.addresses or ())[:1]
        )


class WirePort(Struct, frozen=True):
    name: str = ""
    port: int = 0
    protocol: str = TCP


class ServiceSpec(Struct, frozen=True):
    type: str = "ClusterIP"
    selector: dict[str, str] | None = None
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ports: list[WirePort] | None = None


class WireService(Struct, frozen=True):
    metadata: Meta
    spec: ServiceSpec = ServiceSpec()


def slices_in(namespace: str) -> Resource[WireSlice]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{quote(namespace)}/endpointslices"
    return Resource(f"endpoint slices of {namespace}", path, WireSlice)


class KubeServices:
    """`gate` is the Service of the gates themselves. In `namespaces` Services may be taken over."""

    def __init__(self, connection: Connection, gate: ServiceRef, namespaces: Sequence[str]) -> None:
        self._connection = connection
        self._gate = gate
        self.namespaces = tuple(namespaces)

    def read(self, ref: ServiceRef) -> Service:
        if ref.namespace not in self.namespaces:
            raise NotFound(f"{ref} is in no namespace of gate.namespaces; add {ref.namespace} there")
        # The slices first: what is decided by a state that is read later is for this version of them.
        slices = self._slices(ref)
        wire = self._get(ref)
        spec, ours = wire.spec, next((each for each in slices if each.ours), None)
        return Service(
            ref,
            tuple(ServicePort(each.name, each.port) for each in spec.ports or () if each.protocol == TCP),
            selects=bool(spec.selector),
            headless=spec.cluster_ip == HEADLESS,
            external=spec.type == EXTERNAL,
            ready=len({address for each in slices if not each.ours for address in each.ready}),
            takeover=read_takeover(ours) if ours is not None else None,
        )

    def gates(self) -> Sequence[str]:
        """Of one family: where gates have addresses of both, those of IPv4."""
        slices = self._slices(self._gate)
        for family in (IPV4, IPV6):
            if found := sorted({one for each in slices if each.address_type == family for one in each.ready}):
                return found
        return ()

    def take_over(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        body = self._body(seen, ports, gates)
        if seen.takeover is None:
            return self._create(seen.ref, body)
        body["metadata"]["resourceVersion"] = seen.takeover.version.partition("/")[2]
        call = Call("PATCH", _path(seen.ref), f"take over {seen.ref}", body, MERGE_PATCH)
        return self._write(call, seen.ref)

    def release(self, seen: Takeover) -> None:
        uid, _, version = seen.version.partition("/")
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        call = Call("DELETE", _path(seen.service), f"release {seen.service}", body)
        try:
            self._connection.try_act(call)
        except ApiError as refused:
            if not refused.not_found:
                raise self._refused(refused, call, seen.service) from refused

    def list_taken(self) -> Sequence[Takeover]:
        found: list[Takeover] = []
        for namespace in self.namespaces:
            only = {"labelSelector": f"{MANAGED_BY}={OURS}"}
            found += read_list(self._connection, slices_in(namespace), read_takeover, only)[0]
        return found

    def _slices(self, ref: ServiceRef) -> list[WireSlice]:
        only = {"labelSelector": f"{SERVICE_NAME}={ref.name}"}
        same: Callable[[WireSlice], WireSlice] = lambda wire: wire  # noqa: E731
        return read_list(self._connection, slices_in(ref.namespace), same, only)[0]

    def _get(self, ref: ServiceRef) -> WireService:
        path = f"/api/v1/namespaces/{quote(ref.namespace)}/services/{quote(ref.name)}"
        try:
            return _decoded(self._connection.try_get(path, str(ref)), WireService, ref, Retryable)
        except ApiError as refused:
            if refused.not_found:
                raise NotFound(f"there is no {ref}") from refused
            raise self._connection.refused_reading(refused, str(ref)) from refused

    def _create(self, ref: ServiceRef, body: dict[str, Any]) -> Takeover:
        wire = self._get(ref)
        owner = {"apiVersion": "v1", "kind": "Service", "name": ref.name, "uid": wire.metadata.uid}
        body["metadata"]["ownerReferences"] = [owner]
        return self._write(Call("POST", slices_in(ref.namespace).path, f"take over {ref}", body), ref)

    def _body(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> dict[str, Any]:
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": seen.ref.name + SUFFIX,
                "namespace": seen.ref.namespace,
                "labels": {MANAGED_BY: OURS, SERVICE_NAME: seen.ref.name},
                "annotations": {STAMP: secrets.token_hex(8)},
            },
            "addressType": _family(gates),
            "endpoints": [
                {"addresses": [each], "conditions": {"ready": True, "serving": True, "terminating": False}}
                for each in gates
            ],
            "ports": [{"name": each.name, "port": each.port, "protocol": TCP} for each in ports],
        }

    def _write(self, call: Call, ref: ServiceRef) -> Takeover:
        try:
            answer = self._connection.try_act(call)
        except ApiError as refused:
            raise self._refused(refused, call, ref) from refused
        wire = _decoded(answer, WireSlice, ref, Unanswered)
        if not wire.ours:
            raise NotOurs(f"EndpointSlice {wire.metadata.name} of {ref} is not managed by Ebbtide")
        return read_takeover(wire)

    def _refused(self, refused: ApiError, call: Call, ref: ServiceRef) -> EbbtideError:
        if refused.conflict or refused.not_found:
            return Conflict(f"the takeover of {ref} changed since it was looked at: nothing was done to it")
        return self._connection.refused_acting(refused, call.what)


def read_takeover(wire: WireSlice) -> Takeover:
    return Takeover(
        wire.service,
        f"{wire.metadata.uid}/{wire.metadata.resource_version}",
        tuple(GatePort(each.name or "", each.port or 0) for each in wire.ports or ()),
        tuple(sorted(address for each in wire.endpoints or () for address in each.addresses or ())),
    )


def ready_pods(
    slices: Iterable[WireSlice],
) -> dict[tuple[ServiceRef, str], tuple[tuple[str, int], ...]]:
    """Addresses of pods that are ready, by Service and port name; without the gates."""
    found: dict[tuple[ServiceRef, str], set[tuple[str, int]]] = {}
    for each in slices:
        for port in each.ports or () if not each.ours else ():
            if port.port and (port.protocol or TCP) == TCP:
                pods = found.setdefault((each.service, port.name or ""), set())
                pods.update((address, port.port) for address in each.ready)
    return {key: tuple(sorted(pods)) for key, pods in found.items()}


def _family(gates: Sequence[str]) -> str:
    return IPV6 if any(":" in each for each in gates) else IPV4


def _path(ref: ServiceRef) -> str:
    return f"{slices_in(ref.namespace).path}/{quote(ref.name + SUFFIX)}"


def _decoded(body: bytes, kind: type[T], ref: ServiceRef, error: type[EbbtideError]) -> T:
    try:
        return typed.decode(body, kind)
    except UNREADABLE as cause:
        raise error(f"the answer about {ref} is not one of an API server ({cause})") from cause
