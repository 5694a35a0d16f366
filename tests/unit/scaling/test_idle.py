"""When a target counts as idle, and what follows from it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.scale_to_zero.activity import ActivityLook, needs_workloads
from ebbtide.core.scale_to_zero.idle import IdleStep, NextStep, at_zero, evaluate, not_from_the_future
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyCause, Rate, Remembered, WakeReason, WakeTime
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Policy, Schedule, Signal, SignalKind, Target
from ebbtide.model.snapshot import Reading
from tests.builders import NOW
from tests.policy_harness import BY_QUERY, DEFAULTS, QUERY, make_policy, make_ref, make_state, make_workload

RATE = Rate(Decimal("0.02"), "EUR", "test")
LONG_IDLE = NOW - 7200
NIGHT = Schedule("0 20 * * *", replicas=0)


def seen(value: float | None = 0.0, *workloads: Any, **overrides: Any) -> ActivityLook:
    reading = Reading(value, NOW, "nobody knows" if value is None else "")
    there = workloads or (make_workload(),)
    return ActivityLook(**{"readings": {QUERY: reading}, "workloads": there, "rate": RATE, **overrides})


def step(
    state: IdleState, look: ActivityLook | None = None, policy: Policy | None = None, now: int = NOW
) -> IdleStep:
    return evaluate(policy or make_policy(), state, look or seen(), DEFAULTS, now)


def test_a_quiet_target_begins_to_be_idle_now_and_not_earlier() -> None:
    started = step(make_state(Phase.ACTIVE)).state
    assert (started.phase, started.idle_since, started.rate) == (Phase.IDLE, NOW, RATE)


def test_a_busy_target_stays_active_without_a_write() -> None:
    busy = make_state(Phase.ACTIVE, last_activity_at=NOW - 60)
    assert step(busy, seen(1.0)) == IdleStep(busy)


def test_activity_that_continues_is_written_from_time_to_time() -> None:
    after = step(make_state(Phase.ACTIVE, last_activity_at=NOW - 900), seen(1.0)).state
    assert after.last_activity_at == NOW


def test_activity_ends_idleness_and_the_idle_time_is_in_the_ledger() -> None:
    done = step(make_state(Phase.IDLE, rate=RATE), seen(0.1))
    assert (done.state.phase, done.state.idle_since) == (Phase.ACTIVE, None)
    assert done.state.last_activity_at == NOW
    (stretch,) = done.stretches
    assert (stretch.phase, stretch.since, stretch.until) == (Phase.IDLE, NOW - 3600, NOW)


def test_an_unknown_signal_starts_the_idle_clock_again_and_its_time_is_not_idle() -> None:
    done = step(make_state(Phase.IDLE, checked_at=NOW - 90), seen(None))
    assert (done.state.phase, done.state.idle_since) == (Phase.ACTIVE, None)
    assert done.state.left_alone_cause is PolicyCause.SIGNAL_UNKNOWN
    assert done.stretches[0].until == NOW - 90


def test_a_failing_signal_is_told_apart_from_an_unknown_one() -> None:
    failing = ActivityLook({QUERY: Reading(problem="it is gone", failed=True)})
    assert step(make_state(), failing).state.left_alone_cause is PolicyCause.SIGNAL_FAILING


def test_a_signal_that_was_not_read_is_unknown() -> None:
    found = step(make_state(), ActivityLook()).state
    assert found.left_alone_cause is PolicyCause.SIGNAL_UNKNOWN


def test_activity_of_one_signal_counts_although_another_is_unknown() -> None:
    other = Signal(SignalKind.CPU, "cpu", 0.5)
    policy = make_policy(signals=(other, BY_QUERY))
    assert step(make_state(Phase.IDLE), seen(3.0), policy).state.why_left_alone == NO_WHY


def test_a_signal_at_its_threshold_is_quiet() -> None:
    policy = make_policy(signals=(replace(BY_QUERY, threshold=0.5),))
    assert step(make_state(), seen(0.5), policy).state.phase is Phase.IDLE
    assert step(make_state(), seen(0.51), policy).state.phase is Phase.ACTIVE


def test_reported_activity_counts_for_one_check_interval() -> None:
    policy = make_policy(signals=(Signal(SignalKind.REPORTED),))
    assert step(make_state(last_activity_at=NOW - 59), policy=policy).state.phase is Phase.ACTIVE
    assert step(make_state(last_activity_at=NOW - 60), policy=policy).state.phase is Phase.IDLE


def test_it_goes_to_zero_after_threshold_and_then_keep_alive() -> None:
    state = make_state(Phase.IDLE, idle_since=NOW - 2100)
    assert step(replace(state, idle_since=NOW - 2099)).wanted is NextStep.NOTHING
    fallen = step(state)
    assert fallen.wanted is NextStep.FALL
    assert fallen.state.phase is Phase.FALLING
    assert fallen.state.remembered == (Remembered(make_ref(), 2),)
    assert fallen.why.cause is PolicyCause.IDLE


def test_a_policy_may_have_times_of_its_own() -> None:
    policy = make_policy(idle_threshold_seconds=60, keep_alive_window_seconds=0)
    assert step(make_state(Phase.IDLE, idle_since=NOW - 59), policy=policy).wanted is NextStep.NOTHING
    assert step(make_state(Phase.IDLE, idle_since=NOW - 60), policy=policy).wanted is NextStep.FALL


def test_what_the_flap_guard_added_is_waited_for_as_well() -> None:
    wakes = (WakeTime(NOW - 7200, 60),)
    state = make_state(Phase.IDLE, idle_since=NOW - 2200, extra_keep_alive_seconds=101, wakes=wakes)
    assert step(state).wanted is NextStep.NOTHING
    assert step(replace(state, extra_keep_alive_seconds=100)).wanted is NextStep.FALL


@pytest.mark.parametrize("wakes", [(), (WakeTime(NOW - 86_400, 60),)])
def test_after_a_day_without_a_wake_the_flap_guard_lets_go(wakes: tuple[WakeTime, ...]) -> None:
    state = make_state(Phase.IDLE, idle_since=NOW - 2100, extra_keep_alive_seconds=9000, wakes=wakes)
    assert step(state).wanted is NextStep.FALL


def test_a_silence_of_the_loop_is_not_idle_time() -> None:
    done = step(make_state(Phase.IDLE, idle_since=LONG_IDLE, checked_at=NOW - 301))
    assert done.wanted is NextStep.NOTHING
    assert done.state.idle_since == NOW
    assert done.stretches[0].until == NOW - 301
    assert (done.why.cause, done.why.found, done.why.limit) == (PolicyCause.NOT_LOOKED, 301, 300)


def test_that_it_was_looked_at_is_written_only_now_and_then() -> None:
    state = make_state(Phase.IDLE, idle_since=NOW - 600, rate=RATE, checked_at=NOW - 149)
    assert step(state).state == state
    assert step(replace(state, checked_at=NOW - 150)).state.checked_at == NOW


@pytest.mark.parametrize(
    ("changes", "look", "cause"),
    [
        ({"paused": True}, {}, PolicyCause.PAUSED),
        ({"keep_up_until": NOW + 60}, {}, PolicyCause.KEPT_UP),
        ({}, {"held": "removals are paused"}, PolicyCause.REMOVALS_PAUSED),
        ({}, {"workloads": (make_workload(autoscaler="web-hpa"),)}, PolicyCause.AUTOSCALER),
    ],
)
def test_an_idle_target_is_left_up_for_a_reason_that_is_said_once(
    changes: dict[str, Any], look: dict[str, Any], cause: PolicyCause
) -> None:
    state = make_state(Phase.IDLE, idle_since=LONG_IDLE, rate=RATE, **changes)
    done = step(state, seen(0.0, **look))
    assert done.wanted is NextStep.NOTHING
    assert (done.state.phase, done.state.left_alone_cause) == (Phase.IDLE, cause)
    assert done.why.cause is cause
    later = step(done.state, seen(0.0, **look), now=NOW + 1)
    assert not later.why, "also when a second has passed: what is said has no time that runs"


@pytest.mark.parametrize("stamp", ["created_at", "deployed_at"])
def test_a_workload_that_is_new_or_newly_deployed_has_its_grace(stamp: str) -> None:
    def deployed(ago: int) -> Workload:
        changes: dict[str, Any] = {stamp: NOW - ago}
        return make_workload(**changes)

    at_once = make_policy(idle_threshold_seconds=60, keep_alive_window_seconds=0)
    idle = make_state(Phase.IDLE, idle_since=NOW - 299)
    assert step(idle, seen(0.0, deployed(299)), at_once).wanted is NextStep.NOTHING
    assert (
        step(replace(idle, idle_since=NOW - 300), seen(0.0, deployed(300)), at_once).wanted is NextStep.FALL
    )


def test_a_new_policy_and_one_that_just_woke_have_their_grace() -> None:
    at_once = make_policy(idle_threshold_seconds=60, keep_alive_window_seconds=0)
    idle = make_state(Phase.IDLE, idle_since=NOW - 200)
    for graced in (
        step(idle, policy=replace(at_once, created_at=NOW - 299)),
        step(replace(idle, last_wake_at=NOW - 299), policy=at_once),
    ):
        assert (graced.state.phase, graced.wanted) == (Phase.IDLE, NextStep.NOTHING)
    assert step(replace(idle, last_wake_at=NOW - 300), policy=at_once).wanted is NextStep.FALL


def test_grace_is_not_time_on_top_of_threshold_and_keep_alive() -> None:
    policy = make_policy(created_at=NOW - 10)
    started = step(make_state(Phase.ACTIVE, last_wake_at=NOW - 1), policy=policy).state
    assert (started.phase, started.idle_since) == (Phase.IDLE, NOW)


@pytest.mark.parametrize("stamp", ["created_at", "deployed_at"])
def test_what_is_deployed_while_idle_counts_again(stamp: str) -> None:
    changes: dict[str, Any] = {stamp: NOW - 299}
    done = step(make_state(Phase.IDLE, idle_since=LONG_IDLE), seen(0.0, make_workload(**changes)))
    assert (done.state.phase, done.wanted) == (Phase.ACTIVE, NextStep.NOTHING)
    assert done.stretches[0].until == NOW - 299


def test_a_deployment_by_a_clock_that_is_ahead_is_not_idle_time() -> None:
    ahead = seen(0.0, make_workload(deployed_at=NOW + 30))
    assert step(make_state(Phase.ACTIVE), ahead).state.phase is Phase.ACTIVE
    assert step(make_state(Phase.IDLE), ahead).stretches[0].until == NOW


@pytest.mark.parametrize("off", [{"enabled": False}, {"scale_to_zero": False}])
def test_a_policy_that_may_not_go_to_zero_is_never_idle(off: dict[str, Any]) -> None:
    policy = make_policy(**off)
    assert step(make_state(Phase.IDLE, idle_since=LONG_IDLE), policy=policy).state.phase is Phase.ACTIVE
    assert not needs_workloads(policy, make_state(), seen(), DEFAULTS, NOW)


def test_what_cannot_be_read_is_not_idle() -> None:
    done = step(make_state(Phase.IDLE, idle_since=LONG_IDLE), seen(0.0, problem="the API server is gone"))
    assert (done.wanted, done.state.left_alone_cause) == (NextStep.NOTHING, PolicyCause.UNREADABLE)


def test_a_target_that_is_not_there_is_left_alone() -> None:
    done = step(make_state(Phase.IDLE, idle_since=LONG_IDLE), seen(missing=(make_ref(),)))
    assert (done.state.phase, done.state.left_alone_cause) == (Phase.ACTIVE, PolicyCause.MISSING)


def test_a_target_that_somebody_put_to_zero_is_left_there() -> None:
    done = step(make_state(Phase.IDLE, idle_since=LONG_IDLE), seen(0.0, make_workload(replicas=0)))
    assert done.wanted is NextStep.NOTHING
    assert done.state.left_alone_cause is PolicyCause.DOWN_BY_HAND


def test_in_a_group_one_member_at_zero_by_hand_is_remembered_so() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"))
    look = seen(0.0, make_workload(), make_workload("api", 0))
    fallen = step(make_state(Phase.IDLE, idle_since=LONG_IDLE), look, policy)
    assert fallen.state.remembered == (Remembered(make_ref("web"), 2), Remembered(make_ref("api"), 0))


def test_a_pool_goes_to_zero_without_any_workload() -> None:
    policy = make_policy(target=Target(pool="workers"))
    assert not needs_workloads(policy, make_state(Phase.IDLE), ActivityLook(), DEFAULTS, NOW)
    look = ActivityLook({QUERY: Reading(0.0, NOW)}, rate=RATE)
    assert step(make_state(Phase.IDLE, idle_since=LONG_IDLE), look, policy).wanted is NextStep.FALL


def test_the_cluster_is_asked_only_where_the_answer_matters() -> None:
    assert needs_workloads(make_policy(), make_state(), seen(), DEFAULTS, NOW)
    assert not needs_workloads(make_policy(), make_state(), seen(1.0), DEFAULTS, NOW)
    for phase in (Phase.IDLE, Phase.FALLING, Phase.ZERO, Phase.WAKING):
        assert needs_workloads(make_policy(), make_state(phase), seen(1.0), DEFAULTS, NOW)


def test_a_changed_price_ends_the_stretch() -> None:
    pricier = replace(RATE, per_hour=Decimal("0.03"))
    done = step(make_state(Phase.IDLE, idle_since=NOW - 600, rate=RATE), seen(rate=pricier))
    assert done.stretches[0].rate == RATE
    assert (done.state.rate, done.state.stretch_since) == (pricier, NOW)
    assert step(make_state(Phase.IDLE, idle_since=NOW - 600), seen()).stretches[0].rate is None


def test_a_stretch_lasts_a_day_at_most() -> None:
    state = make_state(Phase.ZERO, rate=RATE, stretch_since=NOW - 86_400)
    done = step(state, seen(0.0, make_workload(replicas=0)))
    assert (done.stretches[0].until, done.state.stretch_since) == (NOW, NOW)


def test_what_is_realised_is_taken_in_only_from_time_to_time() -> None:
    look = seen(0.0, make_workload(replicas=0), rate=replace(RATE, realised_per_hour=Decimal("0.01")))
    early = make_state(Phase.ZERO, rate=RATE, stretch_since=NOW - 899)
    assert step(early, look).stretches == ()
    assert len(step(replace(early, stretch_since=NOW - 900), look).stretches) == 1


# Falling


def test_falling_continues_where_a_runner_died() -> None:
    done = step(make_state(Phase.FALLING, remembered=(Remembered(make_ref(), 5),)))
    assert done.wanted is NextStep.FALL
    assert done.state.remembered == (Remembered(make_ref(), 2),)


def test_replicas_are_remembered_although_they_are_zero_by_now() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"))
    state = make_state(
        Phase.FALLING, remembered=(Remembered(make_ref("web"), 5), Remembered(make_ref("api"), 2))
    )
    done = step(state, seen(0.0, make_workload("web", 0), make_workload("api", 2)), policy)
    assert done.state.remembered == (Remembered(make_ref("web"), 5), Remembered(make_ref("api"), 2))


def test_falling_ends_at_zero_once_everything_is_scaled() -> None:
    done = step(make_state(Phase.FALLING, rate=RATE), seen(0.0, make_workload(replicas=0)))
    assert (done.wanted, done.state.phase, done.state.scaled_to_zero_at) == (NextStep.FINISH, Phase.ZERO, NOW)
    assert done.stretches[0].phase is Phase.IDLE


@pytest.mark.parametrize(
    ("state", "look", "policy"),
    [
        (make_state(Phase.FALLING), seen(1.0), make_policy()),
        (make_state(Phase.FALLING), seen(None), make_policy()),
        (make_state(Phase.FALLING, keep_up_until=NOW + 9), seen(), make_policy()),
        (make_state(Phase.FALLING), seen(), make_policy(scale_to_zero=False)),
        (make_state(Phase.FALLING), seen(missing=(make_ref(),)), make_policy()),
    ],
)
def test_falling_is_given_up_as_soon_as_anything_speaks_against_it(
    state: IdleState, look: ActivityLook, policy: Policy
) -> None:
    assert step(state, look, policy).wanted is NextStep.WAKE


def test_falling_by_a_schedule_does_not_mind_activity() -> None:
    night = make_policy(schedules=(NIGHT,))
    assert step(make_state(Phase.FALLING, idle_since=None), seen(1.0), night).wanted is NextStep.FALL


@pytest.mark.parametrize("phase", [Phase.FALLING, Phase.ZERO, Phase.WAKING])
def test_what_cannot_be_read_is_left_as_it_is(phase: Phase) -> None:
    state = make_state(phase)
    assert step(state, seen(problem="the API server is gone")) == IdleStep(state)


# At zero


def test_activity_wakes_what_idleness_put_to_sleep() -> None:
    down = make_workload(replicas=0)
    done = step(make_state(Phase.ZERO), seen(1.0, down))
    assert (done.wanted, done.reason) == (NextStep.WAKE, WakeReason.API_REQUEST)
    night = make_policy(schedules=(NIGHT,))
    assert step(make_state(Phase.ZERO, idle_since=None), seen(1.0, down), night).wanted is NextStep.NOTHING
    assert step(make_state(Phase.ZERO, idle_since=None), seen(1.0, down)).wanted is NextStep.WAKE
    assert step(make_state(Phase.ZERO), seen(None, down)).wanted is NextStep.NOTHING


def test_somebody_who_scales_a_sleeper_up_has_woken_it() -> None:
    state = make_state(Phase.ZERO, scaled_to_zero_at=NOW - 600, remembered=(Remembered(make_ref(), 3),))
    done = step(state, seen(0.0, make_workload(replicas=1)))
    assert done.wanted is NextStep.NOTHING
    assert (done.state.phase, done.state.wake_count) == (Phase.ACTIVE, state.wake_count + 1)
    assert (done.state.wake_reason, done.state.last_wake_at) == (WakeReason.MANUAL, NOW)
    assert done.stretches[0].wakes == 1


def test_a_sleeper_that_was_deleted_saves_nothing_any_more() -> None:
    done = step(make_state(Phase.ZERO), ActivityLook({QUERY: Reading(0.0, NOW)}, missing=(make_ref(),)))
    assert (done.state.phase, done.stretches[0].until) == (Phase.ACTIVE, NOW)


def test_a_sleeper_of_a_disabled_policy_is_left_asleep() -> None:
    state = make_state(Phase.ZERO)
    look = seen(1.0, make_workload(replicas=0))
    assert step(state, look, make_policy(enabled=False)) == IdleStep(state)


def test_a_sleeper_wakes_when_it_may_no_longer_be_at_zero() -> None:
    down = seen(0.0, make_workload(replicas=0))
    assert step(make_state(Phase.ZERO), down, make_policy(scale_to_zero=False)).wanted is NextStep.WAKE
    assert step(make_state(Phase.ZERO, keep_up_until=NOW + 1), down).wanted is NextStep.WAKE


# Waking


def test_a_wake_without_an_answer_is_made_again_after_a_while() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 9, last_scaled_at=0, wake_reason=WakeReason.WEBHOOK)
    assert step(state).wanted is NextStep.NOTHING
    again = step(replace(state, last_wake_at=NOW - 10))
    assert (again.wanted, again.reason) == (NextStep.WAKE, WakeReason.WEBHOOK)


def test_a_wake_is_over_when_everything_is_ready() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 30, last_scaled_at=NOW - 29)
    assert step(state).wanted is NextStep.READY
    assert step(state, seen(0.0, make_workload(ready_replicas=1))) == IdleStep(state)


def test_somebody_who_scales_a_waking_target_to_zero_is_left_alone() -> None:
    state = make_state(Phase.WAKING, last_wake_at=NOW - 30, last_scaled_at=NOW - 29)
    done = step(state, seen(0.0, make_workload(replicas=0)))
    assert (done.state.phase, done.wanted) == (Phase.ACTIVE, NextStep.NOTHING)
    assert done.state.left_alone_cause is PolicyCause.DOWN_BY_HAND
    assert done.why.cause is PolicyCause.DOWN_BY_HAND


# Stamps


def test_stamps_from_the_future_are_taken_as_now() -> None:
    late = make_state(Phase.IDLE, idle_since=NOW + 50, checked_at=NOW + 60, last_activity_at=NOW + 70)
    set_right = not_from_the_future(late, NOW)
    assert (set_right.idle_since, set_right.checked_at, set_right.last_activity_at) == (NOW, NOW, NOW)


def test_committing_to_zero_ends_the_idle_stretch() -> None:
    done = at_zero(make_policy(), make_state(Phase.FALLING), NOW)
    assert (done.state.phase, done.state.stretch_since, done.stretches[0].until) == (Phase.ZERO, NOW, NOW)
    assert at_zero(make_policy(), make_state(Phase.FALLING, stretch_since=NOW), NOW).stretches == ()


# Properties

STAMP = st.integers(NOW - 200_000, NOW + 1000)
STATES = st.builds(
    make_state,
    st.sampled_from(Phase),
    last_activity_at=STAMP,
    idle_since=st.none() | STAMP,
    checked_at=STAMP,
    stretch_since=STAMP,
    last_wake_at=st.none() | STAMP,
    last_scaled_at=st.just(0) | STAMP,
    paused=st.booleans(),
    keep_up_until=st.just(0) | STAMP,
    extra_keep_alive_seconds=st.integers(0, 14_400),
)
WORKLOADS = st.builds(
    make_workload,
    replicas=st.integers(0, 3),
    autoscaler=st.sampled_from(["", "hpa"]),
    deployed_at=STAMP,
)


@given(STATES, WORKLOADS, st.sampled_from([None, float("nan"), float("-inf"), 1.0]))
def test_no_state_goes_to_zero_while_its_signal_is_unknown_or_active(
    state: IdleState, workload: Any, value: float | None
) -> None:
    if state.phase is Phase.FALLING and state.idle_since is None:
        return  # put to sleep by a schedule
    done = step(state, seen(value, workload))
    assert done.wanted not in (NextStep.FALL, NextStep.FINISH)


@given(STATES, WORKLOADS, st.sampled_from([None, 0.0, 1.0]))
def test_stretches_never_overlap_and_never_run_backwards(
    state: IdleState, workload: Any, value: float | None
) -> None:
    done = step(state, seen(value, workload))
    for stretch in done.stretches:
        assert min(state.stretch_since, NOW) <= stretch.since <= stretch.until <= NOW
        assert stretch.until <= done.state.stretch_since
    assert done.state.stretch_since <= NOW


@pytest.mark.parametrize(
    ("nodes", "wanted"), [(None, NextStep.NOTHING), (0, NextStep.NOTHING), (1, NextStep.READY)]
)
def test_a_pool_is_awake_when_a_node_of_it_is_ready(nodes: int | None, wanted: NextStep) -> None:
    pool = make_policy(target=Target(pool="workers"))
    state = make_state(Phase.WAKING, last_wake_at=NOW - 60, last_scaled_at=NOW - 59)
    assert step(state, ActivityLook(ready_nodes=nodes), pool).wanted is wanted


def test_a_policy_that_is_switched_off_gives_up_going_to_zero_also_by_a_schedule() -> None:
    off = make_policy(enabled=False, schedules=(NIGHT,))
    done = step(make_state(Phase.FALLING, idle_since=None), seen(0.0), off)
    assert done.wanted is NextStep.WAKE
    assert done.why.cause is PolicyCause.DISABLED
