"""Policies: what may be scaled, between which bounds, by which rules, and when it may go to zero.

A policy is what people wrote. What happened to it since is in `ebbtide.model.idle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from ebbtide.model.gate import Gate
from ebbtide.model.workload import WorkloadRef

FROM_CONFIGURATION = "configuration"
"""The origin of a policy that stands in the configuration."""


@dataclass(frozen=True, slots=True)
class Target:
    """One workload, several as a group that sleeps and wakes together, or a whole node pool."""

    workloads: tuple[WorkloadRef, ...] = ()
    pool: str = ""

    def __str__(self) -> str:
        return f"pool {self.pool}" if self.pool else ", ".join(str(each) for each in self.workloads)


class Operator(StrEnum):
    GT = "gt"
    LT = "lt"
    GTE = "gte"
    LTE = "lte"
    EQ = "eq"


@dataclass(frozen=True, slots=True)
class Rule:
    """Scale by so many replicas once the metric has compared so for the duration."""

    metric: str
    """PromQL."""
    operator: Operator
    threshold: float
    duration_seconds: int = 0
    scale_by: int = 1
    """Negative scales down."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """At each time of the cron expression: sleep (`replicas` 0), so many replicas, or a wake."""

    cron: str
    zone: str = "UTC"
    replicas: int = 1
    except_dates: tuple[str, ...] = ()
    """Days of the zone, ISO 8601, on which it does not fire: holidays."""
    wake: bool = False
    """Restore what each workload had; `replicas` then says nothing."""
    written_at: int = 0
    """Since when it has been part of the policy: it never fires for an earlier time. 0: written by a version
    that did not note it."""

    @property
    def sleeps(self) -> bool:
        return not self.wake and self.replicas == 0


class SignalKind(StrEnum):
    PROMQL_RATE = "promql_rate"
    """Active while the query gives more than the threshold; the query is expected to be a rate."""
    PROMQL_VALUE = "promql_value"
    CONNECTIONS = "connections"
    """Open connections by PromQL; active above the threshold, whatever their traffic."""
    CPU = "cpu"
    """Cores in use by PromQL; active above the threshold."""
    REPORTED = "reported"
    """Requests that others report to the API. Never unknown: what was not reported did not happen."""


@dataclass(frozen=True, slots=True)
class Signal:
    kind: SignalKind
    query: str = ""
    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class Policy:
    id: str
    name: str
    target: Target
    min_replicas: int = 1
    max_replicas: int = 10
    cooldown_seconds: int = 300
    max_hourly_cost: Decimal | None = None
    scale_to_zero: bool = False
    enabled: bool = True
    rules: tuple[Rule, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    signals: tuple[Signal, ...] = ()
    """Any of them active is activity; any of them unknown is not idleness. Without any, idleness is not
    watched: only schedules put the target to sleep."""
    idle_threshold_seconds: int | None = None
    keep_alive_window_seconds: int | None = None
    cold_start_timeout_seconds: int | None = None
    """None: the default of the configuration."""
    grace_seconds: int = 300
    """After creation, after a deployment: not idle."""
    hourly_cost: Decimal | None = None
    """What its target costs while up, where a person knows better than the price book."""
    currency: str = "EUR"
    zone: str = "UTC"
    """Whose midnight splits the days of its ledger."""
    version: int = 0
    """Raised by every write; 0 was never written. The ETag of the API."""
    created_at: int = 0
    updated_at: int = 0
    gate: Gate | None = None
    """Wake on request: the Services whose first connection wakes it."""
    origin: str = ""
    """Who answers for it: `FROM_CONFIGURATION`, or empty where somebody made it by hand. A policy that has
    left the configuration is told from others by it."""


@dataclass(frozen=True, slots=True)
class ZeroDefaults:
    """`SCALE_TO_ZERO_*`, for policies that do not say themselves."""

    idle_threshold_seconds: int = 1800
    keep_alive_window_seconds: int = 300
    cold_start_timeout_seconds: int = 120
    check_interval_seconds: int = 60
    cost_tracking: bool = True
    max_keep_alive_seconds: int = 14400
    """How far the flap guard may stretch the keep-alive window."""
