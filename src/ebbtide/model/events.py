"""What is logged, as typed facts. `ebbtide.narrate` turns them into sentences; everything else reads these.

An entry's `data` holds the fields of its fact, without those that are None. A fact that an older version
logged without data, or in another shape, reads as nothing: its sentence is still there to be shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.decision import Decision
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.idle import Phase, PolicyCause, Stretch, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.operation import AbortCause, SpotEnd, SpotKind
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


class OperationKind(StrEnum):
    """What an operation is for."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    CONSOLIDATION = "consolidation"
    INTERRUPTION = "interruption"
    REBALANCE = "rebalance"
    REPLACEMENT = "replacement"
    """Of a worker that is unwell, expired or drifted."""


class PartKind(StrEnum):
    """One of the things that an operation follows, each with states of its own."""

    LAUNCH = "launch"
    REMOVAL = "removal"
    EMPTYING = "emptying"
    MOVE = "move"


class EffectKind(StrEnum):
    LAUNCH = "launch"
    TERMINATE = "terminate"
    EVICT = "evict"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    SOFT_TAINT = "soft-taint"
    DELETE_NODE = "delete-node"


class SpotAnswer(StrEnum):
    """How a spot notice was answered when it arrived."""

    TAKEN_IN = "taken-in"
    UPGRADED = "upgraded"
    """A recommendation was known; now the instance is lost."""
    KNOWN = "known"
    NOT_OURS = "not-ours"
    ALREADY_GOING = "already-going"
    TOO_OLD = "too-old"


class AlarmKind(StrEnum):
    TICK_FAILED = "tick-failed"
    ROUND_FAILED = "round-failed"
    OPERATION_CRASHES = "operation-crashes"
    OPERATION_ENDLESS = "operation-endless"
    SPOT_CRASHES = "spot-crashes"
    SPOT_FAILED = "spot-failed"
    INBOX_UNREADABLE = "inbox-unreadable"
    LOG_NOT_PRUNED = "log-not-pruned"
    OBSERVATION = "observation"
    """Something that was seen in the cluster or the cloud is not as it should be."""
    RUNNER_DIED = "runner-died"
    RECORD_HEALED = "record-healed"
    TERMINATE_REFUSED = "terminate-refused"
    """The cloud says no to the termination of a drained node."""
    SOURCE_GONE = "source-gone"
    """The cluster, the cloud or the metrics cannot be read any more."""
    SOURCE_BACK = "source-back"
    """They can be read again, or ticks succeed again."""


TICKS = "ticks"
"""Not a source that is read: the ticks themselves failed, as where the store cannot be read."""
OUTAGES = (AlarmKind.SOURCE_GONE, AlarmKind.SOURCE_BACK)
OVER_WITH_THE_NEXT_TICK = (AlarmKind.RUNNER_DIED, AlarmKind.TICK_FAILED)


class SwitchedBy(StrEnum):
    PERSON = "person"
    API = "api"


class PolicyChange(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a decision depended on."""

    snapshot: Snapshot
    record: Record
    settings: Settings
    now: int


@dataclass(frozen=True, slots=True)
class DecisionMade:
    decision: Decision
    """With every check and both of its numbers."""
    inputs: Inputs | None = None
    """All that it depended on, to compute it again; a simulation can be played again, and leaves it out."""


@dataclass(frozen=True, slots=True)
class OperationBegun:
    operation_id: str
    """Of the operation that it belongs to."""
    operation: OperationKind
    """What the operation is for."""
    action: str
    """The action that the decision named; a consolidation can begin with a scale-down of empty nodes."""
    decision_id: str
    """Of the decision that began it: `ebbtide explain` shows it."""
    launches: int
    """How many nodes are to be launched."""
    nodes: tuple[str, ...]
    """The nodes that are to be removed or emptied."""
    moves: int
    """How many pods are to be moved."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A part of an operation that did not come to what was wanted."""

    name: str
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True)
class OperationClosed:
    operation_id: str
    """Of the operation that it belongs to."""
    operation: OperationKind
    """What the operation is for."""
    succeeded: bool
    """Whether it did at least a part of what was wanted."""
    started_at: int
    """Seconds since the epoch; for a spot notice, when the cloud gave it."""
    ready: tuple[str, ...] = ()
    """Nodes that were launched and are Ready."""
    removed: tuple[str, ...] = ()
    """Nodes that are gone, after at least a part of their drain."""
    gone_already: tuple[str, ...] = ()
    """Nodes that were gone before anything was done to them."""
    emptied: tuple[str, ...] = ()
    """Nodes that consolidation emptied; they are removed later, by an operation of their own."""
    moved: int = 0
    """Pods that were moved."""
    kept: tuple[Kept, ...] = ()
    """Nodes that stay, and launches that failed, each with the reason."""
    set_aside: tuple[Kept, ...] = ()
    """Nodes that the cloud refuses to terminate: they stay cordoned, and are tried again later."""
    abort_reason: str = ""
    """Why it was given up; empty where it was not."""
    abort_cause: AbortCause = AbortCause.NONE
    """The same as one of a few values."""
    instance_id: str = ""
    """The instance that a spot notice was about."""
    end: SpotEnd = SpotEnd.OPEN
    """How the answer to a spot notice ended."""
    reason: str = ""
    """Why it ended so, where that is not plain."""


