"""A budget of nothing during certain hours: no worker is taken away in them, and that is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from ebbtide.core.schedule import is_open
from ebbtide.model.pool import CronWindow, RemovalBudget, RemovalReason
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.frames import Frame
from ebbtide.simulator.run.scenarios import START, Scenario, build
from ebbtide.simulator.run.simulate import Simulation

HOUR = 3600
SECOND = datetime.fromtimestamp(START + HOUR, UTC).hour
WINDOW = CronWindow(f"0 {SECOND} * * *", "UTC", 3 * HOUR)
"""The hours after the first burst, in which the cluster would shrink."""


def removals_by_time(settings: Settings) -> tuple[list[float], list[str]]:
    """When a worker had gone by the end of a tick, and what was said in the window."""
    scenario: Scenario = replace(build("burst", seed=4), settings=settings, duration_seconds=6 * HOUR)
    gone: list[float] = []
    said: list[str] = []

    def watch(frame: Frame) -> None:
        gone.extend([frame.at] * (scenario.world.removed - len(gone)))
        if is_open(WINDOW, int(frame.at)):
            said.append(frame.says)

    result = Simulation(scenario, on_tick=watch).run()
    assert result.violations == ()
    return gone, said


def test_a_budget_of_nothing_keeps_every_worker_during_its_hours_and_says_so() -> None:
    settings = build("burst", seed=4).settings
    free, _ = removals_by_time(settings)
    assert any(is_open(WINDOW, int(at)) for at in free), "otherwise there is nothing to keep from"

    closed = RemovalBudget(0, reasons=(RemovalReason.IDLE,), window=WINDOW)
    kept, said = removals_by_time(replace(settings, budgets=(closed,)))
    assert not any(is_open(WINDOW, int(at)) for at in kept)
    assert any(
        f"budget of the cluster: 0 nodes for idle from '0 {SECOND} * * *' in UTC for 3h" in one
        for one in said
    )
    assert kept, "after its hours the cluster shrinks"


def test_a_budget_of_another_reason_is_no_hindrance() -> None:
    settings = build("burst", seed=4).settings
    other = RemovalBudget(0, reasons=(RemovalReason.REBALANCE,), window=WINDOW)
    assert removals_by_time(replace(settings, budgets=(other,)))[0] == removals_by_time(settings)[0]


def test_a_budget_of_the_pool_is_enough() -> None:
    settings = build("burst", seed=4).settings
    pools = tuple(replace(pool, budgets=(RemovalBudget(0, window=WINDOW),)) for pool in settings.pools)
    kept, said = removals_by_time(replace(settings, pools=pools))
    assert not any(is_open(WINDOW, int(at)) for at in kept)
    assert any("budget of pool general: 0 nodes" in one for one in said)
