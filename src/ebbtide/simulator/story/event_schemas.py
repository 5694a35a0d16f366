"""The keys of an event: when, and exactly one thing that happens then."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from ebbtide.config.policies import PolicyKeys
from ebbtide.config.section import Section
from ebbtide.simulator.story.values import Seconds

OutOrBack = Literal["gone", "back"]
Replicas = Annotated[int, Field(ge=0, le=1_000_000)]
Players = Annotated[int, Field(ge=0, le=1_000_000)]


NodeName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a node"})]
PolicyName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a policy"})]
ZoneName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a zone"})]


class CapacityKeys(Section):
    """How many more instances the cloud can give."""

    zone: str | None = Field(None, description="Only in this zone; else in every zone of the pools.")
    type: str | None = Field(None, description="Only of this type; else of every type of the pools.")
    market: Literal["on-demand", "spot"] | None = Field(
        None, description="Only in this market; else in both."
    )
    left: int | None = Field(ge=0, le=1_000_000, description="How many; null for plenty.")


def _exactly_one(schema: dict[str, Any]) -> None:
    kinds = [name for name in schema["properties"] if name != "at"]
    schema["oneOf"] = [{"required": [name]} for name in kinds]


class EventKeys(Section):
    """Something that happens."""

    model_config = ConfigDict(json_schema_extra=_exactly_one)

    at: Seconds = Field(description="When, in seconds from the start.")
    cpu: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = Field(
        None,
        description="Average CPU of the ready workers from now on; null: measured from the pods.",
        json_schema_extra={"allowed": "a number from 0 to 1, or null"},
    )
    replicas: dict[str, Replicas] = Field(
        default_factory=dict,
        description="What workloads ask for from now on.",
        json_schema_extra={"allowed": "pairs of a workload and a number of replicas"},
    )
    policy: PolicyKeys | None = Field(None, description="Create or replace a policy, as PUT of the API does.")
    wake: PolicyName = Field("", description="Wake this policy, as the API does.")
    activity: PolicyName = Field("", description="Report activity of this policy, as the API does.")
    players: dict[str, Players | None] = Field(
        default_factory=dict,
        description="Players of game servers by pod; null: unknown.",
        json_schema_extra={"allowed": "pairs of a pod and a number of players or null"},
    )
    cordon: NodeName = Field("", description="A person cordons this node.")
    uncordon: NodeName = Field("", description="A person uncordons this node.")
    node_dies: NodeName = Field("", description="Its kubelet falls silent; the instance stays.")
    instance_gone: NodeName = Field("", description="The cloud takes it without notice.")
    spot_notice: NodeName = Field("", description="The cloud announces that it takes this node back.")
    rebalance: NodeName = Field("", description="The cloud recommends to leave this node.")
    spot_storm: ZoneName = Field(
        "", description="The cloud announces that it takes all spot nodes of this zone (or `all`) back."
    )
    zone_down: ZoneName = Field("", description="All nodes of this zone fall silent, and it has no capacity.")
    zone_up: ZoneName = Field("", description="The zone answers again.")
    metrics: OutOrBack | None = Field(None, description="The metrics server.")
    api_server: OutOrBack | None = Field(None, description="The API server of the cluster.")
    cloud: OutOrBack | None = Field(None, description="The API of the cloud.")
    capacity: CapacityKeys | None = Field(None, description="What the cloud can still give.")
    never_join: int = Field(0, ge=0, le=1_000_000, description="The next instances boot and never join.")
    refuse: Literal["terminate"] | None = Field(None, description="The cloud says a definite no to it.")
    allow: Literal["terminate"] | None = Field(None, description="The cloud no longer refuses it.")
    crash: Literal["next-effect", "next-write"] | None = Field(
        None, description="The runner dies right after its next effect or write; another follows."
    )
    pause: bool = Field(False, description="A person pauses removals, or resumes them (false).")
    settings: dict[str, Any] = Field(
        default_factory=dict,
        description="A new configuration is rolled out: these keys over those of the story.",
        json_schema_extra={"allowed": "keys of ebbtide.yaml"},
    )

    @model_validator(mode="after")
    def _one_thing(self) -> EventKeys:
        given = sorted(self.model_fields_set - {"at"})
        if len(given) != 1:
            found = f"there are {', '.join(given)}: write one event for each" if given else "there is none"
            raise ValueError(
                f"needs exactly one thing that happens, and {found}; allowed: {', '.join(KINDS)}"
            )
        if given[0] not in NULLABLE and getattr(self, given[0]) is None:
            raise ValueError(f"has nothing in {given[0]}; only {' and '.join(NULLABLE)} may be null")
        return self

    @property
    def kind(self) -> str:
        return next(iter(self.model_fields_set - {"at"}))

    @property
    def value(self) -> Any:
        return getattr(self, self.kind)


KINDS = tuple(name for name in EventKeys.model_fields if name != "at")
NULLABLE = ("cpu",)
ON_NODES = ("cordon", "uncordon", "node_dies", "instance_gone", "spot_notice", "rebalance")
ON_ZONES = ("spot_storm", "zone_down", "zone_up")
ON_POLICIES = ("wake", "activity")
