"""Take-over and release of Services, struck at every single call in every way: at no moment does a Service
lead nowhere, and everything comes to its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.memory_services import PORTS, MemoryServices, gate_of, services_over
from tests.policy_harness import PolicyHarness, make_policy, make_ref, make_workload

STRIKES = (
    Strike.CRASH_BEFORE,
    Strike.CRASH_AFTER,
    Strike.LOST_REPLY,
    Strike.FAILED,
    Strike.THROTTLED,
    Strike.STALL,
)
by_strike = pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.value)
NAMES = ("web", "api")


class GatedHarness(PolicyHarness):
    memory_services: MemoryServices

    def runner(self, **changes: Any) -> Scaling:
        return super().runner(**{"services": self.memory_services, "gate_ports": PORTS, **changes})


def a_group() -> GatedHarness:
    """Two workloads that sleep together, each with its Service."""
    GatedHarness.memory_services = services_over(make_workload("web", 3), make_workload("api", 2))
    policy = make_policy("pair", *map(make_ref, NAMES), gate=gate_of(*NAMES))
    return GatedHarness(policies=(policy,), memory_workloads=GatedHarness.memory_services.workloads)


def about_to_fall() -> GatedHarness:
    harness = a_group()
    harness.rounds(2100)
    assert harness.state.phase is Phase.IDLE
    harness.clock.sleep(60)
    return harness


def waking() -> GatedHarness:
    """Woken, ready, and not yet given back."""
    harness = a_group()
    harness.sleep()
    harness.clock.sleep(60)
    wake(harness, harness.scaling)
    return harness


def awake_and_taken_over() -> GatedHarness:
    """The wake is over; nobody has looked at the Services since."""
    harness = waking()
    woken = harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.scaling.wait_ready(harness.policies[0].id, woken.wake_id, harness.clock.now())
    assert (harness.phase(), taken(harness)) == (Phase.ACTIVE, ["api", "web"])
    return harness


def struck(harness: GatedHarness, plan: CrashPlan) -> Scaling:
    opened = faulty_scaling(harness.scaling.ports, plan)
    return harness.runner(
        store=opened.store, policies=opened.policies, workloads=opened.workloads, services=opened.services
    )


def fall(harness: GatedHarness, scaling: Scaling) -> None:
    harness.round(scaling, "struck")


def give_back(harness: GatedHarness, scaling: Scaling) -> None:
    scaling.reconcile_gates()


def wake(harness: GatedHarness, scaling: Scaling) -> None:
    scaling.wake(harness.policies[0].id, WakeReason.MANUAL)


def sleep_again(harness: GatedHarness) -> None:
    """Wholly awake, idle, asleep: a whole turn while somebody is frozen."""
    harness.round(owner="another")
    harness.sleep()


def calls_of(make: Callable[[], GatedHarness], act: Callable[[GatedHarness, Scaling], None]) -> list[str]:
    plan, harness = CrashPlan(), make()
    act(harness, struck(harness, plan))
    return plan.calls


def carry_on(harness: GatedHarness, seconds: int = 900) -> None:
    for _ in range(seconds // 60):
        harness.clock.sleep(60)
        harness.round(owner="another")


def replicas(harness: GatedHarness) -> list[int]:
    return [harness.memory_workloads.read(make_ref(name)).replicas for name in NAMES]


def taken(harness: GatedHarness) -> list[str]:
    return sorted(ref.name for ref in harness.memory_services.taken)


@by_strike
def test_going_to_zero_takes_over_first_wherever_it_is_struck(strike: Strike) -> None:
    calls = calls_of(about_to_fall, fall)
    assert calls.count("services.take_over#1") == 1
    for number, label in enumerate(calls, start=1):
        harness = about_to_fall()
        plan = CrashPlan(number, strike, on_stall=lambda harness=harness: carry_on(harness, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            fall(harness, struck(harness, plan))
        assert plan.struck == label
        assert not harness.memory_services.nowhere, label
        carry_on(harness, 3600)
        assert (harness.state.phase, replicas(harness)) == (Phase.ZERO, [0, 0]), label
        assert taken(harness) == ["api", "web"], label
        assert not harness.memory_services.nowhere, label


@by_strike
def test_a_service_is_given_back_wherever_the_release_is_struck(strike: Strike) -> None:
    calls = calls_of(waking, give_back)
    assert calls.count("services.release#1") == 1
    for number, label in enumerate(calls, start=1):
        harness = waking()
        plan = CrashPlan(number, strike, on_stall=lambda harness=harness: carry_on(harness, 120))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            give_back(harness, struck(harness, plan))
        assert plan.struck == label
        carry_on(harness, 120)
        assert (taken(harness), replicas(harness)) == ([], [3, 2]), label
        assert not harness.memory_services.nowhere, label


def test_a_release_that_froze_is_refused_when_its_service_sleeps_again() -> None:
    """It saw the takeover of the last sleep; the next one has written it again."""
    for number, label in enumerate(calls_of(waking, give_back), start=1):
        harness = waking()
        plan = CrashPlan(number, Strike.STALL, on_stall=lambda harness=harness: sleep_again(harness))  # type: ignore[misc]
        with suppress(EbbtideError):
            give_back(harness, struck(harness, plan))
        assert plan.struck == label
        assert (harness.phase(), taken(harness)) == (Phase.ZERO, ["api", "web"]), label
        assert not harness.memory_services.nowhere, label


def test_a_release_that_froze_is_refused_although_nobody_else_released_in_between() -> None:
    """Its pods were not ready from then on, so the takeover of the last sleep is still there at the next. It
    is written again all the same."""
    for number, label in enumerate(calls_of(awake_and_taken_over, give_back), start=1):
        harness = awake_and_taken_over()

        def meanwhile(harness: GatedHarness = harness) -> None:
            for name in NAMES:
                harness.memory_workloads.put(make_ref(name), ready_replicas=0)
            harness.sleep()

        with suppress(EbbtideError):
            give_back(harness, struck(harness, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        assert taken(harness) == ["api", "web"], label
        assert not harness.memory_services.nowhere, label


def test_a_wake_wins_wherever_a_sleeper_freezes_and_the_service_is_back_at_the_end() -> None:
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        harness = about_to_fall()

        def meanwhile(harness: GatedHarness = harness) -> None:
            wake(harness, harness.runner())
            harness.round(owner="another")

        with suppress(EbbtideError):
            fall(harness, struck(harness, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        carry_on(harness, 180)
        assert (replicas(harness), taken(harness)) == ([3, 2], []), label
        assert not harness.memory_services.nowhere, label


def test_a_wake_that_died_before_its_calls_keeps_the_gates() -> None:
    """A call to zero may still be on its way; its pods are ready all the same."""
    harness = about_to_fall()
    sleeper = struck(harness, CrashPlan())

    def meanwhile(seen: object, wanted: int) -> None:
        harness.memory_workloads.before_scale = lambda seen, wanted: None
        plan = CrashPlan(2, Strike.CRASH_AFTER)
        with suppress(RunnerCrashed):
            wake(harness, struck(harness, plan))
        assert (harness.state.phase, harness.state.last_scaled_at) == (Phase.WAKING, 0)
        assert harness.runner().reconcile_gates() == []

    harness.memory_workloads.before_scale = meanwhile
    with suppress(EbbtideError):
        fall(harness, sleeper)
    assert taken(harness) == ["api", "web"]
    assert not harness.memory_services.nowhere
    carry_on(harness, 180)
    assert (replicas(harness), taken(harness)) == ([3, 2], [])
