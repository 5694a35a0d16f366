"""Deployments and StatefulSets, as far as scaling them needs to know them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.resources import NOTHING, Resources
from ebbtide.model.scheduling import ANYWHERE, Labels, Scheduling


class WorkloadKind(StrEnum):
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    kind: WorkloadKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Workload:
    """What was seen of one workload at one moment."""

    ref: WorkloadRef
    replicas: int
    """Asked for in the specification."""
    ready_replicas: int = 0
    version: str = ""
    """Changes with every change of the object: the condition of the next `scale`."""
    created_at: int = 0
    deployed_at: int = 0
    """When its pod template last changed, as far as is known; a new version deserves a grace."""
    autoscaler: str = ""
    """The HorizontalPodAutoscaler on the same target; empty where there is none."""
    requests: Resources = NOTHING
    """What one replica asks for."""
    labels: Labels = ()
    """Of its pods."""
    scheduling: Scheduling = ANYWHERE
    """Of its pods, as the template says it; the zones of their volumes are not among it."""

    @property
    def ready(self) -> bool:
        return self.replicas > 0 and self.ready_replicas >= self.replicas