@dataclass(frozen=True, slots=True)
class Transition:
    operation_id: str
    """Of the operation that it belongs to."""
    operation: OperationKind
    """What the operation is for."""
    part: PartKind
    """What changed."""
    name: str
    """The node, or the pod of a move; the instance or the key of the launch before there is a node."""
    before: str
    """The state before; `new` for a part that was just added."""
    after: str
    """The state now."""
    reason: str = ""
    """Why."""
    instance_id: str = ""
    """The instance, once it is known."""
    node_name: str = ""
    """The node, once it is known."""
    pool: str = ""
    """The node pool of a launch."""
    key: str = ""
    """What all steps of one launch share, whichever offer it came to."""


@dataclass(frozen=True, slots=True)
class DrainResult(Transition):
    attempts: int = 0
    """How often the node was drained so far."""


@dataclass(frozen=True, slots=True)
class EffectDone:
    operation_id: str
    """Of the operation that it belongs to."""
    operation: OperationKind
    """What the operation is for."""
    effect: EffectKind
    """What was asked of the cluster or the cloud."""
    outcome: OutcomeKind
    """How it ended; `unknown` where it may or may not have happened."""
    name: str
    """The node, the instance, or the key of the launch."""
    detail: str = ""
    """What the cluster or the cloud answered."""
    pod: str = ""
    """`namespace/name` of the pod that is evicted."""
    instance_id: str = ""
    """The instance, once it is known."""
    instance_type: str = ""
    """Of a launch."""
    market: str = ""
    """Of a launch."""
    zone: str = ""
    """Of a launch."""


@dataclass(frozen=True, slots=True)
class SpotEvent:
    operation_id: str
    """Of the operation that it belongs to."""
    instance_id: str
    """The instance that the cloud takes back, or may."""
    notice: SpotKind
    """What the cloud said."""
    answer: SpotAnswer
    """How it was answered."""
    noticed_at: int
    """When the cloud gave the notice; seconds since the epoch."""
    deadline: int
    """When the instance will be gone; seconds since the epoch."""
    node_name: str = ""
    """Of the node on it, where one was known."""


@dataclass(frozen=True, slots=True)
class Alarm:
    alarm: AlarmKind
    """What is wrong."""
    detail: str = ""
    """The error, or what was seen."""
    operation_id: str = ""
    runs: int = 0
    """How often the runner crashed with it."""
    seconds: int = 0
    """How long it may take at most; of an outage that ended, how long it lasted."""
    unexpected: bool = False
    """An error that is none of ours: a bug."""
    source: str | None = None
    """Of an outage: `cluster`, `cloud` or `metrics`; `ticks` where ticks failed."""


@dataclass(frozen=True, slots=True)
class SwitchSet:
    paused: bool
    """Whether removals are paused from now on."""
    by: SwitchedBy
    """Who did it."""
    reason: str = ""
    """Why."""


@dataclass(frozen=True, slots=True)
class FaultStruck:
    """Somebody broke something in the demo."""

    detail: str
    """What was broken."""


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """What one candidate of a backtest would have cost over the whole recording."""

    name: str
    cost: str
    """In the currency of the backtest."""
    pending_seconds: float
    """How long all pods were pending, added up."""
    wait_p95: float
    """Seconds that a pod was pending, of those that did not fit at once."""
    evictions: float
    front: bool
    """No other candidate is as good in cost, pending time and evictions and better in one of them."""
    today: bool
    """Its settings are those of the cluster."""


