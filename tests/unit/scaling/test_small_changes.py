"""What small changes of the scaling of workloads would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.core.scale_to_zero.machine import StepResult
from ebbtide.engine.leased import Leased
from ebbtide.engine.scale_to_zero.declaring import _why_refused, has_time
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.round import StepDone, _report
from ebbtide.errors import Conflict, EbbtideError, NameTaken, Retryable, TargetTaken, Throttled
from ebbtide.model.idle import IdleState, Once, Phase, WakeReason
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


def asleep_by_schedule() -> PolicyHarness:
    """Put to sleep at eight although it was in use, so there is no moment since which it was idle."""
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT,)), values={QUERY: 9.0})
    at(harness, 20, 1)
    assert (harness.phase(), harness.state.idle_since) == (Phase.ZERO, None)
    return harness


@pytest.mark.parametrize(("after", "phase"), [(-1, Phase.ZERO), (0, Phase.WAKING), (30, Phase.WAKING)])
def test_activity_wakes_what_a_schedule_put_to_sleep_unless_it_was_before(after: int, phase: Phase) -> None:
    """A gate or a caller of the API may report it late: it was looked at since."""
    harness = asleep_by_schedule()
    harness.memory_workloads.slow = True
    slept = harness.state.scaled_to_zero_at
    assert slept is not None
    harness.clock.sleep(600)
    harness.put(checked_at=harness.now)
    harness.scaling.report_activity(harness.policies[0].id, at=slept + after)
    assert harness.phase() is phase


def test_activity_wakes_what_a_schedule_is_about_to_put_to_sleep() -> None:
    harness = harness_of(values={QUERY: 9.0})
    harness.memory_workloads.slow = True
    harness.put(phase=Phase.FALLING, idle_since=None, scaled_to_zero_at=None, checked_at=harness.now)
    harness.scaling.report_activity(harness.policies[0].id)
    assert harness.phase() is Phase.WAKING


def test_of_a_group_with_a_workload_that_is_gone_the_others_are_counted() -> None:
    names = ("gone", "web", "api")
    workloads = MemoryWorkloads(make_workload("web", 2), make_workload("api", 3))
    harness = harness_of(make_policy("group", *map(make_ref, names)), memory_workloads=workloads)
    woken = harness.scaling.wake(harness.policies[0].id, WakeReason.API_REQUEST)
    assert (woken.status, woken.previous_replicas, woken.ready) == ("already_running", 5, True)


def test_a_policy_whose_object_is_gone_waits_for_its_wake_to_end() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    stand.objects.remove("nights")
    stand.harness.memory_workloads.slow = True
    stand.round()
    stand.rounds(2)
    assert stand.phase() is Phase.WAKING
    stand.harness.memory_workloads.put(make_ref(), ready_replicas=2)
    stand.until(lambda: not stand.all)


def two_orphans(stand: Stand) -> None:
    for number, name in enumerate(("web", "api")):
        stand.objects.put(make_object(f"{name}-nights", name, number=101 + number))
    stand.round()
    assert len(stand.all) == 2
    stand.objects.there = []


def test_a_policy_that_cannot_be_ended_now_keeps_no_other_whose_object_is_gone() -> None:
    stand = Stand()
    two_orphans(stand)

    def busy() -> None:
        raise Throttled("the store is busy")

    _round(stand, cast(PolicyStore, Between(stand.harness.rows, "put_policy", busy)))
    assert len(stand.all) == 1


class Lagging:
    """A store whose list of states leaves out the first: its policy was made after the list was read."""

    def __init__(self, inner: PolicyStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list_states(self) -> Sequence[IdleState]:
        return self._inner.list_states()[1:]


def test_a_policy_without_a_state_keeps_no_other_whose_object_is_gone() -> None:
    stand = Stand()
    two_orphans(stand)
    first = stand.harness.rows.list_states()[0].policy_id
    _round(stand, cast(PolicyStore, Lagging(stand.harness.rows)))
    assert [policy.id for policy in stand.all] == [first]


def test_the_lease_is_renewed_while_thousands_of_objects_are_written() -> None:
    harness = harness_of()
    asked = harness.clock.now()
    lease = harness.store.acquire("policies", "runner", 300)
    leased = Leased(harness.store, harness.clock, lease, 300, 10, asked + 10_000, asked)
    for _ in range(10):
        harness.clock.sleep(160)
        assert has_time(leased)
    assert leased.lease.until > harness.now
