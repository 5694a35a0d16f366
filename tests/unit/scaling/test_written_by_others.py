"""Writes and calls that keep meeting those of others: what is tried again, what is given up, and what must
not be noted for something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.round import FALL_TRIES
from ebbtide.errors import Conflict, NotFound, Throttled
from ebbtide.model.idle import IdleState, Phase, WakeReason
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Target
from ebbtide.ports import PolicyStore
from tests.builders import NOW
from tests.policy_harness import (
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)
from tests.unit.scaling.test_scaling import MORNING, NIGHT, at

WEB, OTHER = make_ref(), make_ref("other")


BUSY = "the store is busy"


class Contested:
    """A store in which others are always the first to write."""

    def __init__(self, inner: PolicyStore, name: str) -> None:
        self._inner = inner
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return self._refuse if name == self._name else getattr(self._inner, name)

    def _refuse(self, *_: object) -> None:
        raise Conflict("somebody else wrote first")


class BeforeSecond:
    """Something happens just before the second write of a state: that which notes what the calls came to."""

    def __init__(self, inner: PolicyStore, happens: Callable[[], object]) -> None:
        self._inner = inner
        self._happens = happens
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        if name == "write_state":
            self._writes += 1
            if self._writes == 2:
                self._happens()
        return getattr(self._inner, name)


def asleep() -> PolicyHarness:
    harness = PolicyHarness()
    harness.sleep()
    harness.memory_workloads.slow = True
    return harness


def contested(harness: PolicyHarness, name: str) -> PolicyStore:
    return cast(PolicyStore, Contested(harness.rows, name))


def test_a_change_that_always_meets_another_writer_is_refused_and_not_taken_for_done() -> None:
    harness = PolicyHarness()
    with pytest.raises(Conflict):
        harness.runner(policies=contested(harness, "write_state")).pause(policy_id(), True)
    assert not harness.state.paused


def test_a_wake_that_can_never_be_written_is_refused_and_scales_nothing() -> None:
    harness = asleep()
    calls = list(harness.memory_workloads.calls)
    with pytest.raises(Conflict):
        harness.runner(policies=contested(harness, "write_state")).wake(policy_id(), WakeReason.MANUAL)
    assert (harness.phase(), harness.memory_workloads.calls) == (Phase.ZERO, calls)


def test_a_change_of_target_that_always_meets_another_writer_is_refused() -> None:
    harness = PolicyHarness(memory_workloads=MemoryWorkloads(make_workload(), make_workload("other")))
    book = Policies(contested(harness, "put_policy"), harness.clock, lambda: "an-id")
    (policy,) = harness.rows.list_policies()
    with pytest.raises(Conflict):
        book.replace(replace(policy, target=Target((OTHER,))))
    assert list(harness.rows.list_policies()) == [policy]


def test_a_name_that_no_policy_has_is_not_found() -> None:
    harness = PolicyHarness()
    with pytest.raises(NotFound):
        Policies(harness.rows, harness.clock, lambda: "an-id").find("nobody")


class Restless(MemoryWorkloads):
    """Somebody changes the workload whenever it is about to be scaled."""

    rests = False

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        if not self.rests:
            self.put(seen.ref)
        return super().scale(seen, replicas, note)


def test_a_wake_whose_workload_never_rests_is_carried_out_by_a_later_round() -> None:
    workloads = Restless(make_workload())
    workloads.rests = True
    harness = PolicyHarness(memory_workloads=workloads)
    harness.sleep()
    workloads.rests = False
    harness.scaling.wake(policy_id(), WakeReason.MANUAL)
    assert (harness.phase(), harness.state.last_scaled_at) == (Phase.WAKING, 0)
    workloads.rests = True
    harness.rounds(120)
    assert (workloads.read(WEB).replicas, harness.phase()) == (2, Phase.ACTIVE)


def woken_while(harness: PolicyHarness, **changes: Any) -> IdleState:
    """The state after a wake; another process wrote these changes while its calls were made."""
    rows = cast(PolicyStore, BeforeSecond(harness.rows, lambda: harness.put(**changes)))
    harness.runner(policies=rows).wake(policy_id(), WakeReason.MANUAL)
    return harness.state


def test_a_wake_whose_calls_were_answered_says_so_on_what_others_wrote_meanwhile() -> None:
    harness = asleep()
    state = woken_while(harness, keep_up_until=harness.now + 600)
    assert (state.last_scaled_at, state.keep_up_until) == (harness.now, harness.now + 600)


def test_the_calls_of_one_wake_do_not_answer_another() -> None:
    """A release of a Service waits for the calls of the wake that is in progress, not of an earlier one."""
    harness = asleep()
    state = woken_while(harness, wake_count=7)
    assert (state.phase, state.wake_count, state.last_scaled_at) == (Phase.WAKING, 7, 0)


def test_the_calls_of_a_wake_are_no_calls_to_zero_of_what_falls_asleep_again_meanwhile() -> None:
    harness = asleep()
    state = woken_while(harness, phase=Phase.FALLING, idle_since=harness.now - 3600)
    assert (state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.FALLING, 2)


def about_to_sleep(*workloads: Workload) -> PolicyHarness:
    """Idle for so long that the next round puts it to sleep."""
    harness = PolicyHarness(memory_workloads=MemoryWorkloads(*(workloads or (make_workload(),))))
    harness.rounds(2100)
    harness.clock.sleep(60)
    assert harness.phase() is Phase.IDLE
    return harness


def test_what_changes_while_it_goes_to_sleep_is_looked_at_again_and_sleeps_in_the_same_round() -> None:
    harness = about_to_sleep()
    met: list[int] = []

    def change(seen: Workload, replicas: int) -> None:
        if not met:
            met.append(replicas)
            harness.memory_workloads.put(seen.ref)

    harness.memory_workloads.before_scale = change
    harness.round()
    assert (met, harness.phase(), harness.memory_workloads.calls) == ([0], Phase.ZERO, [(WEB, 0)])


def test_a_pool_is_asleep_in_the_round_in_which_it_falls() -> None:
    """Nothing is to be called for it."""
    harness = PolicyHarness((make_policy(target=Target(pool="workers")),), MemoryWorkloads())
    phases = set()
    for _ in range(60):
        harness.clock.sleep(60)
        harness.round()
        phases.add(harness.phase())
    assert phases == {Phase.IDLE, Phase.ZERO}


class BusyOnce:
    """A store that does not take the second write of a state."""

    def __init__(self, inner: PolicyStore) -> None:
        self._inner = inner
        self._writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write_state(self, *given: Any) -> IdleState:
        self._writes += 1
        if self._writes == 2:
            raise Throttled(BUSY)
        written: IdleState = self._inner.write_state(*given)
        return written


def test_a_wake_whose_answer_could_not_be_noted_says_so_and_is_carried_out() -> None:
    harness = asleep()
    woken = harness.runner(policies=cast(PolicyStore, BusyOnce(harness.rows))).wake(
        policy_id(), WakeReason.MANUAL
    )
    assert BUSY in woken.message
    assert harness.memory_workloads.read(WEB).replicas == 2


class Deleting:
    """A store in which a policy is deleted just before its state is asked for."""

    def __init__(self, inner: PolicyStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def find_state(self, policy: str) -> IdleState | None:
        for each in self._inner.list_policies():
            self._inner.delete_policy(each.id, each.version)
        return self._inner.find_state(policy)


def test_a_policy_that_is_deleted_before_its_wake_is_made_again_stops_no_round() -> None:
    harness = asleep()
    calls = list(harness.memory_workloads.calls)
    harness.put(phase=Phase.WAKING, wake_count=1, last_wake_at=harness.now - 600, last_scaled_at=0)
    harness.round(harness.runner(policies=cast(PolicyStore, Deleting(harness.rows))))
    assert list(harness.rows.list_policies()) == []
    assert harness.memory_workloads.calls == calls


def test_a_schedule_that_wakes_sets_its_number_although_somebody_started_a_few() -> None:
    harness = PolicyHarness((make_policy(created_at=NOW, schedules=(NIGHT, MORNING)),), values={QUERY: 9.0})
    at(harness, 20, 1)
    at(harness, 7, 59)
    harness.memory_workloads.put(WEB, replicas=1, ready_replicas=1)
    harness.clock.sleep(120)
    harness.round()
    assert harness.memory_workloads.read(WEB).replicas == 3


def test_of_a_fall_that_there_was_no_time_to_repeat_it_is_not_said_that_others_changed_it_often() -> None:
    harness = about_to_sleep()
    times: list[int] = []

    def change(seen: Workload, replicas: int) -> None:
        times.append(replicas)
        harness.memory_workloads.put(seen.ref)
        harness.clock.sleep(120)

    harness.memory_workloads.before_scale = change
    says = harness.round()
    assert (times, harness.phase()) == ([0], Phase.FALLING)
    assert f"{FALL_TRIES} times" not in says


def test_a_policy_that_is_deleted_after_its_state_was_read_is_not_found() -> None:
    harness = asleep()

    class Deleted:
        def __getattr__(self, name: str) -> Any:
            return getattr(harness.rows, name)

        def find_policy(self, _: str) -> None:
            return None

    with pytest.raises(NotFound):
        harness.runner(policies=Deleted()).wake(policy_id(), WakeReason.MANUAL)
