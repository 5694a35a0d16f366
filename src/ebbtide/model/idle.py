"""The durable state of a policy (activity, sleep and wakes), and the ledger of seconds per policy and
day.

    ACTIVE ──quiet──> IDLE ──threshold + keep-alive──> FALLING ──scaled──> ZERO
      ^                 │                                 │                  │
      └────activity─────┘        wake: always wins        v      wake        v
      ^                                                 WAKING <─────────────┘
      └──────────────────────ready────────────────────────┘

Every write is conditional on `rev`. A wake raises `wake_count`; the write that commits to ZERO is
conditional on the count it saw, and a call to the cluster on the version of the workload it saw, which a
wake changes. So no wake is lost.

Seconds in the ledger are whole. Money is `price_seconds / 3600`, where `price_seconds` is the exact
product of price per hour and seconds, so nothing is rounded before it is shown. Days are in the time zone
of the policy, so some have 23 or 25 hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.pod import FitCause, WorkloadRef


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


class PolicyCause(StrEnum):
    """Why a policy does something, or leaves its target as it is."""

    NONE = ""
    """Nothing to say, or stored by a version that did not write it down."""
    DISABLED = "disabled"
    ZERO_OFF = "zero_off"
    """`scale_to_zero` is off."""
    NO_SIGNALS = "no_signals"
    """Idleness is not watched."""
    SIGNAL_UNKNOWN = "signal_unknown"
    SIGNAL_FAILING = "signal_failing"
    """The metrics do not answer."""
    ACTIVITY = "activity"
    """A signal is above its threshold."""
    REPORTED = "reported"
    """Activity was reported."""
    QUIET = "quiet"
    """No signal shows activity."""
    UNREADABLE = "unreadable"
    """Its workloads could not be read."""
    MISSING = "missing"
    """A workload is not there."""
    DOWN_BY_HAND = "down_by_hand"
    """Somebody scaled it to 0."""
    UP_BY_HAND = "up_by_hand"
    """Somebody scaled it up from 0."""
    PAUSED = "paused"
    REMOVALS_PAUSED = "removals_paused"
    KEPT_UP = "kept_up"
    RELEASED = "released"
    """No longer paused, or no longer kept up."""
    AUTOSCALER = "autoscaler"
    """A HorizontalPodAutoscaler scales a workload."""
    EXTERNAL_SERVICE = "external_service"
    HEADLESS_SERVICE = "headless_service"
    NO_SELECTOR = "no_selector"
    NO_PORT = "no_port"
    """A Service has no TCP port."""
    NO_GATE = "no_gate"
    """No gate is ready, or none is configured."""
    GATE_FAILS = "gate_fails"
    """The cluster refuses the takeover of a Service, or does not answer."""
    NO_POD_READY = "no_pod_ready"
    ASLEEP = "asleep"
    WAKING = "waking"
    """A wake is in progress, or its calls are not answered."""
    NOT_LOOKED = "not_looked"
    """Nobody looked for so long that it is not idle time."""
    IDLE = "idle"
    """It has been idle for long enough."""
    CONTINUES = "continues"
    """It is on its way to zero, and not all of it is there."""
    AT_ZERO = "at_zero"
    UNANSWERED = "unanswered"
    """A wake that was not carried out is made again."""
    WOKEN = "woken"
    WOKEN_UP = "woken_up"
    """Woken while it was up."""
    EXPECTED = "expected"
    """It is woken ahead of its use."""
    READY = "ready"
    """A wake is over."""
    WINDOW_GROWS = "window_grows"
    """The keep-alive window: waking cost more than sleeping saved."""
    WINDOW_SHRINKS = "window_shrinks"
    WINDOW_RESET = "window_reset"
    """No wake for a day."""
    SCHEDULE = "schedule"
    RULE = "rule"
    """A rule moves the replicas."""
    COOLDOWN = "cooldown"
    BOUND = "bound"
    """`max_replicas` or `min_replicas`."""
    NOTHING_UP = "nothing_up"
    """No replicas are there that a rule could change."""
    TOO_EXPENSIVE = "too_expensive"
    NO_PRICE = "no_price"
    """`max_hourly_cost` is set, and the price is not known."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, _: object) -> PolicyCause:
        """One that only a newer version knows."""
        return cls.OTHER


@dataclass(frozen=True, slots=True)
class PolicyWhy:
    """Why a policy does something or does not: the cause, and the same for people. False where there is
    nothing to say."""

    cause: PolicyCause
    says: str
    about: str = ""
    """The workload, Service, signal, rule, schedule or setting."""
    found: float | None = None
    limit: float | None = None

    def __bool__(self) -> bool:
        return self.cause is not PolicyCause.NONE

    @property
    def brief(self) -> PolicyWhy:
        """What the state keeps of it."""
        return PolicyWhy(self.cause, self.says)


NO_WHY = PolicyWhy(PolicyCause.NONE, "")


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
    left_alone_cause: PolicyCause = PolicyCause.NONE
    rule_held: str = ""
    """Why a rule that fired did not move the replicas; empty once one moves them or none fires."""
    rule_held_cause: PolicyCause = PolicyCause.NONE
    priced: Priced | None = None
    """Kept from the first time that `max_hourly_cost` is asked, until `hourly_cost` changes."""
    node_first: NodeFirst | None = None
    """Whether a wake needs a node first, as the last round at zero saw it; a gate sees no nodes itself."""

    @property
    def is_scaled_to_zero(self) -> bool:
        return self.phase is Phase.ZERO

    @property
    def why_left_alone(self) -> PolicyWhy:
        return PolicyWhy(self.left_alone_cause, self.left_alone)

    @property
    def why_rule_held(self) -> PolicyWhy:
        return PolicyWhy(self.rule_held_cause, self.rule_held)


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


SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Stretch:
    """One unbroken time in one phase at one price. The ledger is the sum of them, and so is its rebuild
    from the log, where each is an entry of its own."""

    policy_id: str
    zone: str
    phase: Phase
    since: int
    until: int
    rate: Rate | None = None
    wakes: int = 0
    """Wakes that ended this stretch (0 or 1)."""
    wake_seconds: int = 0
    """How long the target then ran before it was of use: paid for, and not saved."""


@dataclass(frozen=True, slots=True)
class LedgerDay:
    """One row of `scaling_cost_savings`. Money of different currencies is never added up."""

    policy_id: str
    date: str
    """Of the policy's zone, ISO 8601."""
    currency: str = ""
    source: str = ""
    idle_seconds: int = 0
    """Idle and still up: what could have been saved. Idle hours as they are shown add the time at zero."""
    scaled_to_zero_seconds: int = 0
    idle_price_seconds: Decimal = Decimal(0)
    zero_price_seconds: Decimal = Decimal(0)
    wakes: int = 0
    wake_price_seconds: Decimal = Decimal(0)
    realised_price_seconds: Decimal = Decimal(0)
    """Of the nodes really not paid meanwhile; never more than `zero_price_seconds`."""
    unpriced_seconds: int = 0
    """At zero with no known price: time that is not turned into money."""


Days = Sequence[LedgerDay]
