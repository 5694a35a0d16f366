"""The keys of an event (when, and exactly one thing that happens then) and of an expectation (five forms,
told apart by the key that only one of them has), and the kinds of values that they share.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator

from ebbtide.config.policies import PolicyKeys
from ebbtide.config.section import AMOUNT, Section, read_cpu_milli, read_memory_mib

NODE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
WORKLOAD_NAME = r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"
NAME_ALLOWED = "lower-case letters, digits, - and ., 63 at most"
LONGEST_SECONDS = 10 * 366 * 86_400.0

Seconds = Annotated[
    float,
    Field(
        ge=0,
        le=LONGEST_SECONDS,
        allow_inf_nan=False,
        json_schema_extra={"allowed": f"a number of seconds from 0 to {LONGEST_SECONDS:.0f}"},
    ),
]
OutOrBack = Literal["gone", "back"]
Replicas = Annotated[int, Field(ge=0, le=1_000_000)]
Players = Annotated[int, Field(ge=0, le=1_000_000)]


NodeName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a node"})]
PolicyName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a policy"})]
ZoneName = Annotated[str, Field(json_schema_extra={"allowed": "the name of a zone"})]
Act = Literal["launch", "soft_taint", "cordon", "uncordon", "evict", "terminate", "delete_node", "scale"]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Many = Annotated[Count | None, Field(json_schema_extra={"allowed": "a whole number from 0 to 1000000"})]


def ordered(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError("a span whose low end is above its high end; allowed: [low, high]")
    return value


def _text(value: Any) -> Any:
    """YAML reads 20 as a number and true as a truth; labels and annotations hold text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _cpu(value: Any) -> int:
    return 0 if value in (0, "0") and not isinstance(value, bool) else read_cpu_milli(value)


def _memory(value: Any) -> int:
    return 0 if value in (0, "0") and not isinstance(value, bool) else read_memory_mib(value)


Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "number", "boolean"]})]
TextMap = Annotated[dict[str, Text], Field(json_schema_extra={"allowed": "pairs of a key and a text"})]
CpuMilli = Annotated[
    int, BeforeValidator(_cpu), AMOUNT, Field(json_schema_extra={"allowed": "4, 3.5 or 3500m"})
]
MemoryMib = Annotated[
    int, BeforeValidator(_memory), AMOUNT, Field(json_schema_extra={"allowed": "8Gi, 7600Mi or 8GB"})
]


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
    rebalance: NodeName = Field("", description="The cloud recommends leaving this node.")
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
    refuse_type: str = Field("", description="The cloud refuses this type from now on, as for a wrong image.")
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


class _Window(Section):
    after: Seconds | None = Field(None, description="Only from this time on.")
    before: Seconds | None = Field(None, description="Only before this time.")

    @model_validator(mode="after")
    def _not_empty(self) -> _Window:
        if self.after is not None and self.before is not None and self.after >= self.before:
            raise ValueError(f"has no time between after ({self.after:g}) and before ({self.before:g})")
        return self

    def holds(self, at: float) -> bool:
        return (self.after is None or at >= self.after) and (self.before is None or at < self.before)


class _OfAct(_Window):
    node: str | None = Field(None, min_length=1, description="Only acts on this node.")
    pod: str | None = Field(None, min_length=1, description="Only acts on this pod.")
    workload: str | None = Field(None, min_length=1, description="Only acts on this workload and its pods.")
    pool: str | None = Field(None, min_length=1, description="Only acts on nodes of this pool.")
    market: Literal["on-demand", "spot"] | None = Field(
        None, description="Only acts on nodes bought in this market."
    )


class NeverKeys(_OfAct):
    """Something that must not be done."""

    never: Act = Field(description="What must not be done.")


class HappensKeys(_OfAct):
    """Something that must be done."""

    happens: Act = Field(description="What must be done.")
    at_least: Many = Field(None, description="So often; else once.")
    at_most: Many = Field(None, description="Not more often.")

    @model_validator(mode="after")
    def _in_order(self) -> HappensKeys:
        if self.at_most is not None and self.at_least is not None and self.at_least > self.at_most:
            raise ValueError(f"asks for at least {self.at_least} and at most {self.at_most}")
        return self

    @property
    def least(self) -> int:
        """Once, where nothing is said but how often at most: then it need not happen."""
        if self.at_least is not None:
            return self.at_least
        return 0 if self.at_most is not None else 1


class EndKeys(Section):
    """The cluster when the story ends."""

    workers: Many = Field(None, description="Worker nodes in the cluster.")
    waiting: Many = Field(None, description="Pods without a node.")
    cordoned: Many = Field(None, description="Workers that take no pods.")
    open_operations: Many = Field(None, description="Operations and answers to spot notices.")


class AtEndKeys(Section):
    """How it must end."""

    at_end: EndKeys = Field(description="What must be so when the story ends.")


class AtKeys(Section):
    """How a workload must be at a time."""

    at: Seconds = Field(description="When, in seconds from the start.")
    replicas: dict[str, Count] | None = Field(
        None,
        description="What workloads ask for at that time.",
        json_schema_extra={"allowed": "pairs of a workload and a number"},
    )
    running: dict[str, Count] | None = Field(
        None,
        description="Pods of workloads that run at that time.",
        json_schema_extra={"allowed": "pairs of a workload and a number"},
    )

    @model_validator(mode="after")
    def _something(self) -> AtKeys:
        if self.replicas is None and self.running is None:
            raise ValueError("says a time and nothing else; allowed next to it: replicas, running")
        return self


class SaysKeys(_Window):
    """A sentence that some tick must say."""

    says: str = Field(min_length=1, description="Some tick's sentence contains it.")


FORMS: dict[str, type[Section]] = {
    "never": NeverKeys,
    "happens": HappensKeys,
    "at_end": AtEndKeys,
    "says": SaysKeys,
    "at": AtKeys,
}


def _form(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((f"<{name}>" for name in FORMS if name in value), None)
    return next((f"<{name}>" for name, form in FORMS.items() if isinstance(value, form)), None)


TAGS = {f"<{name}>": form for name, form in FORMS.items()}
"""Marks that the choice of a form leaves in the place of a problem."""

Expectation = Annotated[
    Annotated[NeverKeys, Tag("<never>")]
    | Annotated[HappensKeys, Tag("<happens>")]
    | Annotated[AtEndKeys, Tag("<at_end>")]
    | Annotated[SaysKeys, Tag("<says>")]
    | Annotated[AtKeys, Tag("<at>")],
    Discriminator(_form),
]
