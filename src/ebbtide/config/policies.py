"""A policy as people write it: in the configuration, in a file for `ebbtide policy apply`, in the API."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ebbtide.config.nodes import YEAR_SECONDS
from ebbtide.config.scale_to_zero import PolicyGateKeys, gate_keys_of
from ebbtide.config.section import Section
from ebbtide.core.schedule import check_cron, check_zone
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Operator, Policy, Rule, Schedule, Signal, SignalKind, Target

NAME = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
KUBE_NAME = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
DEFAULTS = Policy("", "", Target())
MOST_REPLICAS = 10_000
MOST_COST = Decimal(1_000_000)
MOST_DATES = 366


def _cron(value: str) -> str:
    if wrong := check_cron(value):
        raise ValueError(f"no schedule: {wrong}")
    return value


def _zone(value: str) -> str:
    if wrong := check_zone(value):
        raise ValueError(f"no time zone: {wrong}")
    return value


def _day(value: Any) -> str:
    text = value.isoformat() if isinstance(value, date) else value
    try:
        return date.fromisoformat(text).isoformat()
    except (TypeError, ValueError):
        raise ValueError("no day; allowed: a date such as 2026-12-25") from None


def _amount(value: Any) -> Any:
    """A number as it was written: a float would bring digits that nobody wrote."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float | str | Decimal):
        try:
            amount = Decimal(str(value))
        except ArithmeticError:
            amount = Decimal("NaN")
        if not amount.is_finite() or not 0 <= amount <= MOST_COST:
            raise ValueError(f"no amount of money; allowed: 0 to {MOST_COST}")
        return amount
    return value


