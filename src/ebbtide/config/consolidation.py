"""The keys of consolidation, with the defaults of the policy."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from typing import Any

from pydantic import Field

from ebbtide.config.section import Section
from ebbtide.model.consolidation import ConsolidationSettings

DEFAULTS = ConsolidationSettings()
YEAR_SECONDS = 31_536_000
MOST = 100_000


def _seconds(default: int, says: str, least: int = 0) -> Any:
    return Field(default, ge=least, le=YEAR_SECONDS, description=says)


def _number(default: Decimal, says: str, least: float = 0.0, most: float = 1_000_000.0) -> Any:
    return Field(float(default), ge=least, le=most, allow_inf_nan=False, description=says)


class ConsolidationKeys(Section):
    enabled: bool = Field(DEFAULTS.enabled, description="Whether pods are moved to pay for fewer nodes.")
    cooldown_sec: int = _seconds(
        DEFAULTS.cooldown_seconds, "Wait this long after a consolidation before the next."
    )
    backoff_max_sec: int = _seconds(
        DEFAULTS.backoff_max_seconds,
        "The cooldown doubles with each consolidation whose nodes did not go, up to this.",
    )
    min_uptime_sec: int = _seconds(DEFAULTS.min_uptime_seconds, "A node younger than this is left alone.")
    min_idle_sec: int = _seconds(
        DEFAULTS.min_idle_seconds, "A node must have been without pods this long before it is deleted."
    )
    min_savings_per_hour: float = _number(
        DEFAULTS.min_savings_per_hour, "Nothing is done for less, in the currency of the prices."
    )
    min_savings_fraction: float = _number(
        DEFAULTS.min_savings_fraction,
        "Nothing is done for less than this share of what all nodes cost.",
        0.0,
        1.0,
    )
    max_fill: float = _number(
        DEFAULTS.max_fill, "Nodes are packed up to this share; the rest stays free.", 0.05, 1.0
    )
    min_nodes: int = Field(DEFAULTS.min_nodes, ge=0, le=MOST, description="Workers that are always kept.")
    move_cost: float = _number(DEFAULTS.move_cost, "What moving one pod is held to cost.")
    payback_sec: int = _seconds(
        DEFAULTS.payback_seconds, "Savings must pay for the moves within this time.", 1
    )
    moves_per_hour: int = Field(
        DEFAULTS.moves_per_hour, ge=0, le=MOST, description="Pods moved in an hour, at most."
    )
    moves_fraction: float = _number(
        DEFAULTS.moves_fraction, "The same as a share of all running pods, where that is more.", 0.0, 100.0
    )
    at_once_fraction: float = _number(
        DEFAULTS.at_once_fraction,
        "Pods moved at a time as a share of all that run, where that is more than 4; "
        "of one controller a tenth at most.",
        0.0,
        1.0,
    )
    move_timeout_sec: int = _seconds(
        DEFAULTS.move_timeout_seconds, "How long a moved pod may take to be ready elsewhere.", 1
    )
    replace: bool = Field(
        DEFAULTS.replace, description="Whether cheaper nodes may be launched in place of more expensive ones."
    )
    players_query: str = Field(
        DEFAULTS.players_query,
        description="Players by the labels `namespace` and `pod`, where the annotation does not say.",
        json_schema_extra={"allowed": "a query in PromQL"},
    )
    plan_sec: float = _number(Decimal(str(DEFAULTS.plan_seconds)), "Time for planning.", 0.05, 60.0)

    def settings(self) -> ConsolidationSettings:
        given: dict[str, Any] = {}
        for one in fields(ConsolidationSettings):
            value = getattr(self, one.name.replace("_seconds", "_sec"))
            given[one.name] = Decimal(str(value)) if one.type == "Decimal" else value
        return ConsolidationSettings(**given)
