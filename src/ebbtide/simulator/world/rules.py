"""How the simulated cloud and cluster behave (times, chances, faults), and how many pods a workload wants
over time: steady, day and night, bursts, batches, or recorded. Plain, frozen values.

A recording is a CSV file with a header line:

    seconds,replicas,workload
    0,10,web
    3600,25,web

`seconds` counts from the start of the simulation and must not go back within a workload. `replicas` holds
until the next line. Without `workload`, the line is for the workload `web`.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ebbtide.errors import ConfigError
from ebbtide.model.pod import Pod, Resources

DAY = 86_400.0


class Curve(StrEnum):
    STEADY = "steady"
    DAY = "day"
    BURST = "burst"
    BATCH = "batch"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True)
class Demand:
    """`low` pods normally. What `high` means depends on the curve: the peak of a day, the height of a
    burst of `burst_seconds` every `every_seconds`, or the size of a batch of jobs begun that often."""

    curve: Curve = Curve.STEADY
    low: int = 1
    high: int = 1
    step_seconds: float = 600.0
    peak_second: float = 15 * 3600.0
    """When in the day the peak is."""
    every_seconds: float = 3600.0
    burst_seconds: float = 900.0
    offset_seconds: float = 0.0
    points: tuple[tuple[float, int], ...] = ()
    """Where there are any, they alone say it: the curve is `RECORDED`."""

    def wanted_at(self, seconds: float) -> int:
        if self.points:
            known = bisect_right(self.points, (seconds, math.inf))
            return self.points[known - 1][1] if known else 0
        match self.curve:
            case Curve.STEADY:
                return self.low
            case Curve.DAY:
                share = (1 + math.cos(2 * math.pi * (seconds - self.peak_second) / DAY)) / 2
                return self.low + round((self.high - self.low) * share)
            case Curve.BURST:
                into = (seconds - self.offset_seconds) % self.every_seconds
                return self.high if seconds >= self.offset_seconds and into < self.burst_seconds else self.low
            case Curve.BATCH:
                return self.high if seconds >= self.offset_seconds else 0
            case Curve.RECORDED:
                return 0

    def next_change(self, seconds: float) -> float | None:
        """When to look at it again, later than `seconds`; None when it never changes."""
        if self.points:
            known = bisect_right(self.points, (seconds, math.inf))
            return self.points[known][0] if known < len(self.points) else None
        match self.curve:
            case Curve.STEADY:
                return None
            case Curve.DAY:
                return (seconds // self.step_seconds + 1) * self.step_seconds
            case Curve.BURST:
                if seconds < self.offset_seconds:
                    return self.offset_seconds
                started = seconds - (seconds - self.offset_seconds) % self.every_seconds
                edges = (started + self.burst_seconds, started + self.every_seconds)
                return next(edge for edge in edges if edge > seconds)
            case Curve.BATCH:
                if seconds < self.offset_seconds:
                    return self.offset_seconds
                return seconds - (seconds - self.offset_seconds) % self.every_seconds + self.every_seconds
            case Curve.RECORDED:
                return None


ONE_POD = Demand()


def read_recording(path: Path) -> dict[str, Demand]:
    """Demand by workload name; the name is empty for lines that name none."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return parse_recording(lines, str(path))
    except OSError as error:
        raise ConfigError(f"the recording {path} cannot be read: {error.strerror}") from error


def parse_recording(lines: Iterable[str], source: str = "recording") -> dict[str, Demand]:
    reader = csv.DictReader(lines)
    if not {"seconds", "replicas"} <= set(reader.fieldnames or ()):
        raise ConfigError(f"{source}: the first line must be seconds,replicas or seconds,replicas,workload")
    points: dict[str, list[tuple[float, int]]] = {}
    for row in reader:
        where = f"{source} line {reader.line_num}"
        try:
            at, count = float(row["seconds"]), int(row["replicas"])
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{where}: seconds and replicas must be numbers, found {row}") from error
        known = points.setdefault(row.get("workload") or "", [])
        if not math.isfinite(at) or at < (known[-1][0] if known else 0.0) or count < 0:
            raise ConfigError(f"{where}: seconds must not go back and nothing may be negative, found {row}")
        known.append((at, count))
    if not points:
        raise ConfigError(f"{source} holds no line after the header")
    return {name: Demand(curve=Curve.RECORDED, points=tuple(found)) for name, found in points.items()}


@dataclass(frozen=True, slots=True)
class Span:
    """A time that is not known exactly: anything from `low` to `high`, in seconds."""

    low: float
    high: float


