"""Budgets as they are written down: how many workers may leave at a time, for which reasons, and when."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from ebbtide.config.section import Section
from ebbtide.core.schedule import check_cron, check_zone
from ebbtide.model.budget import RemovalBudget, RemovalReason
from ebbtide.model.schedule import CronWindow

NODES_FORM = 'a number of nodes, or a share of the workers such as "10%"'
DURATION_FORM = "a time such as 8h, 90m or 1h30m, up to a year"
YEAR_SECONDS = 31_536_000
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
        description="Workers that may leave at a time; a share is rounded up.",
        json_schema_extra={"allowed": NODES_FORM},
    )
    reasons: tuple[Annotated[str, AfterValidator(_reason)], ...] = Field(
        ("all",),
        min_length=1,
        description="Removals it holds for: `idle` of a scale-down, `empty` and `underutilised` (together "
        "`consolidation`) of consolidation, `rebalance` of a spot recommendation, `unhealthy`, `expired` "
        "and `drifted` of a node that is replaced.",
        json_schema_extra={"allowed": f"a list of {REASONS_FORM}"},
    )
    schedule: Annotated[str, AfterValidator(read_cron)] | None = Field(
        None,
        description="When it begins to hold; always where it is left out. Needs `duration`.",
        json_schema_extra={"allowed": "a cron line of five fields, or @hourly, @daily, @weekly and so on"},
    )
    duration: Duration | None = Field(
        None,
        description="How long it holds each time.",
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
