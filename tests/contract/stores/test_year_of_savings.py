"""A year of the ledger on every store, over both changes of clocks: days, totals and rebuild agree.

In memory it sleeps twice a month and is looked at every day; on a real database, which takes its time, once
a quarter and every twelve days. Either way it sleeps through all days of 23 and of 25 hours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from ebbtide.core.scale_to_zero.savings import fold
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import ZeroDefaults
from ebbtide.ports import Store
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.contract.stores.lab import policies_of
from tests.policy_harness import QUERY, MemoryWorkloads, Readings, make_policy, make_workload, policy_id

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
END = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp())
ZONES = ("Europe/Berlin", "America/New_York")
SLEEPS_AND_LOOKS = {"memory": (24, 86_000)}
FEWER = (4, 12 * 86_000)
PRICE = Decimal("0.0168")
LONG_DAYS = {"Europe/Berlin": ("2026-03-29", "2026-10-25"), "America/New_York": ("2026-03-08", "2026-11-01")}


class Year:
    def __init__(self, store: Store) -> None:
        self.clock = VirtualClock(START)
        self.rows = policies_of(store)
        self.memory_workloads = MemoryWorkloads(
            *(make_workload(f"w{number}") for number in range(len(ZONES)))
        )
        numbers = iter(range(10**9))
        opened = ScalingPorts(
            store=store,
            policies=self.rows,
            workloads=self.memory_workloads,
            signals=Readings({QUERY: 0.0}, self.clock),
            notifier=SimNotifier(),
            clock=self.clock,
            new_id=lambda: f"{int(self.clock.now()):011d}-{next(numbers):09d}",
        )
        defaults = ZeroDefaults(idle_threshold_seconds=290, keep_alive_window_seconds=0)
        self.scaling = Scaling(opened, defaults, make_settings(lock_ttl_seconds=10**9))
        for number, zone in enumerate(ZONES):
            self.rows.put_policy(
                make_policy(
                    f"w{number}", id=policy_id(number), zone=zone, hourly_cost=PRICE, created_at=START
                )
            )

    def round(self, seconds: int) -> None:
        self.clock.sleep(seconds)
        self.scaling.round("runner", self.clock.now() + 1000)

    def pass_by(self, sleeps: int, every: int) -> None:
        """Idle for a while, then asleep for long with a look now and then, then awake."""
        for cycle in range(sleeps):
            for _ in range(4):
                self.round(290)
            until = START + (cycle + 1) * (END - START) // sleeps - 7200
            while self.clock.now() + every < until:
                self.round(every)
            self.round(max(1, int(until - self.clock.now())))
            self.round(7201)
            for number in range(len(ZONES)):
                self.scaling.wake(policy_id(number), WakeReason.SCHEDULED)
            self.round(40 + cycle)


def test_days_totals_and_rebuild_agree_over_a_year(store: Store, request: pytest.FixtureRequest) -> None:
    year = Year(store)
    sleeps, every = SLEEPS_AND_LOOKS.get(request.node.callspec.params["lab"], FEWER)
    year.pass_by(sleeps, every)
    for number, zone in enumerate(ZONES):
        state = year.rows.find_state(policy_id(number))
        assert state is not None
        assert (state.wake_count, state.phase) == (sleeps, Phase.ACTIVE)
        found = year.scaling.savings(policy_id(number), "", "")
        days = {day.date: day for day in found.days}
        short, long = LONG_DAYS[zone]
        assert days[short].scaled_to_zero_seconds <= days[short].idle_seconds <= 23 * 3600
        assert days[long].scaled_to_zero_seconds <= days[long].idle_seconds <= 25 * 3600
        whole = {date for date, day in days.items() if day.scaled_to_zero_seconds in (82_800, 90_000)}
        assert whole <= {short, long}
        assert max(day.scaled_to_zero_seconds for date, day in days.items() if date != long) <= 86_400
        for name in ("idle_seconds", "scaled_to_zero_seconds", "wakes"):
            assert getattr(found.total, name) == sum(getattr(day, name) for day in found.days)
        assert found.total.wakes == sleeps
        by_day = sum((saved.potential for day in found.days for saved in day.money), Decimal(0))
        assert found.total.money[0].potential == by_day
        seconds = found.total.scaled_to_zero_seconds
        assert abs(by_day - PRICE * seconds / 3600) < Decimal("0.0001") * len(days)
    before = list(year.rows.list_days())
    assert not any(rebuilt.changed for rebuilt in year.scaling.rebuild())
    assert list(year.rows.list_days()) == before
    year.rows.replace_days(policy_id(0), [])
    year.scaling.rebuild()
    assert list(year.rows.list_days()) == before


@pytest.mark.parametrize("zone", ZONES)
def test_what_sleeps_all_year_sleeps_every_second_of_it(zone: str) -> None:
    """8,760 hours, whatever the clocks say."""
    from ebbtide.model.idle import Rate, Stretch

    begin = int(datetime(2026, 1, 1, 12, tzinfo=UTC).timestamp())
    rate = Rate(PRICE, "EUR", "test")
    stretches = [
        Stretch(policy_id(), zone, Phase.ZERO, begin + day * 86_400, begin + (day + 1) * 86_400, rate)
        for day in range(365)
    ]
    rows = {row.date: row for row in fold(stretches)}
    short, long = LONG_DAYS[zone]
    assert (rows[short].scaled_to_zero_seconds, rows[long].scaled_to_zero_seconds) == (82_800, 90_000)
    inside = sorted(rows)[1:-1]
    assert {rows[day].scaled_to_zero_seconds for day in inside if day not in (short, long)} == {86_400}
    assert sum(row.scaled_to_zero_seconds for row in rows.values()) == 365 * 86_400
