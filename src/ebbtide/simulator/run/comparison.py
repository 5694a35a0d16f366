"""The same story with and without consolidation: what it saves, and what it stirs up for that."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec

from ebbtide.errors import Usage
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.scenarios import Scenario
from ebbtide.simulator.run.simulate import Result

COMPARED = ("cost", "node_hours", "launched", "removed", "evictions", "pending_pod_seconds", "violations")
"""What is told of the run without it; all else is the same or means nothing there."""


def needs_consolidation(scenario: Scenario) -> None:
    if not scenario.settings.consolidation.enabled:
        raise Usage(
            f"scenario {scenario.name} has no consolidation, so there is nothing to compare: nothing "
            "was played; leave out --compare, or take --scenario consolidation"
        )


def without_consolidation(scenario: Scenario) -> Scenario:
    """Nodes then go by scale-down alone, which a story may have switched off in favour of consolidation."""
    settings = scenario.settings
    return replace(
        scenario,
        settings=replace(
            settings,
            cpu_down=settings.cpu_down or Settings().cpu_down,
            consolidation=replace(settings.consolidation, enabled=False),
        ),
    )


def compared(result: Result, without: Result) -> str:
    """The JSON of the first, with the numbers of the second and what is saved compared to them."""
    data: dict[str, Any] = msgspec.to_builtins(result)
    other: dict[str, Any] = msgspec.to_builtins(without)
    saved = Decimal(without.cost) - Decimal(result.cost)
    data["without_consolidation"] = {name: other[name] for name in COMPARED}
    data["saved"] = str(saved)
    data["saved_percent"] = round(float(100 * saved / Decimal(without.cost)), 2)
    return msgspec.json.encode(data).decode()
