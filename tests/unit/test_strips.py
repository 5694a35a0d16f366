"""The last days of a policy as a strip."""

from __future__ import annotations

from ebbtide.entrypoints.views.policies import NextChange, Piece, WokenBy, next_change, strip_of, wakes_in
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import Phase, Stretch, WakeReason
from ebbtide.model.policy import Policy, Schedule, Target

DAY = 86_400
HOUR = 3600


def stretch(phase: Phase, since: int, until: int) -> Stretch:
    return Stretch("p", "UTC", phase, since, until)


def test_gaps_between_stretches_are_awake_and_those_that_touch_are_one_piece() -> None:
    """A stretch that lasts is closed once a day; on the strip it is one night."""
    found = strip_of(
        [
            stretch(Phase.ZERO, 40, 60),
            stretch(Phase.IDLE, 10, 20),
            stretch(Phase.ZERO, 20, 40),
            stretch(Phase.WAKING, 60, 65),
        ],
        0,
        100,
    )
    assert found == (
        Piece("awake", 0, 10),
        Piece("idle", 10, 20),
        Piece("asleep", 20, 60),
        Piece("waking", 60, 65),
        Piece("awake", 65, 100),
    )


def test_what_reaches_out_of_the_time_is_cut_and_nothing_overlaps() -> None:
    stretches = [stretch(Phase.ZERO, -50, 30), stretch(Phase.IDLE, 20, 40), stretch(Phase.ZERO, 90, 200)]
    assert strip_of(stretches, 0, 100) == (
        Piece("asleep", 0, 30),
        Piece("idle", 30, 40),
        Piece("awake", 40, 90),
        Piece("asleep", 90, 100),
    )
    assert strip_of([], 0, 100) == (Piece("awake", 0, 100),)
    assert strip_of([], 5, 5) == ()


def test_a_wake_is_told_once_with_who_woke_it() -> None:
    woken = PolicyStep("p", Phase.WAKING, wake_reason=WakeReason.WEBHOOK, wake_id="w1")
    ready = PolicyStep("p", Phase.ACTIVE, wake_reason=WakeReason.WEBHOOK, wake_id="w1", seconds=12.0)
    refused = PolicyStep("p", Phase.ZERO, "not woken")
    other = PolicyStep("p", Phase.WAKING, wake_reason=WakeReason.MANUAL)
    steps = [(10, woken), (22, ready), (30, refused), (40, other)]
    assert wakes_in(steps) == (WokenBy(10, "webhook"), WokenBy(40, "manual"))


def policy(*schedules: Schedule, enabled: bool = True) -> Policy:
    return Policy("p", "p", Target(pool="general"), schedules=schedules, enabled=enabled)


def test_the_next_change_is_the_first_of_all_schedules_that_is_not_on_a_day_left_out() -> None:
    wakes = Schedule("0 8 * * *", wake=True)
    sleeps = Schedule("0 20 * * *", replicas=0)
    scales = Schedule("0 12 * * *", replicas=3)
    assert next_change(policy(sleeps, wakes), 0) == NextChange(8 * HOUR, "wake")
    assert next_change(policy(sleeps, wakes), 9 * HOUR) == NextChange(20 * HOUR, "sleep")
    assert next_change(policy(scales), 0) == NextChange(12 * HOUR, "3 replicas")
    holiday = Schedule("0 8 * * *", wake=True, except_dates=("1970-01-01",))
    assert next_change(policy(holiday), 0) == NextChange(DAY + 8 * HOUR, "wake")
    assert next_change(policy(), 0) is None
    assert next_change(policy(wakes, enabled=False), 0) is None
