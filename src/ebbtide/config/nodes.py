"""The keys about nodes: budgets (how many workers may leave at a time, for which reasons, and when),
headroom (the size of a pod, how many, where and when), room ahead of expected demand, and consolidation, with
the defaults of its policy.
"""

from __future__ import annotations

import re
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ebbtide.config.section import AMOUNT, Section, read_cpu_milli, read_memory_mib
from ebbtide.core.schedule import check_cron, check_zone
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pool import CronWindow, Headroom, RemovalBudget, RemovalReason
from ebbtide.model.settings import NO_FORECAST, STEP_SECONDS, ForecastSettings

NODES_FORM = 'a number of nodes, or a share of the workers such as "10%"'
DURATION_FORM = "a time such as 8h, 90m or 1h30m, up to a year"
YEAR_SECONDS = 31_536_000
MOST_PODS = 10_000
DEFAULTS = ConsolidationSettings()
MOST = 100_000


REASONS: dict[str, tuple[RemovalReason, ...]] = {
    **{reason.value: (reason,) for reason in RemovalReason},
    "underutilized": (RemovalReason.UNDERUTILISED,),
    "consolidation": (RemovalReason.EMPTY, RemovalReason.UNDERUTILISED),
    "all": tuple(RemovalReason),
}
REASONS_FORM = ", ".join(name for name in REASONS if name != "underutilized")
_NODES = re.compile(r"(100|[0-9]{1,2})%|[0-9]{1,6}")
_DURATION = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?")
_UNITS = (86_400, 3600, 60, 1)


def _nodes(value: Any) -> str:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not _NODES.fullmatch(text):
        raise ValueError(f"not a limit; allowed: {NODES_FORM}")
    return text


def read_duration(value: Any) -> int:
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    parts = [int(part or 0) for part in found.groups()] if found else []
    seconds = sum(part * unit for part, unit in zip(parts, _UNITS, strict=False))
    if not 1 <= seconds <= YEAR_SECONDS:
        raise ValueError(f"not a duration; allowed: {DURATION_FORM}")
    return seconds


Duration = Annotated[int, BeforeValidator(read_duration), WithJsonSchema({"type": "string"})]
"""Seconds, written with their unit."""


def _reason(value: str) -> str:
    if value.lower() not in REASONS:
        raise ValueError(f"no reason for a removal; allowed: {REASONS_FORM}")
    return value.lower()


def read_cron(value: str) -> str:
    if wrong := check_cron(value):
        raise ValueError(f"no schedule: {wrong}")
    return value


def read_zone(value: str) -> str:
    if wrong := check_zone(value):
        raise ValueError(f"not known: {wrong}")
    return value


class BudgetKeys(Section):
    """At most so many workers on their way out at a time."""

    nodes: Annotated[str, BeforeValidator(_nodes)] = Field(
        description="Workers that may be in removal at a time; a share is rounded up.",
        json_schema_extra={"allowed": NODES_FORM},
    )
    reasons: tuple[Annotated[str, AfterValidator(_reason)], ...] = Field(
        ("all",),
        min_length=1,
        description="Removals it applies to:  `idle` of a scale-down, `empty` and `underutilised` (together "
        "`consolidation`) of consolidation, `rebalance` of a spot recommendation, `unhealthy`, `expired` "
        "and `drifted` of a node that is replaced.",
        json_schema_extra={"allowed": f"a list of {REASONS_FORM}"},
    )
    schedule: Annotated[str, AfterValidator(read_cron)] | None = Field(
        None,
        description="When it starts to apply. Default: always. Needs `duration`.",
        json_schema_extra={"allowed": "a cron line of five fields, or @hourly, @daily, @weekly and so on"},
    )
    duration: Duration | None = Field(
        None,
        description="How long it applies each time.",
        json_schema_extra={"allowed": DURATION_FORM},
    )
    zone: Annotated[str, AfterValidator(read_zone)] = Field(
        "UTC",
        description="Time zone of the schedule.",
        json_schema_extra={"allowed": "an IANA time zone such as Europe/Berlin"},
    )

    def budget(self) -> RemovalBudget:
        percent = self.nodes.endswith("%")
        given = {reason for name in self.reasons for reason in REASONS[name]}
        window = None
        if self.schedule is not None and self.duration is not None:
            window = CronWindow(self.schedule, self.zone, self.duration)
        return RemovalBudget(
            nodes=int(self.nodes.removesuffix("%")),
            percent=percent,
            reasons=() if len(given) == len(RemovalReason) else tuple(r for r in RemovalReason if r in given),
            window=window,
        )


class WindowKeys(Section):
    """When a headroom is kept."""

    cron: Annotated[str, AfterValidator(read_cron)] = Field(
        description="When it starts.",
        json_schema_extra={"allowed": "a cron line of five fields, or @hourly, @daily, @weekly and so on"},
    )
    duration: Annotated[int, BeforeValidator(read_duration), WithJsonSchema({"type": "string"})] = Field(
        description="How long it is kept each time.", json_schema_extra={"allowed": DURATION_FORM}
    )
    zone: Annotated[str, AfterValidator(read_zone)] = Field(
        "UTC",
        description="Time zone of the cron line.",
        json_schema_extra={"allowed": "an IANA time zone such as Europe/Berlin"},
    )


