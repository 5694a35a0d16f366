"""Rules with timers that outlive a runner, their bounds, and schedules that are answered once."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.scale_to_zero.rules import (
    describe,
    due,
    fired,
    follow,
    holds,
    price_each,
    rule_key,
    scale_for,
    scale_to,
    with_base,
)
from ebbtide.model.idle import NO_WHY, IdleState, PolicyCause, Priced, Rate, Remembered, RuleTimer
from ebbtide.model.policy import Operator, Policy, Rule, Schedule
from ebbtide.model.snapshot import Reading
from tests.builders import NOW
from tests.policy_harness import make_policy, make_ref, make_state, make_workload

UP = Rule("queue", Operator.GT, 10, duration_seconds=120, scale_by=2)
DOWN = Rule("queue", Operator.LTE, 1, duration_seconds=60, scale_by=-1)
MONDAY_8 = 1_704_700_800
"""2024-01-08 08:00 UTC."""
HOUR = 3600


def read(value: float | None) -> dict[str, Reading]:
    return {"queue": Reading(value, NOW)}


def timers(policy: Policy, state: IdleState, value: float | None, now: int = NOW) -> tuple[RuleTimer, ...]:
    return follow(policy, state, read(value), now, 300)


@pytest.mark.parametrize(
    ("operator", "value", "holds_so"),
    [
        (Operator.GT, 10.0, False), (Operator.GT, 10.1, True), (Operator.LT, 10.0, False),
        (Operator.LT, 9.9, True), (Operator.GTE, 10.0, True), (Operator.LTE, 10.0, True),
        (Operator.EQ, 10.0, True), (Operator.EQ, 9.0, False), (Operator.GTE, None, False),
    ],
)  # fmt: skip
def test_a_rule_holds_as_its_operator_says(operator: Operator, value: float | None, holds_so: bool) -> None:
    assert holds(Rule("queue", operator, 10), Reading(value, NOW)) is holds_so


def test_a_rule_whose_metric_was_not_read_does_not_hold() -> None:
    assert not holds(UP, None)


def test_a_rule_fires_once_it_has_held_for_its_duration() -> None:
    policy = make_policy(rules=(UP,))
    started = timers(policy, make_state(), 11)
    assert started == (RuleTimer(rule_key(0, UP), NOW),)
    state = make_state(timers=started, checked_at=NOW + 119)
    assert fired(policy, timers(policy, state, 11, NOW + 119), NOW + 119) is None
    assert fired(policy, timers(policy, state, 11, NOW + 120), NOW + 120) is UP


def test_the_key_of_a_timer_stays_as_it_was_stored_whatever_people_read() -> None:
    half_an_hour = replace(UP, duration_seconds=1800)
    assert describe(half_an_hour) == "queue gt 10 for 30 min: +2"
    assert rule_key(0, half_an_hour) == "0: queue gt 10 for 1800 s: +2"


def test_a_rule_that_ceases_to_hold_or_is_not_known_begins_again() -> None:
    policy = make_policy(rules=(UP,))
    state = make_state(timers=(RuleTimer(rule_key(0, UP), NOW - 1000),))
    assert timers(policy, state, 10) == ()
    assert timers(policy, state, None) == ()


def test_a_silence_of_the_loop_starts_every_rule_again() -> None:
    policy = make_policy(rules=(UP,))
    held = (RuleTimer(rule_key(0, UP), NOW - 1000),)
    assert timers(policy, make_state(timers=held, checked_at=NOW - 300), 11) == held
    assert timers(policy, make_state(timers=held, checked_at=NOW - 301), 11)[0].since == NOW


def test_a_rule_that_was_changed_begins_again_and_a_timer_from_the_future_counts_as_now() -> None:
    other = make_policy(rules=(DOWN, UP))
    state = make_state(timers=(RuleTimer(rule_key(0, UP), NOW - 1000), RuleTimer(rule_key(1, UP), NOW + 9)))
    assert timers(other, state, 11) == (RuleTimer(rule_key(1, UP), NOW),)


def test_up_wins_over_down_and_the_strongest_counts() -> None:
    ups = (Rule("a", Operator.GT, 0, scale_by=1), Rule("a", Operator.GT, 0, scale_by=3))
    downs = (Rule("a", Operator.GT, 0, scale_by=-1), Rule("a", Operator.GT, 0, scale_by=-4))
    for rules, wanted in (((*downs, *ups), 3), (downs, -4)):
        policy = make_policy(rules=rules)
        held = follow(policy, make_state(), {"a": Reading(1.0, NOW)}, NOW, 300)
        found = fired(policy, held, NOW)
        assert found is not None
        assert found.scale_by == wanted


def test_scaling_is_within_min_and_max() -> None:
    policy = make_policy(min_replicas=2, max_replicas=5)
    up = scale_for(policy, make_state(), UP, [make_workload(replicas=4)], None, NOW)
    assert up.replicas == (Remembered(make_ref(), 5),)
    assert up.why.cause is PolicyCause.RULE
    down = scale_for(policy, make_state(), DOWN, [make_workload(replicas=2)], None, NOW)
    assert down.replicas == ()
    assert down.why.cause is PolicyCause.BOUND
    assert (down.why.about, down.why.found, down.why.limit) == ("min_replicas", 2, 2)


def test_a_rule_never_moves_against_its_own_sign_and_says_why_it_did_not_move() -> None:
    policy = make_policy(min_replicas=3, max_replicas=10)
    up = scale_for(policy, make_state(), UP, [make_workload(replicas=15)], None, NOW)
    assert (up.replicas, up.why.about, up.why.found, up.why.limit) == ((), "max_replicas", 15, 10)
    down = scale_for(policy, make_state(), DOWN, [make_workload(replicas=1)], None, NOW)
    assert (down.replicas, down.why.about, down.why.found, down.why.limit) == ((), "min_replicas", 1, 3)


def test_a_rule_moves_the_members_that_it_can() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"), max_replicas=10)
    workloads = [make_workload("web", 15), make_workload("api", 4)]
    done = scale_for(policy, make_state(), UP, workloads, None, NOW)
    assert done.replicas == (Remembered(make_ref("api"), 6),)


def test_a_rule_without_replicas_to_change_says_so() -> None:
    done = scale_for(make_policy(), make_state(), UP, [make_workload(replicas=0)], None, NOW)
    assert (done.replicas, done.why.cause) == ((), PolicyCause.NOTHING_UP)


def test_rules_never_go_to_zero_and_leave_a_sleeping_member_alone() -> None:
    policy = make_policy("pair", make_ref("web"), make_ref("api"), min_replicas=0)
    workloads = [make_workload("web", 1), make_workload("api", 0)]
    assert scale_for(policy, make_state(), DOWN, workloads, None, NOW).replicas == ()
    assert scale_for(policy, make_state(), UP, workloads, None, NOW).replicas == (
        Remembered(make_ref("web"), 3),
    )


def test_a_rule_waits_for_the_cooldown() -> None:
    policy = make_policy(cooldown_seconds=300)
    done = scale_for(policy, make_state(last_scaled_at=NOW - 299), UP, [make_workload()], None, NOW)
    assert (done.replicas, done.why.cause, done.why.limit) == ((), PolicyCause.COOLDOWN, NOW + 1)
    assert scale_for(policy, make_state(last_scaled_at=NOW - 300), UP, [make_workload()], None, NOW).replicas


def test_a_rule_leaves_an_autoscaler_alone() -> None:
    done = scale_for(make_policy(), make_state(), UP, [make_workload(autoscaler="hpa")], None, NOW)
    assert (done.replicas, done.why.cause, done.why.about) == ((), PolicyCause.AUTOSCALER, "hpa")


@pytest.mark.parametrize(
    ("limit", "rate", "cause"),
    [
        ("0.04", Rate(Decimal("0.02"), "EUR", "t"), PolicyCause.RULE),
        ("0.0399", Rate(Decimal("0.02"), "EUR", "t"), PolicyCause.TOO_EXPENSIVE),
        ("9", None, PolicyCause.NO_PRICE),
        ("9", Rate(Decimal("0.02"), "USD", "t"), PolicyCause.NO_PRICE),
    ],
)
def test_a_rule_stays_within_the_hourly_cost(limit: str, rate: Rate | None, cause: PolicyCause) -> None:
    policy = make_policy(max_hourly_cost=Decimal(limit))
    done = scale_for(policy, make_state(), UP, [make_workload(replicas=2)], rate, NOW)
    assert (Remembered(make_ref(), 4) in done.replicas) is (cause is PolicyCause.RULE)
    assert done.why.cause is cause
    assert bool(done.replicas) is (rate is not None and rate.currency == "EUR"), "one more is affordable"


def test_a_price_that_the_policy_names_binds_however_many_there_are() -> None:
    """Divided by the present replicas, each would be the cheaper the more there are."""
    policy = make_policy(max_hourly_cost=Decimal("0.50"), hourly_cost=Decimal("0.10"), max_replicas=100)
    rate = Rate(Decimal("0.10"), "EUR", "the policy")
    state = with_base(policy, make_state(), 1)
    assert state.priced == Priced(Decimal("0.10"), 1)
    assert with_base(policy, state, 7) is state
    assert scale_for(policy, state, UP, [make_workload(replicas=3)], rate, NOW).replicas
    done = scale_for(policy, state, UP, [make_workload(replicas=5)], rate, NOW)
    assert (done.replicas, done.why.cause) == ((), PolicyCause.TOO_EXPENSIVE)
    assert done.why.found == 0.7
    first = scale_for(policy, make_state(), UP, [make_workload(replicas=5)], rate, NOW)
    assert first.replicas, "the price is that of the five"
    cheaper = replace(policy, hourly_cost=Decimal("0.01"))
    assert with_base(cheaper, state, 5).priced == Priced(Decimal("0.01"), 5)
    assert price_each(policy, make_state(), 0, rate) is None


def test_scaling_down_is_never_too_expensive() -> None:
    policy = make_policy(max_hourly_cost=Decimal("0.001"))
    assert scale_for(policy, make_state(), DOWN, [make_workload(replicas=5)], None, NOW).replicas


def test_a_schedule_sets_the_replicas_within_the_bounds() -> None:
    policy = make_policy(min_replicas=2, max_replicas=6)
    assert scale_to(policy, 9, make_workload(replicas=2), None) == ((Remembered(make_ref(), 6),), NO_WHY)
    assert scale_to(policy, 1, make_workload(replicas=2), None) == ((), NO_WHY)


@pytest.mark.parametrize(
    ("limit", "have", "wanted"), [("0.05", 2, 5), ("0.04", 2, 4), ("0.01", 2, 2), ("0.01", 8, 5)]
)
def test_a_schedule_stays_within_the_hourly_cost(limit: str, have: int, wanted: int) -> None:
    policy = make_policy(max_hourly_cost=Decimal(limit))
    changed, why = scale_to(policy, 5, make_workload(replicas=have), Decimal("0.01"))
    assert [one.replicas for one in changed] == ([wanted] if wanted != have else [])
    assert (why.cause is PolicyCause.TOO_EXPENSIVE) is (wanted < 5)


def at_eight(**overrides: Any) -> Schedule:
    return Schedule(**{"cron": "0 8 * * *", "replicas": 3, **overrides})


def answered(until: int, *schedules: Schedule, now: int = MONDAY_8) -> tuple[int, int] | None:
    found = due(make_policy(schedules=schedules), make_state(scheduled_until=until), now)
    return None if found is None else (found.at, found.schedule.replicas)


def test_a_schedule_is_due_from_its_time_until_it_is_answered() -> None:
    assert answered(MONDAY_8 - 60, at_eight(), now=MONDAY_8 - 1) is None
    assert answered(MONDAY_8 - 60, at_eight()) == (MONDAY_8, 3)
    assert answered(MONDAY_8 - 60, at_eight(), now=MONDAY_8 + 900) == (MONDAY_8, 3)
    assert answered(MONDAY_8, at_eight()) is None


def test_of_those_that_were_missed_only_the_latest_counts() -> None:
    sleep = Schedule("0 20 * * *", replicas=0)
    week_ago = MONDAY_8 - 7 * 24 * HOUR
    assert answered(week_ago, sleep, at_eight(), now=MONDAY_8 + HOUR) == (MONDAY_8, 3)
    assert answered(week_ago, at_eight(), sleep, now=MONDAY_8 + 13 * HOUR) == (MONDAY_8 + 12 * HOUR, 0)


def test_a_new_policy_does_not_answer_what_was_before_it() -> None:
    policy = make_policy(schedules=(at_eight(),), created_at=MONDAY_8 + 1)
    assert due(policy, make_state(), MONDAY_8 + HOUR) is None


def test_a_schedule_that_was_added_later_does_not_fire_for_the_past() -> None:
    added = at_eight(written_at=MONDAY_8 + 1)
    assert answered(0, added, now=MONDAY_8 + HOUR) is None
    assert answered(0, added, at_eight(zone="Europe/Berlin", written_at=1)) == (MONDAY_8 - HOUR, 3)
    assert answered(0, added, now=MONDAY_8 + 24 * HOUR) == (MONDAY_8 + 24 * HOUR, 3)


def test_a_schedule_of_an_older_version_counts_from_the_last_write_of_its_policy() -> None:
    policy = make_policy(schedules=(at_eight(),), created_at=1, updated_at=MONDAY_8)
    assert due(policy, make_state(), MONDAY_8 + HOUR) is None
    assert due(policy, make_state(), MONDAY_8 + 24 * HOUR) is not None


def test_a_schedule_follows_its_zone() -> None:
    berlin = at_eight(zone="Europe/Berlin")
    assert answered(MONDAY_8 - 4 * HOUR, berlin) == (MONDAY_8 - HOUR, 3)


def test_on_a_holiday_of_its_zone_a_schedule_does_not_fire() -> None:
    holiday = at_eight(except_dates=("2024-01-08",))
    assert answered(MONDAY_8 - HOUR, holiday) is None
    assert answered(MONDAY_8 - 48 * HOUR, holiday, now=MONDAY_8 + HOUR) == (MONDAY_8 - 24 * HOUR, 3)
    other_day = at_eight(except_dates=("2024-01-07",))
    assert answered(MONDAY_8 - HOUR, other_day) == (MONDAY_8, 3)


def test_a_schedule_that_never_was_is_not_due() -> None:
    assert answered(1, Schedule("0 0 29 2 *", replicas=2), now=1000) is None


@given(st.integers(0, 10 * 24 * HOUR), st.integers(0, 10 * 24 * HOUR))
def test_a_schedule_once_answered_is_not_due_again_before_its_next_time(before: int, after: int) -> None:
    first = answered(MONDAY_8 - before, at_eight(), now=MONDAY_8 + after)
    if first is not None:
        assert MONDAY_8 - before < first[0] <= MONDAY_8 + after
        assert answered(first[0], at_eight(), now=MONDAY_8 + after) is None
