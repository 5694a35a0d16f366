"""The few fields of Kubernetes objects that matter, as they stand in JSON; all others are skipped.

What says where a pod may run is kept as raw bytes: equal bytes mean equal rules, so the pods of
one workload share one value and it is understood only once.
"""

from __future__ import annotations

import msgspec

ABSENT = msgspec.Raw(b"")
Amounts = dict[str, str | int | float]


class Struct(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Camel case on the wire; unknown fields are skipped."""


class Owner(Struct, frozen=True):
    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Struct, frozen=True):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0
    labels: msgspec.Raw = ABSENT
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None


class ObjectCondition(Struct, frozen=True):
    type: str
    status: str


class WireTaint(Struct, frozen=True):
    key: str
    effect: str
    value: str | None = None
    time_added: str | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None
    taints: list[WireTaint] | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class Address(Struct, frozen=True):
    type: str
    address: str


class Attached(Struct, frozen=True):
    name: str = ""


class NodeStatus(Struct, frozen=True):
    allocatable: Amounts | None = None
    conditions: list[ObjectCondition] | None = None
    addresses: list[Address] | None = None
    volumes_attached: list[Attached] | None = None
    volumes_in_use: list[str] | None = None


class WireNode(Struct, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class WireRequests(Struct, frozen=True):
    requests: Amounts | None = None


class Port(Struct, frozen=True):
    host_port: int | None = None


class Container(Struct, frozen=True):
    resources: WireRequests | None = None
    restart_policy: str | None = None
    ports: list[Port] | None = None


class Claim(Struct, frozen=True):
    claim_name: str


class EmptyDir(Struct, frozen=True):
    medium: str | None = None


class WirePodVolume(Struct, frozen=True):
    name: str = ""
    persistent_volume_claim: Claim | None = None
    ephemeral: msgspec.Raw = ABSENT
    empty_dir: EmptyDir | None = None
    host_path: msgspec.Raw = ABSENT


class Os(Struct, frozen=True):
    name: str = ""


class PodSpec(Struct, frozen=True):
    node_name: str | None = None
    containers: list[Container] = []
    init_containers: list[Container] | None = None
    resources: WireRequests | None = None
    overhead: Amounts | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    termination_grace_period_seconds: int | None = None
    scheduler_name: str | None = None
    os: Os | None = None
    volumes: list[WirePodVolume] | None = None
    scheduling_gates: list[msgspec.Raw] | None = None
    resource_claims: list[msgspec.Raw] | None = None
    node_selector: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT


class ContainerStatus(Struct, frozen=True):
    allocated_resources: Amounts | None = None


class PodStatus(Struct, frozen=True):
    phase: str = "Unknown"
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class WirePod(Struct, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class BudgetSpecPart(Struct, frozen=True):
    selector: msgspec.Raw = ABSENT


class BudgetStatus(Struct, frozen=True):
    disruptions_allowed: int = 0
    observed_generation: int = 0


class WireBudget(Struct, frozen=True):
    metadata: Meta
    spec: BudgetSpecPart = BudgetSpecPart()
    status: BudgetStatus = BudgetStatus()


class ClaimSpec(Struct, frozen=True):
    volume_name: str = ""


class WireClaim(Struct, frozen=True):
    metadata: Meta
    spec: ClaimSpec = ClaimSpec()


class Csi(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeAffinity(Struct, frozen=True):
    required: msgspec.Raw = ABSENT


class VolumeSpec(Struct, frozen=True):
    csi: Csi | None = None
    local: msgspec.Raw = ABSENT
    host_path: msgspec.Raw = ABSENT
    node_affinity: VolumeAffinity | None = None


class WireVolume(Struct, frozen=True):
    metadata: Meta
    spec: VolumeSpec = VolumeSpec()