class HeadroomKeys(Section):
    """Room that is kept free as if so many pods of one size ran there."""

    cpu: Annotated[int, BeforeValidator(read_cpu_milli), AMOUNT] = Field(
        description="CPU of one such pod.", json_schema_extra={"allowed": "2, 0.5 or 500m"}
    )
    memory: Annotated[int, BeforeValidator(read_memory_mib), AMOUNT] = Field(
        description="Memory of one such pod, with its unit.",
        json_schema_extra={"allowed": "2Gi, 512Mi or 2GB"},
    )
    count: int = Field(1, ge=1, le=MOST_PODS, description="Room for how many pods.")
    pool: str = Field("", description="Only on nodes of this pool. Default: any pool without taints.")
    zones: tuple[str, ...] = Field(
        (),
        description="Only in these zones, counted together. Default: any zone.",
        json_schema_extra={"allowed": "a list of names, such as [zone-a, zone-b]"},
    )
    schedule: WindowKeys | None = Field(
        None,
        description="When it is kept. Default: always.",
        json_schema_extra={"allowed": "cron, duration and zone, as below"},
    )

    def headroom(self) -> Headroom:
        window = self.schedule
        return Headroom(
            cpu_milli=self.cpu,
            memory_mib=self.memory,
            count=self.count,
            pool=self.pool,
            zones=self.zones,
            window=None if window is None else CronWindow(window.cron, window.zone, window.duration),
        )


class ForecastKeys(Section):
    """Room ahead of expected demand."""

    enabled: bool = Field(
        NO_FORECAST.enabled,
        description="Whether nodes are launched ahead of expected demand, in pools where that beats a "
        "constant headroom of equal cost on their own past.",
    )
    ahead_sec: int = Field(
        NO_FORECAST.ahead_seconds,
        ge=STEP_SECONDS,
        le=8 * STEP_SECONDS,
        description="Prepare room for the demand expected within this time.",
    )
    quantile: float = Field(
        NO_FORECAST.quantile,
        ge=0.5,
        le=0.99,
        description="Which quantile of the forecast to prepare for: 0.9 is enough in nine of ten cases.",
    )

    def settings(self) -> ForecastSettings:
        return ForecastSettings(self.enabled, self.ahead_sec, self.quantile)


def _seconds(default: int, says: str, least: int = 0) -> Any:
    return Field(default, ge=least, le=YEAR_SECONDS, description=says)


def _number(default: Decimal, says: str, least: float = 0.0, most: float = 1_000_000.0) -> Any:
    return Field(float(default), ge=least, le=most, allow_inf_nan=False, description=says)


class ConsolidationKeys(Section):
    enabled: bool = Field(
        DEFAULTS.enabled, description="Whether pods are moved to need fewer or cheaper nodes."
    )
    cooldown_sec: int = _seconds(
        DEFAULTS.cooldown_seconds, "Wait this long after a consolidation before the next."
    )
    backoff_max_sec: int = _seconds(
        DEFAULTS.backoff_max_seconds,
        "The cooldown doubles with each consolidation that removed too few nodes, up to this.",
    )
    min_uptime_sec: int = _seconds(DEFAULTS.min_uptime_seconds, "A node younger than this is not touched.")
    min_idle_sec: int = _seconds(
        DEFAULTS.min_idle_seconds, "A node must have been empty this long before it is removed."
    )
    min_savings_per_hour: float = _number(
        DEFAULTS.min_savings_per_hour, "The smallest savings worth acting on, in the currency of the prices."
    )
    min_savings_fraction: float = _number(
        DEFAULTS.min_savings_fraction,
        "The smallest savings worth acting on, as a share of what all nodes cost.",
        0.0,
        1.0,
    )
    max_fill: float = _number(
        DEFAULTS.max_fill, "Nodes are filled up to this share; the rest stays free.", 0.05, 1.0
    )
    min_nodes: int = Field(DEFAULTS.min_nodes, ge=0, le=MOST, description="Workers that are always kept.")
    move_cost: float = _number(DEFAULTS.move_cost, "The assumed cost of moving one pod.")
    payback_sec: int = _seconds(
        DEFAULTS.payback_seconds, "Savings must pay for the moves within this time.", 1
    )
    moves_per_hour: int = Field(
        DEFAULTS.moves_per_hour, ge=0, le=MOST, description="The most pods moved in an hour."
    )
    moves_fraction: float = _number(
        DEFAULTS.moves_fraction,
        "`moves_per_hour` as a share of all running pods, if that is more.",
        0.0,
        100.0,
    )
    at_once_fraction: float = _number(
        DEFAULTS.at_once_fraction,
        "Pods moved at a time as a share of all that run, where that is more than 4; "
        "of one controller a tenth at most.",
        0.0,
        1.0,
    )
    move_timeout_sec: int = _seconds(
        DEFAULTS.move_timeout_seconds, "How long a moved pod may take to become ready elsewhere.", 1
    )
    replace: bool = Field(
        DEFAULTS.replace, description="Whether cheaper nodes may be launched in place of more expensive ones."
    )
    players_query: str = Field(
        DEFAULTS.players_query,
        description="Players by the labels `namespace` and `pod`, for pods without the annotation.",
        json_schema_extra={"allowed": "a query in PromQL"},
    )
    plan_sec: float = _number(Decimal(str(DEFAULTS.plan_seconds)), "Time limit for planning.", 0.05, 60.0)

    def settings(self) -> ConsolidationSettings:
        given: dict[str, Any] = {}
        for one in fields(ConsolidationSettings):
            value = getattr(self, one.name.replace("_seconds", "_sec"))
            given[one.name] = Decimal(str(value)) if one.type == "Decimal" else value
        return ConsolidationSettings(**given)
