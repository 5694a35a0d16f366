"""A node as the cluster shows it, and an instance as the cloud shows it.

They are two things: an instance may never join, and a node may outlive its instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.resources import NOTHING, Resources
from ebbtide.model.scheduling import Labels, Taint, TaintEffect

LEAVING = Taint("ebbtide.dev/leaving", TaintEffect.PREFER_NO_SCHEDULE)
"""On a node that is to go, from before its cordon until it is given back: better not here."""


class Market(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The annotation that a soft taint or a cordon of ours leaves on a node."""

    operation_id: str
    token: int
    cordoned: bool = True
    """Whether the cordon, where there is one, is ours too; before that there is only the soft taint, and
    a cordon is a person's."""


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    uid: str
    provider_id: str = ""
    instance_id: str = ""
    """From the label set at join; used where there is no provider id."""
    private_ip: str = ""
    zone: str = ""
    pool: str = ""
    """Name of the pool it belongs to; empty for a node that is not ours."""
    instance_type: str = ""
    market: Market = Market.ON_DEMAND
    created_at: int = 0
    ready: bool = True
    unschedulable: bool = False
    control_plane: bool = False
    system: bool = False
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    allocatable: Resources = NOTHING
    max_pods: int = 110
    owner: Ownership | None = None
    volumes_attached: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    """What it reports of itself apart from Ready, as `Type=Status`; a pressure that is not there is left
    out."""

    @property
    def cordoned_by_us(self) -> bool:
        return self.unschedulable and self.owner is not None and self.owner.cordoned

    @property
    def worker(self) -> bool:
        """Ours to count and to remove: in a pool, no control plane, not marked as system."""
        return bool(self.pool) and not self.control_plane and not self.system


class InstanceState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Instance:
    id: str
    provider_id: str = ""
    key: str = ""
    """Idempotency key of the launch slot that made it; empty where it was not made by us."""
    pool: str = ""
    zone: str = ""
    instance_type: str = ""
    market: Market = Market.ON_DEMAND
    state: InstanceState = InstanceState.RUNNING
    launched_at: int = 0
    private_ip: str = ""
    launch_hash: str = ""
    """Of the configuration it was launched with; empty where it carries none."""

    @property
    def alive(self) -> bool:
        return self.state is InstanceState.RUNNING or self.state is InstanceState.PENDING
