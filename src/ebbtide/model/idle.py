"""What is known of one policy since it was written: activity, sleep, wakes. Durable, one row each.

    ACTIVE ──quiet──> IDLE ──threshold + keep-alive──> FALLING ──scaled──> ZERO
      ^                 │                                 │                  │
      └────activity─────┘        wake: always wins        v      wake        v
      ^                                                 WAKING <─────────────┘
      └──────────────────────ready────────────────────────┘

Every write is conditional on `rev`. A wake raises `wake_count`; the write that commits to ZERO is
conditional on the count it saw, and a call to the cluster on the version of the workload it saw, which
a wake changes. So no wake is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.scheduling import FitCause
from ebbtide.model.workload import WorkloadRef


class Phase(StrEnum):
    ACTIVE = "active"
    IDLE = "idle"
    FALLING = "falling"
    """Decided and recorded, perhaps not yet scaled."""
    ZERO = "zero"
    WAKING = "waking"


class WakeReason(StrEnum):
    MANUAL = "manual"
    SCHEDULED = "scheduled"
    WEBHOOK = "webhook"
    API_REQUEST = "api_request"


@dataclass(frozen=True, slots=True)
class Remembered:
    """The replicas a workload had before it went to zero."""

    ref: WorkloadRef
    replicas: int


@dataclass(frozen=True, slots=True)
class WakeTime:
    """How long one wake took, and how much of it was waiting for a node."""

    at: int
    seconds: float
    node_seconds: float = 0.0
    reason: WakeReason = WakeReason.MANUAL
    slept_seconds: float = 0.0
    """How long it had been at zero before: what the wake is weighed against."""


class NodeNeed(StrEnum):
    """Whether a target that sleeps needs a node before its pods can start."""

    NONE = "none"
    """The nodes that are ready have room."""
    COMING = "coming"
    """A node that is already on its way has room."""
    LAUNCH = "launch"
    """A node must be launched first."""
    NEVER = "never"
    """No node that may be launched would take it."""


@dataclass(frozen=True, slots=True)
class NodeFirst:
    need: NodeNeed
    pool: str = ""
    """The node pool of the node that comes or must be launched."""
    since: int = 0
    """When the node on its way was asked for."""
    why: str = ""
    """Why no node would take it."""
    cause: FitCause = FitCause.UNKNOWN
    """The same as one of a few values."""


@dataclass(frozen=True, slots=True)
class RuleTimer:
    """Since when the rule of this position (and content) has held; 0 while it does not."""

    rule: str
    since: int


@dataclass(frozen=True, slots=True)
class Rate:
    """What the target costs an hour while up, and who says so."""

    per_hour: Decimal
    currency: str
    source: str
    realised_per_hour: Decimal = Decimal(0)
    """At zero: how much of it is really not paid now, since the nodes are gone too."""


@dataclass(frozen=True, slots=True)
class Priced:
    """How many replicas the `hourly_cost` of a policy is the price of."""

    per_hour: Decimal
    replicas: int


@dataclass(frozen=True, slots=True)
class IdleState:
    policy_id: str
    rev: int = 0
    phase: Phase = Phase.ACTIVE
    last_activity_at: int = 0
    idle_since: int | None = None
    scaled_to_zero_at: int | None = None
    last_wake_at: int | None = None
    wake_reason: WakeReason | None = None
    wake_count: int = 0
    """Raised by every wake, whatever it found."""
    remembered: tuple[Remembered, ...] = ()
    wakes: tuple[WakeTime, ...] = ()
    """The last ones, newest last; `estimated_ready_seconds` is learned from them."""
    keep_up_until: int = 0
    paused: bool = False
    extra_keep_alive_seconds: int = 0
    """What the flap guard has added."""
    last_scaled_at: int = 0
    """For the cooldown of the rules."""
    timers: tuple[RuleTimer, ...] = ()
    scheduled_until: int = 0
    """Schedules have been answered up to this moment."""
    checked_at: int = 0
    """When it was last looked at; a long silence is not idle time."""
    rate: Rate | None = None
    """The price of the stretch that is in progress; a change of price closes it."""
    stretch_since: int = 0
    """Since when the present stretch (of phase and rate) has run; what is before is in the ledger."""
    left_alone: str = ""
    """Why it is not touched at present: an HPA, a person's hand, a workload that is not there."""
    rule_held: str = ""
    """Why a rule that fired did not move the replicas; empty once one moves them or none fires."""
    priced: Priced | None = None
    """Kept from the first time that `max_hourly_cost` is asked, until `hourly_cost` changes."""
    node_first: NodeFirst | None = None
    """Whether a wake needs a node first, as the last round at zero saw it; a gate sees no nodes itself."""

    @property
    def is_scaled_to_zero(self) -> bool:
        return self.phase is Phase.ZERO


@dataclass(frozen=True, slots=True)
class Once:
    """A key that counts once, such as the id of a webhook, up to and including `expires_at`."""

    key: str
    value: str
    expires_at: int
    now: int


def wake_id(policy_id: str, wake_count: int) -> str:
    """The id by which one wake is known to its callers."""
    return f"wake-{policy_id}-{wake_count}"