@dataclass(frozen=True, slots=True)
class BacktestPublished:
    """Somebody let the pages show a backtest."""

    recording: str
    """Its file name."""
    seconds: float
    """How long the recording lasts."""
    currency: str
    """Empty where no price is known."""
    calibration: str
    """How far the simulation is from what was recorded."""
    tried: tuple[TriedSettings, ...]
    """What was compared."""


@dataclass(frozen=True, slots=True)
class PolicyWritten:
    policy: str
    """Its name; the subject is its id."""
    change: PolicyChange
    """What was done to the policy."""
    target: str
    """What it scales."""


@dataclass(frozen=True, slots=True)
class PolicyStep:
    policy: str
    """Its name; the subject is its id."""
    phase: Phase
    """In which it is now."""
    detail: str = ""
    """What was done, or why nothing was."""
    wake_reason: WakeReason | None = None
    """Who woke it, of a wake."""
    wake_id: str | None = None
    """Of a wake."""
    seconds: float | None = None
    """From the wake until ready, once it is."""
    node_seconds: float | None = None
    """How many of them it waited for a node."""
    cause: PolicyCause | None = None
    """The reason in `detail` as one of a few values."""
    about: str | None = None
    """The workload, Service, signal, rule, schedule or setting it is about."""
    found: float | None = None
    """What was found, such as a number of replicas or an hourly cost."""
    limit: float | None = None
    """The limit it has."""


@dataclass(frozen=True, slots=True)
class StretchClosed:
    stretch: Stretch
    """What a rebuild of the ledger needs."""


@dataclass(frozen=True, slots=True)
class CostNoted:
    perHour: dict[str, str]
    """By currency, of the workers whose price is known."""
    unpriced: int
    """Workers whose price is not known."""
    workers: int | None = None
    """How many workers there were."""
    pending: int | None = None
    """How many pods were pending."""
    onDemand: dict[str, str] | None = None
    """What the same workers would cost with every one of them on demand, by currency."""
    pools: dict[str, dict[str, str]] | None = None
    """Cost an hour by pool and currency."""
    demand: dict[str, tuple[int, int, int]] | None = None
    """Pods, CPU in milli and memory in MiB that were asked of each pool at most, where demand is forecast."""
    demandSince: int | None = None
    """From when, for a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class ConsolidationEvaluated:
    """Exactly the fields of the consolidation policy's log entry."""

    event: str
    nodes_before: int
    nodes_after: int
    nodes_removed: tuple[str, ...]
    nodes_kept: tuple[str, ...]
    cost_savings_per_hour: float
    cost_savings_per_month: float
    containers_migrated: int
    reason: str
    """Why."""


Event = (
    DecisionMade
    | OperationBegun
    | OperationClosed
    | Transition
    | DrainResult
    | EffectDone
    | SpotEvent
    | Alarm
    | SwitchSet
    | FaultStruck
    | BacktestPublished
    | PolicyWritten
    | PolicyStep
    | StretchClosed
    | CostNoted
    | ConsolidationEvaluated
)

FACTS: dict[LogKind, tuple[type[Event], ...]] = {
    LogKind.DECISION: (DecisionMade,),
    LogKind.OPERATION_BEGUN: (OperationBegun,),
    LogKind.OPERATION_CLOSED: (OperationClosed,),
    LogKind.TRANSITION: (Transition,),
    LogKind.EFFECT: (EffectDone,),
    LogKind.DRAIN_RESULT: (DrainResult,),
    LogKind.SPOT_EVENT: (SpotEvent,),
    LogKind.ALARM: (Alarm,),
    LogKind.SWITCH: (SwitchSet, FaultStruck, BacktestPublished),
    LogKind.POLICY: (PolicyWritten, PolicyStep),
    LogKind.IDLE: (PolicyStep,),
    LogKind.WAKE: (PolicyStep,),
    LogKind.STRETCH: (StretchClosed,),
    LogKind.RULE: (PolicyStep,),
    LogKind.COST: (CostNoted,),
    LogKind.CONSOLIDATION: (ConsolidationEvaluated,),
}
"""What the entries of each kind hold."""