Cron = Annotated[str, Field(max_length=100), AfterValidator(_cron)]
Zone = Annotated[str, Field(max_length=64), AfterValidator(_zone)]
Day = Annotated[str, BeforeValidator(_day)]
Amount = Annotated[Decimal, BeforeValidator(_amount)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class WorkloadKeys(Section):
    kind: WorkloadKind = Field(
        WorkloadKind.DEPLOYMENT, strict=False, description="Deployment or StatefulSet."
    )
    namespace: str = Field("default", pattern=KUBE_NAME, description="Namespace of the workload.")
    name: str = Field(pattern=KUBE_NAME, description="Name of the workload.")


class TargetKeys(Section):
    workloads: tuple[WorkloadKeys, ...] = Field(
        (), max_length=100, strict=False, description="Workloads that sleep and wake together."
    )
    pool: str = Field("", max_length=63, description="A whole node pool, instead of workloads.")

    @model_validator(mode="after")
    def _one_of_both(self) -> TargetKeys:
        if bool(self.workloads) == bool(self.pool):
            raise ValueError("no target; allowed: either workloads, at least one, or a pool")
        if len(set(self.workloads_of())) < len(self.workloads):
            raise ValueError("a target that names a workload twice; name each once")
        return self

    def workloads_of(self) -> tuple[WorkloadRef, ...]:
        return tuple(WorkloadRef(each.kind, each.namespace, each.name) for each in self.workloads)


class RuleKeys(Section):
    metric: str = Field(min_length=1, max_length=4000, description="A query in PromQL.")
    operator: Operator = Field(strict=False, description="gt, lt, gte, lte or eq.")
    threshold: Finite = Field(description="What the metric is compared with.")
    duration_seconds: int = Field(0, ge=0, le=YEAR_SECONDS, description="How long it must be true.")
    scale_by: int = Field(
        1, ge=-MOST_REPLICAS, le=MOST_REPLICAS, description="Replicas to add, or to remove if negative."
    )


class ScheduleKeys(Section):
    cron: Cron = Field(description="When it fires: minute, hour, day, month, weekday.")
    zone: Zone = Field("UTC", description="IANA time zone of the cron expression.")
    replicas: int | None = Field(
        None,
        ge=0,
        le=MOST_REPLICAS,
        description="0 means sleep; more than 0 works for a single workload only. Default without `wake`: 1.",
    )
    wake: bool = Field(False, description="Wake the target: restore what each workload had.")
    except_dates: tuple[Day, ...] = Field(
        (), max_length=MOST_DATES, strict=False, description="Days, in `zone`, on which it does not fire."
    )

    @model_validator(mode="after")
    def _wake_or_number(self) -> ScheduleKeys:
        if self.wake and self.replicas is not None:
            raise ValueError("a schedule with both wake and replicas; leave one of them out")
        return self

    def schedule(self) -> Schedule:
        number = 1 if self.replicas is None else self.replicas
        return Schedule(self.cron, self.zone, number, self.except_dates, self.wake)


class SignalKeys(Section):
    kind: SignalKind = Field(
        strict=False, description="promql_rate, promql_value, connections, cpu, reported."
    )
    query: str = Field("", max_length=4000, description="A query in PromQL; not for `reported`.")
    threshold: Finite = Field(0.0, description="Active above this.")

    @model_validator(mode="after")
    def _query_where_needed(self) -> SignalKeys:
        if self.kind is SignalKind.REPORTED and self.query:
            raise ValueError("a signal of kind reported with a query; leave the query out")
        if self.kind is not SignalKind.REPORTED and not self.query.strip():
            raise ValueError(f"a signal of kind {self.kind} without a query; give one in PromQL")
        return self


class PolicyKeys(Section):
    name: str = Field(
        pattern=NAME,
        description="Unique; small letters, digits, `-`, `_` and `.`.",
        json_schema_extra={"allowed": "small letters, digits, -, _ and ., at most 63"},
    )
    target: TargetKeys = Field(description="What is scaled.")
    min_replicas: int = Field(
        DEFAULTS.min_replicas, ge=0, le=MOST_REPLICAS, description="Minimum while awake."
    )
    max_replicas: int = Field(
        DEFAULTS.max_replicas, ge=1, le=MOST_REPLICAS, description="Maximum for rules and schedules."
    )
    cooldown_seconds: int = Field(
        DEFAULTS.cooldown_seconds, ge=0, le=YEAR_SECONDS, description="Seconds between two scalings by rules."
    )
    max_hourly_cost: Amount | None = Field(
        None, description="No rule, schedule or wake scales beyond this cost."
    )
    scale_to_zero: bool = Field(
        DEFAULTS.scale_to_zero,
        description="Whether it may sleep when idle; a schedule to 0 works without it.",
    )
    enabled: bool = Field(DEFAULTS.enabled, description="Whether the policy is active.")
    rules: tuple[RuleKeys, ...] = Field((), max_length=50, strict=False, description="Scaling by metrics.")
    schedules: tuple[ScheduleKeys, ...] = Field(
        (), max_length=50, strict=False, description="Scaling by the clock."
    )
    signals: tuple[SignalKeys, ...] = Field(
        (),
        max_length=20,
        strict=False,
        description="What counts as activity; without signals it never sleeps because it is idle.",
    )
    idle_threshold_seconds: int | None = Field(
        None,
        ge=1,
        le=YEAR_SECONDS,
        description="How long it must be idle. Default: `scale_to_zero.idle_threshold`.",
    )
    keep_alive_window_seconds: int | None = Field(
        None,
        ge=0,
        le=YEAR_SECONDS,
        description="How long it must then stay quiet. Default: `scale_to_zero.keep_alive`.",
    )
    cold_start_timeout_seconds: int | None = Field(
        None,
        ge=1,
        le=86_400,
        description="How long a caller waits for it. Default: `scale_to_zero.cold_start_timeout`.",
    )
    grace_seconds: int = Field(
        DEFAULTS.grace_seconds,
        ge=0,
        le=YEAR_SECONDS,
        description="Stays up this long after creation, a deployment or a wake.",
    )
    hourly_cost: Amount | None = Field(
        None, description="What it costs while up. Default: from the prices of its nodes."
    )
    currency: str = Field(DEFAULTS.currency, pattern=r"^[A-Z]{3}$", description="Currency of its amounts.")
    zone: Zone = Field(DEFAULTS.zone, description="Time zone of the days in its savings.")
    gate: PolicyGateKeys | None = Field(
        None, description="Wake on request: the Services whose first connection wakes it."
    )

    @field_validator("max_replicas")
    @classmethod
    def _not_below_the_minimum(cls, value: int, info: ValidationInfo) -> int:
        least = info.data.get("min_replicas", 0)
        if value < least:
            raise ValueError(f"below min_replicas, which is {least}; raise it, or lower min_replicas")
        return value

    def policy(self, policy_id: str, version: int, created_at: int, now: int) -> Policy:
        return Policy(
            id=policy_id,
            name=self.name,
            target=Target(self.target.workloads_of(), self.target.pool),
            min_replicas=self.min_replicas,
            max_replicas=self.max_replicas,
            cooldown_seconds=self.cooldown_seconds,
            max_hourly_cost=self.max_hourly_cost,
            scale_to_zero=self.scale_to_zero,
            enabled=self.enabled,
            rules=tuple(
                Rule(each.metric, each.operator, each.threshold, each.duration_seconds, each.scale_by)
                for each in self.rules
            ),
            schedules=tuple(each.schedule() for each in self.schedules),
            signals=tuple(Signal(each.kind, each.query, each.threshold) for each in self.signals),
            idle_threshold_seconds=self.idle_threshold_seconds,
            keep_alive_window_seconds=self.keep_alive_window_seconds,
            cold_start_timeout_seconds=self.cold_start_timeout_seconds,
            grace_seconds=self.grace_seconds,
            hourly_cost=self.hourly_cost,
            currency=self.currency,
            zone=self.zone,
            gate=self.gate.gate() if self.gate is not None else None,
            version=version,
            created_at=created_at,
            updated_at=now,
        )


def keys_of(policy: Policy) -> PolicyKeys:
    """A policy as it would be written."""
    return PolicyKeys(
        name=policy.name,
        target=TargetKeys(
            workloads=tuple(
                WorkloadKeys(kind=each.kind, namespace=each.namespace, name=each.name)
                for each in policy.target.workloads
            ),
            pool=policy.target.pool,
        ),
        min_replicas=policy.min_replicas,
        max_replicas=policy.max_replicas,
        cooldown_seconds=policy.cooldown_seconds,
        max_hourly_cost=policy.max_hourly_cost,
        scale_to_zero=policy.scale_to_zero,
        enabled=policy.enabled,
        rules=tuple(
            RuleKeys(
                metric=each.metric,
                operator=each.operator,
                threshold=each.threshold,
                duration_seconds=each.duration_seconds,
                scale_by=each.scale_by,
            )
            for each in policy.rules
        ),
        schedules=tuple(
            ScheduleKeys(
                cron=each.cron,
                zone=each.zone,
                replicas=None if each.wake else each.replicas,
                wake=each.wake,
                except_dates=each.except_dates,
            )
            for each in policy.schedules
        ),
        signals=tuple(
            SignalKeys(kind=each.kind, query=each.query, threshold=each.threshold) for each in policy.signals
        ),
        idle_threshold_seconds=policy.idle_threshold_seconds,
        keep_alive_window_seconds=policy.keep_alive_window_seconds,
        cold_start_timeout_seconds=policy.cold_start_timeout_seconds,
        grace_seconds=policy.grace_seconds,
        hourly_cost=policy.hourly_cost,
        currency=policy.currency,
        zone=policy.zone,
        gate=gate_keys_of(policy.gate) if policy.gate is not None else None,
    )