class Identity(StrEnum):
    """By what a node can be matched to its instance: by provider id and label, as our join sets them, by
    the label alone, or only by its address."""

    PROVIDER = "provider"
    LABEL = "label"
    ADDRESS = "address"


@dataclass(frozen=True, slots=True)
class Rules:
    boot: Span = Span(15, 30)
    """From launch to running."""
    join: Span = Span(20, 50)
    """From running to a Node object."""
    ready: Span = Span(5, 15)
    """From Node object to Ready."""
    terminate: Span = Span(15, 40)
    """From the call to gone."""
    listed_seconds: float = 3600.0
    """How long an instance that is gone is still listed."""
    invisible_seconds: float = 0.0
    """How long a new instance is not listed yet."""
    never_join: float = 0.0
    """The chance that an instance boots and never joins."""
    late_join: float = 0.0
    """The chance that an instance joins only after `late_join_span`."""
    late_join_span: Span = Span(180, 420)
    """From running to a Node object, where that is late."""
    unready_seconds: float = 40.0
    """How long a dead node still looks Ready."""
    lost_pods_seconds: float = 60.0
    """How long after that its pods are given up."""
    detach: Span = Span(2, 6)
    """From the end of a pod to the detaching of its volume."""
    react_seconds: float = 1.0
    """How long controllers and the scheduler take to notice."""
    late_bind_seconds: float = 0.0
    """Above 0: after a cordon the scheduler still binds a pod there, within this time."""
    spot_life_seconds: float = 0.0
    """Mean life of a spot instance; 0 means that it is never taken back."""
    notice_seconds: float = 120.0
    """From the interruption notice to the loss."""
    rebalance_chance: float = 0.0
    """How often a recommendation to rebalance comes before the notice."""
    duplicate_notices: float = 0.0
    notice_delay: Span = Span(0, 0)
    """How late a notice reaches the inbox; a wide span puts notices out of order."""
    names_from_address: bool = True
    """Whether a node is named after its address, which is then reused."""
    names_taken_over: bool = False
    """Whether a machine joins under a name whose Node object a dead machine left: as where a cloud controller
    deletes that object. Otherwise it waits until somebody does."""
    identity: Identity = Identity.PROVIDER
    call_seconds: float = 0.0
    """How long one call to the cluster or the cloud takes."""
    node_overhead_milli: int = 60
    """CPU that a node uses for itself."""


class Kind(StrEnum):
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"
    DAEMON_SET = "DaemonSet"
    JOB = "Job"
    BARE = "Bare"
    STATIC = "Static"
    """Mirror pods, one on each node that the template fits."""

    @property
    def per_node(self) -> bool:
        return self in (Kind.DAEMON_SET, Kind.STATIC)


CONTROLLER_OF = {
    Kind.DEPLOYMENT: "ReplicaSet",
    Kind.STATEFUL_SET: "StatefulSet",
    Kind.DAEMON_SET: "DaemonSet",
    Kind.JOB: "Job",
    Kind.BARE: "",
    Kind.STATIC: "Node",
}


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A controller and the pods it makes. Name and namespace are those of the template."""

    template: Pod
    kind: Kind = Kind.DEPLOYMENT
    demand: Demand = ONE_POD
    use_fraction: float = 0.5
    """How much of the requested CPU a pod really uses."""
    start_seconds: float = 4.0
    stop_seconds: float = 5.0
    """How long a pod takes to end; never longer than its grace."""
    run_seconds: float = 0.0
    """For a Job: how long one pod works."""
    volume: bool = False
    """For a StatefulSet: each pod has a volume, bound to the zone where it first runs."""
    requests: Demand | None = None
    """Requests a second that people send to it as time goes by; none where nobody counts them."""

    @property
    def key(self) -> str:
        return f"{self.template.namespace}/{self.template.name}"


@dataclass(frozen=True, slots=True)
class BudgetSpec:
    """A disruption budget over one workload. Two over the same one make its pods unevictable."""

    name: str
    workload: str
    max_unavailable: int | None = None
    min_available: int | None = None

    def allowed(self, healthy: int, expected: int) -> int:
        wanted = (
            self.min_available if self.min_available is not None else expected - (self.max_unavailable or 0)
        )
        return max(healthy - wanted, 0)


def pod_template(name: str, cpu_milli: int, memory_mib: int, namespace: str = "default") -> Pod:
    """A template to begin with; use `dataclasses.replace` for the rest."""
    return Pod(
        namespace=namespace,
        name=name,
        uid="",
        requests=Resources(cpu_milli, memory_mib),
        labels=(("app", name),),
    )
