"""What the API takes and answers about policies, wakes and savings. The names are those users rely on."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from ebbtide.config.policies import PolicyKeys
from ebbtide.entrypoints.views.schemas import Plain, Shape
from ebbtide.model.idle import WakeReason

Reason = Annotated[WakeReason, Field(description="manual, scheduled, webhook or api_request.")]


class Strict(Shape):
    model_config = ConfigDict(extra="forbid", strict=True)


class WakeBody(Strict):
    reason: Reason = Field(WakeReason.MANUAL, strict=False)
    wait_for_ready: bool = Field(False, description="Answer when it is ready, or 504 after its timeout.")


class WakeAllBody(Strict):
    policy_ids: list[Plain] | None = Field(
        None, max_length=10_000, description="All that sleep, where none is named."
    )
    reason: Reason = Field(WakeReason.MANUAL, strict=False)


class ActivityBody(Strict):
    at: int | None = Field(None, ge=0, le=10**11, description="When, in seconds since the epoch; else now.")
    count: int = Field(1, ge=0, le=10**9, description="How many requests.")


class KeepUpBody(Strict):
    seconds: int = Field(ge=0, le=31_536_000, description="For how long it is not put to zero; 0 ends that.")


class PausedBody(Strict):
    paused: bool


class WokenShape(Shape):
    policy_id: str
    previous_replicas: int
    target_replicas: int
    wake_reason: str
    message: str
    estimated_ready_seconds: int
    wake_id: str
    status: str
    ready: bool
    node_wait: bool = Field(description="Whether it waits, or has waited, for a node.")


class WokenPolicy(Shape):
    policy_id: str
    status: str


class WakeAllShape(Shape):
    woken: int
    already_running: int
    policies: list[WokenPolicy]


class WakeTimeShape(Shape):
    at: int
    reason: str
    seconds: float
    node_seconds: float


class EtaShape(Shape):
    """How long a wake takes, or what is left of the one in progress."""

    seconds: int = Field(description="Until ready, from now: the 95th percentile of what was measured.")
    pod_seconds: float = Field(description="The pods' part of a whole wake.")
    pods_from: str = Field(description="wakes (its own), or default where none was timed.")
    node_first: str = Field(
        description="none, coming (on its way), launch (a node first), never, or unknown."
    )
    node_pool: str = Field("", description="The node pool of that node.")
    node_seconds: float = Field(0.0, description="The node's part of a whole wake.")
    node_from: str = Field("", description="wakes, pool, other_pools or default; empty without a node.")
    late: bool = Field(False, description="The wake in progress takes longer than expected.")
    says: str


class StateShape(Shape):
    phase: str
    last_activity_at: int
    idle_since: int | None
    scaled_to_zero_at: int | None
    last_wake_at: int | None
    wake_reason: str | None
    is_scaled_to_zero: bool
    wake_count: int
    keep_up_until: int
    paused: bool
    left_alone: str
    left_alone_cause: str = Field("", description="The reason in `left_alone` as one of a few values.")
    rule_held: str = Field("", description="Why a rule that fired did not move the replicas.")
    rule_held_cause: str = Field("", description="The reason in `rule_held` as one of a few values.")
    zero_at: int | None = Field(description="When it will sleep if it stays quiet; none where it will not.")
    why_awake: str = Field(description="Why it will not sleep; empty where it will.")
    keep_alive_seconds: int
    estimated_ready_seconds: float
    wakes: list[WakeTimeShape]
    eta: EtaShape | None = Field(None, description="Of what sleeps or wakes; none while it is awake.")


class PolicyShape(Shape):
    id: str
    version: int
    created_at: int
    updated_at: int
    target_says: str
    policy: PolicyKeys
    state: StateShape
    name: str


class PoliciesShape(Shape):
    now: int
    policies: list[PolicyShape]
    next_page_token: str = ""


class PieceShape(Shape):
    state: str = Field(description="awake, idle, asleep or waking.")
    since: int
    until: int


class WokenByShape(Shape):
    at: int
    reason: str = Field(description="manual, scheduled, webhook or api_request.")


class NextChangeShape(Shape):
    at: int
    does: str = Field(description="sleep, wake, or so many replicas.")


class StripShape(Shape):
    policy_id: str
    pieces: list[PieceShape] = Field(description="Without gaps, oldest first.")
    wakes: list[WokenByShape]
    next_change: NextChangeShape | None = Field(description="By its schedules; null where it has none.")


class StripsShape(Shape):
    now: int
    since: int
    policies: list[StripShape]


class DayShape(Shape):
    date: str
    idle_hours: float
    scaled_to_zero_hours: float
    savings_euros: float | None = Field(description="Potential; none where the currency is not EUR.")
    potential: str
    realised: str
    net: str
    wakes: int
    unpriced_seconds: int


class TotalsShape(Shape):
    potential: str
    realised: str
    wake_cost: str
    net: str
    missed: str = Field(description="The price of idle time in which it was still up.")
    unpriced_seconds: int


class SavingsShape(Shape):
    policy_id: str
    period: str
    first: str
    last: str
    yesterday: str
    currency: str
    total_idle_hours: float
    total_scaled_to_zero_hours: float
    estimated_savings_euros: float | None
    totals: TotalsShape
    sources: list[str] = Field(description="Who says what it costs.")
    daily_breakdown: list[DayShape] = Field(description="Newest first.")


class PolicySavings(Shape):
    policy_id: str
    estimated_savings_euros: float | None
    totals: TotalsShape


class SummaryShape(SavingsShape):
    policies: list[PolicySavings]
