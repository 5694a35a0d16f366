"""Deployments, StatefulSets and the autoscalers on them, as they stand in JSON and as values of the model."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

import msgspec

from ebbtide.adapters.kube.connection import Resource
from ebbtide.adapters.kube.objects import read_pod_requests, read_time
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.wire import ABSENT, Meta, PodSpec, Struct, WirePod
from ebbtide.model.workload import Workload, WorkloadKind, WorkloadRef

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


class WorkloadSpec(Struct, frozen=True):
    replicas: int = 1
    template: Template = Template()


class WorkloadStatus(Struct, frozen=True):
    ready_replicas: int = 0
    observed_generation: int = 0


class WireWorkload(Struct, frozen=True):
    metadata: WorkloadMeta
    spec: WorkloadSpec = WorkloadSpec()
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
