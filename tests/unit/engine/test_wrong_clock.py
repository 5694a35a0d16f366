"""A lease under clocks that are wrong: hours ahead, corrected in the middle of a run, or not the store's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.leased import Leased
from ebbtide.engine.tick import tick
from ebbtide.model.record import CLUSTER_LEASE, LONGEST_LEASE_SECONDS
from ebbtide.simulator.world.clock import SkewedClock
from tests.unit.engine.builders import Small

HOURS_AHEAD = 2 * 3600
TICK_SECONDS = 60


def taken_by(small: Small, clock: SkewedClock) -> Leased:
    """By a runner with this clock."""
    store = MemoryStore(clock, database=small.database)
    asked = clock.now()
    lease = store.acquire(CLUSTER_LEASE, "ahead", 300)
    return Leased(store, clock, lease, 300, 10, asked + TICK_SECONDS, asked)


def test_a_runner_whose_clock_is_hours_ahead_takes_the_lease_and_dies() -> None:
    small = Small()
    taken_by(small, SkewedClock(small.clock, HOURS_AHEAD))
    stood_by = 0
    while not tick(small.ports, small.settings, "runner", small.clock.now() + TICK_SECONDS).held:
        stood_by += 1
        small.wait(TICK_SECONDS)
        assert stood_by <= LONGEST_LEASE_SECONDS / TICK_SECONDS + 1, "nobody takes over"
    assert stood_by >= LONGEST_LEASE_SECONDS / TICK_SECONDS, "it was taken while it could have been in use"


def test_a_clock_that_is_corrected_in_a_run_has_no_time_until_the_lease_is_renewed() -> None:
    small = Small()
    clock = SkewedClock(small.clock, HOURS_AHEAD)
    leased = taken_by(small, clock)
    assert leased.has_time()
    clock.seconds = 0
    assert not leased.has_time()
    assert leased.half_over()
    leased.renew()
    assert leased.lease.until == small.now + 300
    leased.deadline = small.now + TICK_SECONDS
    assert leased.has_time()


@pytest.mark.parametrize("ahead", [-40, 0, 3600])
def test_a_lease_lasts_its_time_by_our_own_clock_whatever_the_store_says_of_its_end(ahead: int) -> None:
    small = Small()
    leased = taken_by(small, SkewedClock(small.clock, 0))
    leased.lease = replace(leased.lease, until=leased.lease.until + ahead)
    leased.deadline = small.now + HOURS_AHEAD
    assert leased.last_moment == small.now + 300 + min(ahead, 0) - 10
    small.wait(151)
    assert leased.half_over()
