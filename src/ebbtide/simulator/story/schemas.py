"""Every key of a story: its type, its bounds and what it means. The parser and the JSON schema for editors
come from here.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.json_schema import models_json_schema

from ebbtide.config.schema import Document
from ebbtide.config.section import Section
from ebbtide.simulator.story.event_schemas import (
    NAME_ALLOWED,
    NODE_NAME,
    WORKLOAD_NAME,
    CpuMilli,
    EventKeys,
    Expectation,
    MemoryMib,
    Seconds,
    TextMap,
    ordered,
)

START = "2026-01-01T00:00:00Z"
MOST_PODS = 1_000_000
MOST_NODES = 100_000
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _instant(value: Any) -> Any:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        moment = None
    if moment is None:
        raise ValueError("no time; allowed: a date with time and zone such as 2026-01-01T00:00:00Z")
    return value


def epoch_of(start: str) -> int:
    """A time without a zone is meant in UTC."""
    moment = datetime.fromisoformat(start)
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


Span = Annotated[
    tuple[Seconds, Seconds],
    AfterValidator(ordered),
    Field(json_schema_extra={"allowed": "two numbers of seconds, [low, high]"}),
]


class CloudKeys(Section):
    """How long things take in the simulated cloud."""

    boot_sec: Span = Field((15.0, 30.0), description="From launch to running.")
    join_sec: Span = Field((20.0, 50.0), description="From running to a Node object.")
    ready_sec: Span = Field((5.0, 15.0), description="From Node object to Ready.")
    never_join: float = Field(0.0, ge=0, le=1, description="Share of the instances that never join.")
    invisible_sec: Seconds = Field(0.0, description="How long a new instance is not listed yet.")
    call_sec: Seconds = Field(0.0, description="How long each call to the cluster or the cloud takes.")
    late_bind_sec: Seconds = Field(0.0, description="How long after a cordon a pod may still be bound there.")
    spot_life_sec: Seconds = Field(0.0, description="Mean life of a spot instance; 0: it is never taken.")
    rebalance_chance: float = Field(0.0, ge=0, le=1, description="How often a recommendation comes first.")
    duplicate_notices: float = Field(0.0, ge=0, le=1, description="How often a notice comes twice.")
    notice_delay_sec: Span = Field((0.0, 0.0), description="How late a notice comes.")


class NodeKeys(Section):
    """A node that is there from the start."""

    name: str = Field(
        pattern=NODE_NAME,
        description="Its name, by which events and expectations call it.",
        json_schema_extra={"allowed": NAME_ALLOWED},
    )
    pool: str | None = Field(None, description="Its pool; empty for a node that is not ours.")
    type: str | None = Field(None, description="Its type; else the first of its pool.")
    zone: str | None = Field(None, min_length=1, description="Its zone; else the first of its pool.")
    age_sec: Seconds = Field(7200.0, description="How old it is at the start.")
    market: Literal["on-demand", "spot"] | None = Field(None, description="Else the market of its pool.")
    ready: bool = Field(True, description="Whether its kubelet answers.")
    cordoned_by: Literal["person"] | None = Field(None, description="Whether somebody has cordoned it.")
    labels: TextMap = Field(default_factory=dict, description="Labels of the Node object.")
    conditions: tuple[str, ...] = Field(
        (),
        description="Conditions that it reports apart from Ready.",
        json_schema_extra={"allowed": "a list of Type=Status, such as KernelDeadlock=True"},
    )
    protected: bool = Field(False, description="Whether the cloud refuses to terminate it.")
    count: int | None = Field(
        None, ge=1, le=MOST_NODES, description="So many of them, with -1, -2, ... behind the name."
    )

    def names(self) -> list[str]:
        if self.count is None:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(1, self.count + 1)]


class PdbKeys(Section):
    """A disruption budget over the pods of the workload."""

    min_available: int | None = Field(None, ge=0, le=MOST_PODS, description="So many must stay.")
    max_unavailable: int | None = Field(None, ge=0, le=MOST_PODS, description="So many may be away.")

    @model_validator(mode="after")
    def _one_of_both(self) -> PdbKeys:
        if (self.min_available is None) == (self.max_unavailable is None):
            raise ValueError("needs exactly one of min_available and max_unavailable")
        return self


class DemandKeys(Section):
    """A number that changes with time by itself: replicas, or requests a second."""

    curve: Literal["steady", "day", "burst", "batch"] = Field("steady", description="How it goes.")
    low: int = Field(1, ge=0, le=MOST_PODS, description="At rest.")
    high: int = Field(1, ge=0, le=MOST_PODS, description="At the peak, in a burst, or of one batch of jobs.")
    peak_sec: Seconds = Field(54_000.0, description="When in the day the peak is.")
    step_sec: Annotated[float, Field(gt=0, le=86_400)] = Field(600.0, description="How often a day changes.")
    every_sec: Annotated[float, Field(gt=0, le=31_536_000)] = Field(
        3600.0, description="From one burst or batch to the next."
    )
    burst_sec: Seconds = Field(900.0, description="How long a burst lasts.")
    offset_sec: Seconds = Field(0.0, description="When the first burst or batch comes.")


class TolerationKeys(Section):
    """As in a pod of Kubernetes."""

    key: str = Field("", description="Of the taint; empty for every key.")
    operator: Literal["Equal", "Exists"] = Field("Equal", description="Exists ignores the value.")
    value: str = Field("", description="Of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Of the taint; left out for every effect."
    )


class WorkloadKeys(Section):
    """A controller and its pods."""

    name: str = Field(
        pattern=WORKLOAD_NAME,
        description="Pods are name-0, ... of a StatefulSet, and name-1, ... of all others.",
        json_schema_extra={"allowed": NAME_ALLOWED},
    )
    kind: Literal["Deployment", "StatefulSet", "DaemonSet", "Job", "Bare"] = Field(
        "Deployment", description="Bare pods have no controller."
    )
    replicas: int = Field(1, ge=0, le=MOST_PODS, description="How many pods it asks for at the start.")
    cpu: CpuMilli = Field(0, description="CPU that each pod requests.")
    memory: MemoryMib = Field(0, description="Memory that each pod requests.")
    on: tuple[str, ...] = Field(
        (),
        description="Where its pods start, one name for each pod; else the scheduler decides.",
        json_schema_extra={"allowed": "a list of names of nodes"},
    )
    annotations: TextMap = Field(default_factory=dict, description="Annotations of its pods.")
    namespace: str = Field("default", pattern=WORKLOAD_NAME, description="Its namespace.")
    labels: TextMap = Field(default_factory=dict, description="Labels of its pods, next to app.")
    pdb: PdbKeys | None = Field(None, description="Its disruption budget.")
    more_pdbs: tuple[PdbKeys, ...] = Field(
        (), description="Further budgets over the same pods; with two of them no pod can be evicted."
    )
    demand: DemandKeys | None = Field(None, description="Replicas that change by themselves.")
    requests: DemandKeys | None = Field(
        None, description='Requests a second, which policies read as requests{workload="namespace/name"}.'
    )
    start_sec: Seconds = Field(4.0, description="How long a pod takes to start.")
    stop_sec: Seconds = Field(5.0, description="How long a pod takes to end.")
    run_sec: Seconds | None = Field(None, description="How long a pod of a Job works; else 600.")
    cpu_use: float = Field(0.5, ge=0, le=100, description="Share of the request that a pod really uses.")
    volume: bool = Field(False, description="Whether each pod has a volume, bound to its zone.")
    local_storage: bool = Field(False, description="Whether its pods keep data on their node.")
    priority_class: str = Field("", description="Priority class of its pods.")
    node_selector: TextMap = Field(default_factory=dict, description="Labels that its nodes must have.")
    tolerations: tuple[TolerationKeys, ...] = Field((), description="Taints that its pods tolerate.")
    spread: Literal["zone", "host"] | None = Field(None, description="Spread evenly over zones or hosts.")
    anti_affinity: Literal["host", "zone"] | None = Field(None, description="At most one pod in each.")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> WorkloadKeys:
        if self.run_sec is not None and self.kind != "Job":
            raise ValueError(f"has run_sec, which only a Job has; this is a {self.kind}")
        if self.on and self.kind == "DaemonSet":
            raise ValueError("has on, although a DaemonSet runs on every node that it fits")
        if len(self.on) > self.replicas:
            raise ValueError(f"names {len(self.on)} nodes in on for {self.replicas} replicas")
        if self.demand is not None and "replicas" in self.model_fields_set:
            raise ValueError("has both replicas and demand; give one of them")
        return self

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class StoryKeys(Section):
    """A story: a cluster, what happens to it, and what must or must not follow."""

    name: str = Field(min_length=1, description="What the story is about, in a sentence.")
    runner: Literal["daemon", "lambda"] = Field(
        "daemon", description="lambda is a fresh process for each tick, with a time limit of 120 s."
    )
    tick_sec: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        60.0,
        description="Time between two ticks.",
        json_schema_extra={"allowed": "a number of seconds above 0, at most 86400"},
    )
    until: Seconds = Field(description="How many seconds of simulated time it lasts.")
    faults: tuple[str, ...] = Field(
        (), description="Calls of the runner that go wrong by chance, as `--faults` names them."
    )
    calm_sec: Seconds = Field(3600.0, description="How long before the end the faults cease.")
    seed: int = Field(1, ge=0, le=2**63 - 1, description="The same seed gives the same run.")
    start: Annotated[str, BeforeValidator(_instant)] = Field(START, description="What time 0 is.")
    settings: dict[str, Any] = Field(
        default_factory=dict,
        description="Keys of ebbtide.yaml.",
        json_schema_extra={"allowed": "keys of ebbtide.yaml"},
    )
    cloud: CloudKeys = Field(default_factory=CloudKeys, description="How the cloud behaves.")
    nodes: tuple[NodeKeys, ...] = Field((), description="Nodes that are there from the start.")
    workloads: tuple[WorkloadKeys, ...] = Field((), description="What runs on them.")
    events: tuple[EventKeys, ...] = Field((), description="What happens, in the order of time.")
    expect: tuple[Expectation, ...] = Field((), description="What must and must not follow.")


def story_schema() -> dict[str, Any]:
    """`settings` has the keys of ebbtide.yaml, none of them required."""
    _, both = models_json_schema([(StoryKeys, "validation"), (Document, "validation")])
    definitions = both["$defs"]
    story = definitions.pop(StoryKeys.__name__)
    for shape in (story, definitions[EventKeys.__name__]):
        said = shape["properties"]["settings"]["description"]
        shape["properties"]["settings"] = {"$ref": f"#/$defs/{Document.__name__}", "description": said}
    return {"$schema": DRAFT, **story, "$defs": definitions}


def schema_text() -> str:
    return json.dumps(story_schema(), indent=2, ensure_ascii=False)
