"""A policy's machine: what follows from a state and what was seen, and what it makes of the outcomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.scale_to_zero import machine
from ebbtide.core.scale_to_zero.activity import ActivityLook
from ebbtide.core.scale_to_zero.machine import Observed, StepResult, TargetStep, WakeOrder
from ebbtide.core.scale_to_zero.rules import Due
from ebbtide.engine.rounds import InvariantBroken, advance_work
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.policy_machine import PolicyMachine
from ebbtide.model.effect import OutcomeKind, Restore, SetReplicas, ToZero, WorkloadOutcome
from ebbtide.model.idle import IdleState, Phase, Remembered, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Operator, Policy, Rule, Schedule, Target
from ebbtide.model.snapshot import Reading
from tests.builders import NOW, make_settings
from tests.policy_harness import (
    DEFAULTS,
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_state,
    make_workload,
    policy_id,
)

QUIET = {QUERY: Reading(0.0, NOW)}
BUSY = {QUERY: Reading(9.0, NOW)}
WEB = make_workload(replicas=2)
ASLEEP = make_workload(replicas=0)
LONG_IDLE = make_state(Phase.IDLE, idle_since=NOW - 86_400)
NIGHT, MORNING = Schedule("0 20 * * *", replicas=0), Schedule("0 8 * * *", replicas=3)


def seen(policy: Policy | None = None, look: ActivityLook | None = None, **overrides: Any) -> Observed:
    return Observed(policy or make_policy(), look or ActivityLook(QUIET, (WEB,)), DEFAULTS, **overrides)


def outcomes(step: TargetStep, kind: OutcomeKind = OutcomeKind.DONE) -> list[WorkloadOutcome]:
    return [WorkloadOutcome(effect, kind) for effect in step.effects]


def test_what_is_long_idle_falls_and_is_at_zero_once_its_calls_were_answered() -> None:
    step = machine.advance(LONG_IDLE, seen(), NOW)
    assert (step.state.phase, step.result) == (Phase.FALLING, StepResult.FELL)
    assert step.effects == (ToZero(make_policy(), (WEB,)),)
    assert step.state.remembered == (Remembered(make_ref(), 2),)
    end = machine.absorb(step.state, outcomes(step), seen(), NOW)
    assert (end.state.phase, end.state.scaled_to_zero_at, end.effects) == (Phase.ZERO, NOW, ())


@pytest.mark.parametrize("kind", [kind for kind in OutcomeKind if kind is not OutcomeKind.DONE])
def test_what_was_not_done_leaves_the_state_as_it_is(kind: OutcomeKind) -> None:
    for state in (LONG_IDLE, make_state(Phase.ZERO, remembered=(Remembered(make_ref(), 2),))):
        observed = seen() if state is LONG_IDLE else seen(look=ActivityLook(BUSY, (ASLEEP,)))
        step = machine.advance(state, observed, NOW)
        assert step.effects
        assert machine.absorb(step.state, outcomes(step, kind), observed, NOW) == TargetStep(step.state)


def test_activity_wakes_what_sleeps_and_the_wake_is_answered_once() -> None:
    state = make_state(Phase.ZERO, remembered=(Remembered(make_ref(), 5),))
    observed = seen(look=ActivityLook(BUSY, (ASLEEP,)))
    step = machine.advance(state, observed, NOW)
    assert (step.state.phase, step.state.wake_count, step.log) == (Phase.WAKING, 1, LogKind.WAKE)
    assert step.effects == (Restore(make_policy(), Remembered(make_ref(), 5)),)
    answered = machine.absorb(step.state, outcomes(step), observed, NOW + 2)
    assert answered.state.last_scaled_at == NOW + 2
    assert machine.absorb(answered.state, outcomes(step), observed, NOW + 3) == TargetStep(answered.state)


def test_a_wake_of_a_pool_has_no_calls_and_is_answered_with_its_write() -> None:
    pool = seen(make_policy(target=Target(pool="workers")), ActivityLook(QUIET))
    step = machine.wake(make_state(Phase.ZERO), pool, WakeOrder(WakeReason.MANUAL), NOW)
    assert (step.state.phase, step.state.last_scaled_at, step.effects) == (Phase.WAKING, NOW, ())


def test_a_wake_joins_another_and_repeats_its_calls_only_where_nobody_answered_them() -> None:
    fresh = make_state(Phase.WAKING, last_wake_at=NOW - 1, wake_count=4)
    joined = machine.wake(fresh, seen(), WakeOrder(WakeReason.MANUAL), NOW)
    assert (joined.state, joined.effects) == (fresh, ())
    assert not joined.why
    stale = replace(fresh, last_wake_at=NOW - 60)
    again = machine.wake(stale, seen(), WakeOrder(WakeReason.MANUAL), NOW)
    assert again.state == stale
    assert not again.why
    assert isinstance(again.effects[0], Restore)


def test_a_wake_that_is_ready_is_over_only_when_its_calls_were_answered() -> None:
    waking = make_state(Phase.WAKING, last_wake_at=NOW - 20, wake_count=1)
    first = machine.ready(waking, seen(), NOW)
    assert (first.state, len(first.effects)) == (waking, 1)
    then = machine.ready(replace(waking, last_scaled_at=NOW), seen(node_seconds=5.0), NOW + 0.5)
    assert (then.state.phase, then.effects) == (Phase.ACTIVE, ())
    assert (then.state.wakes[-1].seconds, then.state.wakes[-1].node_seconds) == (20.5, 5.0)


def test_a_schedule_is_answered_once() -> None:
    due = Due(NOW - 60, NIGHT)
    observed = seen(make_policy(schedules=(NIGHT,)), ActivityLook(BUSY, (WEB,)), due=due)
    step = machine.advance(make_state(), observed, NOW)
    assert (step.state.phase, step.state.scheduled_until) == (Phase.FALLING, due.at)
    end = machine.absorb(step.state, outcomes(step), observed, NOW)
    assert end.state.phase is Phase.ZERO
    assert (
        machine.advance(end.state, replace(observed, look=ActivityLook(BUSY, (ASLEEP,))), NOW).effects == ()
    )


def test_a_number_is_set_first_and_answered_when_that_was_done() -> None:
    due = Due(NOW - 60, MORNING)
    observed = seen(look=ActivityLook(BUSY, (WEB,)), due=due)
    step = machine.advance(make_state(), observed, NOW)
    assert step.state == make_state()
    assert not step.why
    assert [effect.replicas for effect in step.effects if isinstance(effect, SetReplicas)] == [3]
    assert machine.absorb(step.state, outcomes(step), observed, NOW).state.scheduled_until == due.at


def test_a_schedule_that_wakes_is_answered_by_a_wake_in_progress() -> None:
    due = Due(NOW - 60, MORNING)
    step = machine.advance(make_state(Phase.WAKING, last_wake_at=NOW), seen(due=due), NOW)
    assert (step.state.phase, step.state.scheduled_until, step.effects) == (Phase.WAKING, due.at, ())


def test_a_number_leaves_alone_what_an_autoscaler_scales() -> None:
    due = Due(NOW - 60, MORNING)
    observed = seen(look=ActivityLook(BUSY, (make_workload(autoscaler="hpa"),)), due=due)
    step = machine.advance(make_state(), observed, NOW)
    assert (step.state.scheduled_until, step.effects) == (due.at, ())


def test_the_rules_of_what_sleeps_keep_no_timers() -> None:
    rule = Rule("queue", Operator.GT, 10, duration_seconds=0, scale_by=2)
    asleep = make_state(Phase.ZERO, stretch_since=NOW)
    step = machine.advance(asleep, seen(make_policy(rules=(rule,)), ActivityLook(QUIET, (ASLEEP,))), NOW)
    assert (step.state, step.effects) == (asleep, ())


def test_a_rule_that_moves_while_a_schedule_waits_does_not_answer_the_schedule() -> None:
    rule = Rule("queue", Operator.GT, 10, duration_seconds=0, scale_by=2)
    policy = make_policy(rules=(rule,))
    kept_up = make_state(keep_up_until=NOW + 3600)
    observed = seen(policy, ActivityLook(BUSY, (WEB,)), due=Due(NOW - 60, NIGHT), rule=rule)
    step = machine.advance(kept_up, observed, NOW)
    assert (step.result, step.log, step.state.last_scaled_at) == (StepResult.SCALED, LogKind.RULE, NOW)
    assert machine.absorb(step.state, outcomes(step), observed, NOW) == TargetStep(step.state)


def running(harness: PolicyHarness, observed: Observed, **changes: Any) -> PolicyMachine:
    context = PolicyContext(harness.scaling.ports, DEFAULTS, make_settings())
    looks = lambda policy, state: replace(observed, policy=policy)  # noqa: E731
    return PolicyMachine(context, Gating(context), harness.state, observed, looks, **changes)


def test_a_step_that_a_policy_must_never_take_is_refused() -> None:
    harness = PolicyHarness()
    harness.put(phase=Phase.WAKING, wake_count=2)
    before = harness.state

    def asleep(state: IdleState, observed: Observed, now: float) -> TargetStep:
        return TargetStep(replace(state, phase=Phase.ZERO), (ToZero(observed.policy, (WEB,)),))

    with pytest.raises(InvariantBroken, match="from waking to zero: nothing was written"):
        advance_work(running(harness, seen(), step_from=asleep))
    assert (harness.state, harness.memory_workloads.calls) == (before, [])


def test_a_number_is_not_set_for_a_state_that_another_changed() -> None:
    """A schedule that names a number is carried out before it is written as answered."""
    harness = PolicyHarness()
    observed = seen(harness.policies[0], ActivityLook(BUSY, (harness.memory_workloads.read(make_ref()),)))
    run = running(harness, replace(observed, due=Due(NOW - 60, MORNING)))
    run.observe = lambda policy, state: replace(observed, policy=policy)
    harness.put(paused=True)
    advance_work(run)
    assert (harness.memory_workloads.calls, run.state.paused) == ([], True)


def test_a_bug_in_one_policy_is_told_after_the_others_had_their_turn() -> None:
    names = ("a", "b")
    policies = tuple(make_policy(name, id=policy_id(number)) for number, name in enumerate(names, start=1))
    workloads = MemoryWorkloads(*(make_workload(name) for name in names))
    harness = PolicyHarness(policies=policies, memory_workloads=workloads)

    def buggy(workload: Any, replicas: int) -> None:
        if workload.ref.name == "a":
            raise RuntimeError("a bug")

    workloads.before_scale = buggy
    with pytest.raises(RuntimeError, match="a bug"):
        harness.sleep()
    states = {state.policy_id: state.phase for state in harness.rows.list_states()}
    assert states == {policies[0].id: Phase.FALLING, policies[1].id: Phase.ZERO}
    workloads.before_scale = lambda workload, replicas: None
    harness.rounds(600)
    assert {state.phase for state in harness.rows.list_states()} == {Phase.ZERO}
