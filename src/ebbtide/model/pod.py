"""A pod, as far as draining and fitting need to know it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.resources import NOTHING, Resources
from ebbtide.model.scheduling import ANYWHERE, Labels, LabelSelector, Scheduling


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    node_name: str = ""
    phase: PodPhase = PodPhase.RUNNING
    ready: bool = True
    created_at: int = 0
    terminating: bool = False
    requests: Resources = NOTHING
    controller: str = ""
    """Kind of the owning controller ("ReplicaSet", "DaemonSet"), empty for a bare pod."""
    mirror: bool = False
    priority_class: str = ""
    local_storage: bool = False
    safe_to_evict: bool | None = None
    do_not_disrupt: bool = False
    grace_seconds: int = 30
    labels: Labels = ()
    scheduling: Scheduling = ANYWHERE
    volumes: tuple[str, ...] = ()
    annotations: Labels = ()
    """Those that say something about a game server (`core.servers`), sorted by key."""
    ends_at: int = 0
    """While terminating: when its grace is over; 0 where that is not known."""
    owner_uid: str = ""
    """UID of the owning controller: what takes the place of this pod has the same."""

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def tied_to_node(self) -> bool:
        """Comes and goes with its node, so it neither keeps one busy nor moves to another."""
        return self.mirror or self.controller == "DaemonSet"

    @property
    def waiting(self) -> bool:
        """Waits for a node: accepted, not placed, not on its way out."""
        return self.phase is PodPhase.PENDING and not self.node_name and not self.terminating


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget: how many of the pods it selects may be disturbed now."""

    namespace: str
    name: str
    selector: LabelSelector
    disruptions_allowed: int
