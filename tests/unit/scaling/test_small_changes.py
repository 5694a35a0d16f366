"""What small changes of the scaling of workloads would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.core.scale_to_zero.machine import StepResult
from ebbtide.engine.scale_to_zero.declaring import _why_refused
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.round import StepDone, _report
from ebbtide.errors import Conflict, EbbtideError, NameTaken, Retryable, TargetTaken, Throttled
from ebbtide.model.idle import Once, Phase, WakeReason
from ebbtide.model.policy import Readiness, Target
from ebbtide.ports import PolicyStore
from ebbtide.simulator.world.clock import SkewedClock
from tests.builders import NOW
from tests.memory_declarations import make_object
from tests.policy_harness import (
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)
from tests.unit.scaling.test_declaring import Stand
from tests.unit.scaling.test_machine import LONG_IDLE, running, seen
from tests.unit.scaling.test_retarget import Between
from tests.unit.scaling.test_scaling import NIGHT, at, harness_of

HOUR = 3600


def test_a_clock_that_was_ahead_brings_no_schedule_forward() -> None:
    """Times of a cron line are remembered for all policies that have it, until the clock is corrected."""
    harness = PolicyHarness(
        policies=(make_policy(schedules=(NIGHT,)),),
        memory_workloads=MemoryWorkloads(make_workload(), make_workload("late")),
        values={QUERY: 9.0},
    )
    at(harness, 12)
    clock = SkewedClock(harness.clock, 9 * HOUR)
    scaling = harness.runner(clock=clock)
    scaling.round("runner", clock.now() + 60)
    assert harness.phase() is Phase.ZERO
    clock.jump(-9 * HOUR)
    book = Policies(harness.rows, clock, lambda: "an-id")
    book.create(make_policy("late", make_ref("late"), id=policy_id(2), schedules=(NIGHT,)))
    scaling.round("runner", clock.now() + 60)
    assert harness.memory_workloads.read(make_ref("late")).replicas == 2


def test_a_new_policy_was_changed_when_it_was_made() -> None:
    harness = harness_of()
    harness.clock.sleep(HOUR)
    book = Policies(harness.rows, harness.clock, lambda: "an-id")
    made = book.create(make_policy("other", make_ref("other"), id=policy_id(2)))
    assert (made.created_at, made.updated_at) == (harness.now, harness.now)


def test_of_what_sleeps_everything_but_the_target_may_be_changed() -> None:
    harness = harness_of()
    harness.sleep()
    book = Policies(harness.rows, harness.clock, lambda: f"an-id-{harness.now}")
    (policy,) = harness.rows.list_policies()
    assert book.replace(replace(policy, grace_seconds=7)).grace_seconds == 7
    moved = replace(policy, version=2, target=Target((make_ref("other"),)))
    (change,) = book.plan([moved], None)
    assert "its target is asleep; wake it first" in change.problems[0].says


def test_a_step_that_says_nothing_adds_nothing_to_the_report() -> None:
    done = [StepDone(make_policy(), StepResult.NOTED), StepDone(make_policy(), StepResult.NOTED, "kept up")]
    assert _report(NOW, 2, 0, done, 0).says == "2 policies; web: kept up"


@pytest.mark.parametrize(("seconds", "phase", "wakes"), [(0, Phase.ZERO, 0), (60, Phase.WAKING, 1)])
def test_only_what_is_to_be_kept_up_is_woken(seconds: int, phase: Phase, wakes: int) -> None:
    harness = harness_of()
    harness.memory_workloads.slow = True
    harness.sleep()
    state = harness.scaling.keep_up(harness.policies[0].id, seconds)
    assert (state.phase, state.wake_count) == (phase, wakes)


def test_to_keep_up_what_runs_is_no_wake() -> None:
    harness = harness_of()
    harness.round()
    assert harness.scaling.keep_up(harness.policies[0].id, 60).wake_count == 0


def test_a_wake_that_could_not_be_written_leaves_its_key_for_the_next_try() -> None:
    harness = harness_of()
    harness.sleep()

    def throttle() -> None:
        raise Throttled("the store is busy")

    rows = cast(PolicyStore, Between(harness.rows, "write_state", throttle))
    once = Once("webhook:1", "a digest", harness.now + 600, harness.now)
    with pytest.raises(Throttled):
        harness.runner(policies=rows).wake_once(harness.policies[0].id, WakeReason.WEBHOOK, once)
    assert harness.phase() is Phase.ZERO
    assert harness.rows.keep_once(once.key, "another", once.expires_at, once.now) == "another"


def test_the_end_of_a_fall_that_another_wrote_over_is_looked_at_again() -> None:
    """Where the state changed meanwhile, what the machine knew of it no longer holds."""
    harness = harness_of()
    harness.put(**{name: getattr(LONG_IDLE, name) for name in ("phase", "idle_since")})
    machine = running(harness, seen())
    falling = harness.put(phase=Phase.FALLING)
    harness.put(last_activity_at=harness.now)
    machine.state = falling
    with pytest.raises(Conflict):
        machine.absorb(falling, ())


@pytest.mark.parametrize(
    ("error", "readiness"),
    [
        (NameTaken("another has it"), Readiness.CONFLICT),
        (TargetTaken("another has it"), Readiness.CONFLICT),
        (Retryable("another has it"), Readiness.FAILED),
    ],
)
def test_an_object_is_told_why_its_policy_was_not_written(error: EbbtideError, readiness: Readiness) -> None:
    assert _why_refused(error) == (readiness, "another has it")


def test_a_policy_whose_object_is_gone_and_that_cannot_be_ended_now_is_said_and_ended_later() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    stand.objects.remove("nights")

    def busy() -> None:
        raise Throttled("the store is busy")

    rows: Any = Between(stand.harness.rows, "put_policy", busy)
    said = _round(stand, rows)
    assert "policy default.nights: its object is gone, and it is not removed yet: the store is busy" in said
    assert [each.name for each in stand.all] == ["default.nights"]
    stand.until(lambda: not stand.all)


def _round(stand: Stand, rows: PolicyStore) -> Sequence[str]:
    stand.harness.clock.sleep(60)
    return stand.harness.round(stand.runner(policies=rows))
