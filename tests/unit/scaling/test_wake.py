"""What a wake makes of a state, what it restores, and what the flap guard learns."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.scale_to_zero.wake import (
    cold_start_timeout,
    guard,
    ready,
    scaled,
    target_of,
    targets,
    wake,
)
from ebbtide.model.idle import NO_WHY, Phase, PolicyCause, PolicyWhy, Rate, Remembered, WakeReason, WakeTime
from tests.builders import NOW
from tests.policy_harness import DEFAULTS, make_policy, make_ref, make_state, make_workload


@pytest.mark.parametrize("phase", [Phase.FALLING, Phase.ZERO])
def test_a_wake_wins_over_zero_and_must_be_carried_out(phase: Phase) -> None:
    state = make_state(phase, wake_count=4, last_scaled_at=NOW - 60)
    done = wake(make_policy(), state, WakeReason.WEBHOOK, NOW)
    assert (done.acts, done.joined) == (True, False)
    assert (done.state.phase, done.state.wake_count) == (Phase.WAKING, 5)
    assert (done.state.wake_reason, done.state.last_wake_at) == (WakeReason.WEBHOOK, NOW)
    assert done.state.last_scaled_at == 0
    assert done.stretches[0].wakes == 1


@pytest.mark.parametrize("phase", [Phase.ACTIVE, Phase.IDLE])
def test_a_wake_of_what_runs_restarts_the_idle_clock_and_scales_nothing(phase: Phase) -> None:
    done = wake(make_policy(), make_state(phase), WakeReason.MANUAL, NOW)
    assert not done.acts
    assert (done.state.phase, done.state.idle_since, done.state.wake_count) == (Phase.ACTIVE, None, 1)
    assert done.state.last_activity_at == NOW
    assert len(done.stretches) == (phase is Phase.IDLE)


def test_a_wake_brings_up_what_somebody_put_to_zero() -> None:
    done = wake(make_policy(), make_state(), WakeReason.MANUAL, NOW, [make_workload(replicas=0)])
    assert (done.acts, done.state.phase) == (True, Phase.WAKING)


def test_a_wake_of_a_group_that_is_half_awake_brings_up_the_rest() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("db"))
    state = make_state(remembered=(Remembered(make_ref("db"), 3),))
    there = [make_workload("web", 5), make_workload("db", 0)]
    done = wake(policy, state, WakeReason.MANUAL, NOW, there)
    assert (done.acts, done.state.phase) == (True, Phase.WAKING)
    assert targets(policy, done.state) == (Remembered(make_ref("web"), 5), Remembered(make_ref("db"), 3))
    up = [make_workload("web", 5), make_workload("db", 3)]
    assert wake(policy, state, WakeReason.MANUAL, NOW, up).state.remembered == ()


def test_a_schedule_may_name_the_replicas_of_a_wake() -> None:
    state = make_state(Phase.ZERO, remembered=(Remembered(make_ref(), 2),))
    done = wake(make_policy(max_replicas=6), state, WakeReason.SCHEDULED, NOW, (), 9)
    assert done.state.remembered == (Remembered(make_ref(), 6),)


@pytest.mark.parametrize(
    ("rate", "ordered", "wanted"),
    [("0.04", None, 3), ("0.04", 6, 3), ("0.04", 2, 2), ("0.40", None, 1), (None, None, 4), (None, 6, 4)],
)
def test_a_wake_stays_within_the_hourly_cost_and_is_never_refused(
    rate: str | None, ordered: int | None, wanted: int
) -> None:
    policy = make_policy(max_hourly_cost=Decimal("0.03"))
    known = Rate(Decimal(rate), "EUR", "t") if rate else None
    state = make_state(Phase.ZERO, rate=known, remembered=(Remembered(make_ref(), 4),))
    done = wake(policy, state, WakeReason.MANUAL, NOW, (), ordered)
    assert [one.replicas for one in targets(policy, done.state)] == [wanted]


def test_a_wake_that_is_in_progress_is_joined() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 60, last_scaled_at=NOW - 59)
    done = wake(make_policy(), state, WakeReason.MANUAL, NOW)
    assert (done.joined, done.acts, done.state) == (True, False, state)


def test_a_wake_whose_caller_died_is_carried_out_by_the_next_caller() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 9, last_scaled_at=0)
    assert not wake(make_policy(), state, WakeReason.MANUAL, NOW).acts
    assert wake(make_policy(), state, WakeReason.MANUAL, NOW + 1).acts
    assert scaled(state, NOW).last_scaled_at == NOW


@pytest.mark.parametrize(
    ("remembered", "least", "most", "target"),
    [(None, 1, 10, 1), (None, 0, 10, 1), (None, 3, 10, 3), (5, 1, 10, 5), (2, 3, 10, 3), (15, 1, 10, 15)],
)
def test_a_wake_restores_what_was_there_and_at_least_the_minimum(
    remembered: int | None, least: int, most: int, target: int
) -> None:
    policy = make_policy(min_replicas=least, max_replicas=most)
    assert target_of(policy, remembered) == target


def test_the_number_of_a_schedule_stays_within_the_maximum() -> None:
    policy = make_policy(max_replicas=10)
    done = wake(policy, make_state(Phase.ZERO), WakeReason.SCHEDULED, NOW, (), 15)
    assert [one.replicas for one in done.state.remembered] == [10]


def test_a_member_that_was_at_zero_before_the_others_is_brought_up_with_them() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"), make_ref("new"))
    state = make_state(
        Phase.ZERO, remembered=(Remembered(make_ref("web"), 4), Remembered(make_ref("api"), 0))
    )
    assert targets(policy, state) == (
        Remembered(make_ref("web"), 4),
        Remembered(make_ref("api"), 1),
        Remembered(make_ref("new"), 1),
    )


def test_what_a_wake_took_is_learned() -> None:
    state = make_state(
        Phase.WAKING, last_wake_at=NOW - 40, scaled_to_zero_at=NOW - 7240, stretch_since=NOW - 40,
        wake_reason=WakeReason.SCHEDULED, remembered=(Remembered(make_ref(), 2),),
    )  # fmt: skip
    done = ready(make_policy(), state, NOW + 0.25, 25.0, DEFAULTS)
    assert done.state.wakes == (WakeTime(NOW - 40, 40.25, 25.0, WakeReason.SCHEDULED, 7200.0),)
    assert (done.state.phase, done.state.remembered, done.state.scaled_to_zero_at) == (Phase.ACTIVE, (), None)
    assert done.stretches[0].wake_seconds == 40


def test_a_wake_of_a_target_that_never_reached_zero_saved_nothing() -> None:
    state = make_state(Phase.WAKING, last_wake_at=None, scaled_to_zero_at=None, stretch_since=NOW)
    done = ready(make_policy(), replace(state, last_wake_at=NOW), NOW, 0.0, DEFAULTS)
    assert done.state.wakes[0].slept_seconds == 0
    assert done.stretches == ()


def test_only_the_last_wakes_are_kept() -> None:
    old = tuple(WakeTime(NOW - 90_000, 1) for _ in range(20))
    done = ready(make_policy(), make_state(Phase.WAKING, last_wake_at=NOW - 5, wakes=old), NOW, 0, DEFAULTS)
    assert len(done.state.wakes) == 20
    assert done.state.wakes[-1].at == NOW - 5


def woken(*pairs: tuple[float, float], extra: int = 0) -> tuple[int, PolicyWhy]:
    """The flap guard after wakes that took so long, after sleeps of so long."""
    wakes = tuple(WakeTime(NOW - 60, took, slept_seconds=slept) for took, slept in pairs)
    return guard(make_policy(), make_state(wakes=wakes, extra_keep_alive_seconds=extra), DEFAULTS, NOW)


def test_where_waking_costs_more_than_sleeping_saves_the_window_doubles_and_says_so() -> None:
    extra, why = woken((40, 30))
    assert extra == 300
    assert (why.cause, why.found, why.limit) == (PolicyCause.WINDOW_GROWS, 40, 30)
    assert woken((40, 30), (40, 20), extra=300)[0] == 900


def test_the_window_grows_up_to_its_limit_and_no_further() -> None:
    assert woken((40, 30), extra=13_000)[0] == 14_100
    assert woken((40, 30), extra=14_100) == (14_100, NO_WHY)


def test_a_window_of_nothing_still_grows() -> None:
    state = make_state(wakes=(WakeTime(NOW, 9),))
    assert guard(make_policy(keep_alive_window_seconds=0), state, DEFAULTS, NOW)[0] == 60


def test_a_window_configured_above_the_limit_stays() -> None:
    state = make_state(wakes=(WakeTime(NOW, 9),))
    assert guard(make_policy(keep_alive_window_seconds=20_000), state, DEFAULTS, NOW) == (0, NO_WHY)


def test_where_sleeping_pays_again_what_was_added_halves() -> None:
    extra, why = woken((40, 3600), extra=900)
    assert (extra, why.cause, why.found, why.limit) == (450, PolicyCause.WINDOW_SHRINKS, 40, 3600)
    assert woken((40, 3600), extra=119)[0] == 0
    assert woken((40, 3600)) == (0, NO_WHY)


def test_after_a_day_without_a_wake_nothing_is_added() -> None:
    old = (WakeTime(NOW - 86_400, 40),)
    state = make_state(wakes=old, extra_keep_alive_seconds=300)
    extra, why = guard(make_policy(), state, DEFAULTS, NOW)
    assert (extra, why.cause) == (0, PolicyCause.WINDOW_RESET)
    assert guard(make_policy(), make_state(wakes=old), DEFAULTS, NOW) == (0, NO_WHY)


def test_a_policy_may_have_a_cold_start_timeout_of_its_own() -> None:
    assert cold_start_timeout(make_policy(), DEFAULTS) == 120
    assert cold_start_timeout(make_policy(cold_start_timeout_seconds=7), DEFAULTS) == 7


@given(st.lists(st.tuples(st.floats(0, 600), st.floats(0, 86_400)), max_size=20), st.integers(0, 14_100))
def test_the_window_never_leaves_its_limits(pairs: list[tuple[float, float]], extra: int) -> None:
    after, _ = woken(*pairs, extra=extra)
    assert 0 <= after <= 14_100
