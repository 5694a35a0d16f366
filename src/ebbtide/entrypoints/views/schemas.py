"""What the API answers about the cluster. Times are seconds since the epoch, money a decimal in a string."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ebbtide.entrypoints.views.inputs import why_not_plain


def _plain(text: str) -> str:
    if why := why_not_plain(text):
        raise ValueError(why)
    return text


Plain = Annotated[str, AfterValidator(_plain)]
"""One line that can be stored, logged and shown."""


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Step(Shape):
    """One node, or one move, of an operation."""

    kind: str
    """launch, removal, emptying or move."""
    name: str
    state: str
    since: int
    zone: str = ""
    reason: str = ""
    left: int | None = Field(default=None, description="Pods that a drain has still to move.")
    until: int = Field(
        default=0,
        description="When a launch is ready if it takes as long as launches did lately, or when a drain is "
        "given up; 0 where that is not known.",
    )


class OperationShape(Shape):
    id: str
    kind: str
    started_at: int
    reason: str
    node: str = Field(
        default="", description="That a spot notice is about; its instance, where it has not joined."
    )
    abort_reason: str = ""
    steps: list[Step]


class EntryShape(Shape):
    id: str
    at: int
    kind: str
    subject: str
    says: str = Field(description="For people. Programs read `data`.")
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="The fields of docs/reference/log.md; of a decision only what it began. "
        "Empty where an older version logged none.",
    )


class Brake(Shape):
    """Something that holds scaling back now, or would."""

    name: str
    on: bool
    says: str
    until: int | None = None


class UnfitShape(Shape):
    """A worker that is to be replaced."""

    node: str
    reason: str = Field(description="unhealthy, expired or drifted.")
    says: str = Field(description="Why, with both values.")


class HeadroomShape(Shape):
    """Room that is kept free, as the last tick saw it."""

    says: str = Field(description="The headroom in words.")
    wanted: int = Field(description="Pods there must be room for; 0 while its window is closed.")
    there: int = Field(description="Pods there is room for, after all pods that are pending.")
    missing: int


class StaleShape(Shape):
    """A source that cannot be read now: its values are those of `at`."""

    source: str = Field(description="cluster, cloud, metrics or runner.")
    at: int = Field(description="When it was last read; 0 if it never was, and its values are unknown.")
    says: str
    meanwhile: str = Field(description="What Ebbtide does not do until it can be read again.")


class StatusShape(Shape):
    cluster: str
    kind: str
    now: int
    rev: int
    ticked_at: int
    headline: str = Field(default="", description="What is going on now, in one sentence for people.")
    says: str = Field(description="What the last tick said, in its own sentence.")
    last_decision: EntryShape | None
    last_alarm: EntryShape | None
    operation: OperationShape | None = Field(
        description="What is in progress; the one that removes nodes where both lanes are open."
    )
    launching: OperationShape | None = Field(description="The operation that adds nodes.")
    removing: OperationShape | None = Field(description="The operation that takes nodes away.")
    refused: list[Step] = Field(
        description="Removals that the cloud refuses. They are set aside, and their nodes stay cordoned."
    )
    unfit: list[UnfitShape] = Field(
        description="Workers that are unwell, expired or drifted at the last tick; the first 50."
    )
    set_aside: OperationShape | None
    spots: list[OperationShape]
    brakes: list[Brake]
    lease_holder: str
    lease_says: str = Field(default="", description="Who may scale now, and what is known of who last might.")
    workers: int
    min_workers: int
    max_workers: int
    pods: int
    waiting: list[str]
    cpu: float | None
    headroom: list[HeadroomShape] = Field(description="For each that is configured, in its order.")
    cost_per_hour: str | None = Field(description="Of the workers whose price is known.")
    currency: str
    unpriced: int = Field(description="Workers whose price is not known.")
    problems: list[str]
    stale: list[StaleShape] = Field(
        default_factory=list,
        description="What cannot be read now; its last known values are given.",
    )
    last_cpu: float | None = Field(default=None, description="The CPU use known last, if `cpu` is unknown.")
    demo: bool = Field(description="Whether this is the demo, in which things can be broken.")


class NodeShape(Shape):
    name: str
    uid: str
    instance_id: str
    zone: str
    pool: str
    instance_type: str
    market: str
    state: str = Field(
        description=(
            "joining, ready, at risk, interrupted, not ready, cordoned, chosen, draining, drained, "
            "terminating, set aside."
        )
    )
    worker: bool
    created_at: int
    pods: int
    cpu_requested: float = Field(description="Share of its CPU that pods request, 0 to 1.")
    memory_requested: float
    cpu_milli: int = Field(default=0, description="CPU that pods can use on it, in thousandths.")
    memory_mib: int = Field(default=0, description="Memory that pods can use on it.")
    cpu_used: float | None = Field(
        default=None, description="Share of its CPU that is really used; unknown where it was never measured."
    )
    memory_used: float | None = Field(default=None, description="The same of its memory.")
    used_at: int | None = Field(default=None, description="When its use was measured.")
    price_per_hour: str | None
    currency: str
    price_source: str
    idle_since: int | None = Field(description="Since when it has no pod that counts.")
    kept_because: str = Field(
        description="Why the last decision did not remove it: of a worker that is ready, else empty."
    )
    kept_at: int | None = Field(
        default=None,
        description="When that was decided; a decision that comes to the same again is not logged again.",
    )


class NodesShape(Shape):
    at: int
    nodes: list[NodeShape]
    problems: list[str]


class AgainstShape(Shape):
    reason: str
    nodes: int = Field(description="How many nodes do not take the pod for this reason.")
    cause: str = Field("", description="The reason as one of a few values, such as cpu or taint.")


class PodShape(Shape):
    name: str
    node: str
    created_at: int
    cpu_milli: int
    memory_mib: int
    pending: bool
    says: str = Field(description="Why it is pending, and what is done about it.")
    cause: str = Field("", description="not_pending, fits, hopeless, coming, held or undecided.")
    against: list[AgainstShape]


class EntriesShape(Shape):
    entries: list[EntryShape]
    next_page_token: str = ""


class DecisionShape(Shape):
    id: str
    at: int
    action: str
    reason: str
    decision: dict[str, Any] = Field(description="The whole decision: every check with its sentence.")
    snapshot: dict[str, Any] = Field(description="How much was seen: nodes, pods, CPU, problems.")


class ReplayShape(Shape):
    id: str
    equal: bool
    action: str
    reason: str


class PauseBody(Shape):
    reason: Plain = Field("", max_length=500)


class SwitchShape(Shape):
    paused: bool
    reason: str
    says: str


class FaultShape(Shape):
    id: str
    name: str
    says: str


class SituationStepShape(Shape):
    says: str
    at: int | None = Field(description="When it was reached; null until then.")


class SituationShape(Shape):
    """A fault that somebody made, and how far its answer is."""

    fault_id: str
    name: str
    explains: str
    began_at: int
    ended_at: int | None
    steps: list[SituationStepShape]


class DemoShape(Shape):
    says: str
    faults: list[FaultShape]
    speed: float | None = Field(None, description="Simulated seconds for each real one, now.")
    situation: SituationShape | None = None


class SaysShape(Shape):
    says: str
