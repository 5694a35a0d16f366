"""Replicas of Deployments and StatefulSets, through their scale subresource.

Whoever scales to zero remembers what `scale` returns, the replicas there were before, and restores them
with the same call. A workload that a HorizontalPodAutoscaler scales is left to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote

import msgspec

from ebbtide.adapters.kube.answers import CONFLICT, NOT_FOUND, Refused, refused_acting, refused_reading
from ebbtide.adapters.kube.connection import MERGE_PATCH, Call, Connection
from ebbtide.adapters.kube.lists import Resource, read_list
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.errors import NotOurs, Retryable

TRIES = 5


class Kind(StrEnum):
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class Target:
    kind: Kind
    namespace: str
    name: str

    @property
    def path(self) -> str:
        plural = f"{self.kind.lower()}s"
        return f"/apis/apps/v1/namespaces/{quote(self.namespace)}/{plural}/{quote(self.name)}/scale"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Scale:
    replicas: int
    running: int
    version: str
    autoscaler: str = ""
    """The HorizontalPodAutoscaler that scales it, if any."""


class Replicas(Struct, frozen=True):
    replicas: int = 0


class WireScale(Struct, frozen=True):
    metadata: Meta
    spec: Replicas = Replicas()
    status: Replicas = Replicas()


class Reference(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(Struct, frozen=True):
    scale_target_ref: Reference = Reference()


class WireAutoscaler(Struct, frozen=True):
    metadata: Meta
    spec: AutoscalerSpec = AutoscalerSpec()


class Workloads:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, target: Target) -> Scale | None:
        """None where there is no such workload."""
        try:
            body = self._connection.try_get(target.path, str(target))
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return None
            raise refused_reading(refused, str(target), self._connection.server) from refused
        try:
            wire = msgspec.json.decode(body, type=WireScale)
        except msgspec.DecodeError as cause:
            raise Retryable(f"{self._connection.server} answered no scale of {target} ({cause})") from cause
        version = wire.metadata.resource_version
        return Scale(wire.spec.replicas, wire.status.replicas, version, self._autoscaler_of(target))

    def scale(self, target: Target, replicas: int) -> int:
        """The replicas there were before. Repeating it is harmless. `NotOurs` where there is no such
        workload, or an autoscaler scales it."""
        for _ in range(TRIES):
            found = self.read(target)
            if found is None:
                raise NotOurs(f"there is no {target}")
            if found.autoscaler:
                raise NotOurs(f"{target} is scaled by HorizontalPodAutoscaler {found.autoscaler}")
            if found.replicas == replicas:
                return replicas
            if self._changed(target, found.version, replicas):
                return found.replicas
        raise Retryable(f"{target} is scaled by others all the time")

    def _changed(self, target: Target, version: str, replicas: int) -> bool:
        what = f"scale {target} to {replicas}"
        body = {"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}
        try:
            self._connection.try_act(Call("PATCH", target.path, what, body, MERGE_PATCH))
        except Refused as refused:
            if refused.code in (CONFLICT, NOT_FOUND):
                return False
            raise refused_acting(refused, what, self._connection.server) from refused
        return True

    def _autoscaler_of(self, target: Target) -> str:
        path = f"/apis/autoscaling/v2/namespaces/{quote(target.namespace)}/horizontalpodautoscalers"
        resource = Resource("autoscalers", path, WireAutoscaler)
        found, _ = read_list(self._connection, resource, lambda wire: wire)
        same = Reference(target.kind, target.name)
        return next((a.metadata.name for a in found if a.spec.scale_target_ref == same), "")
