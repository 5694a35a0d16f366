"""To zero and back, struck at every single call in every way: no wake is lost, everything comes to its end.

The calls of an undisturbed story_run are counted first; then it is told once for each of them and each way to
fail, with another runner, or somebody who wakes the target, coming in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_ref, make_workload

STRIKES = (
    Strike.CRASH_BEFORE,
    Strike.CRASH_AFTER,
    Strike.LOST_REPLY,
    Strike.FAILED,
    Strike.THROTTLED,
    Strike.STALL,
)
by_strike = pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.value)
REFS = (make_ref("web"), make_ref("api"))


def a_group() -> PolicyHarness:
    """Two workloads of three and two replicas that sleep and wake together."""
    memory_workloads = MemoryWorkloads(make_workload("web", 3), make_workload("api", 2))
    return PolicyHarness(policies=(make_policy("pair", *REFS),), memory_workloads=memory_workloads)


def about_to_fall() -> PolicyHarness:
    harness = a_group()
    harness.rounds(2100)
    assert harness.state.phase is Phase.IDLE
    harness.clock.sleep(60)
    return harness


def asleep() -> PolicyHarness:
    harness = a_group()
    harness.sleep()
    harness.clock.sleep(3600)
    harness.round()
    return harness


def struck(harness: PolicyHarness, plan: CrashPlan) -> Scaling:
    return harness.runner(**_ports_of(harness, plan))


def _ports_of(harness: PolicyHarness, plan: CrashPlan) -> dict[str, object]:
    opened = faulty_scaling(harness.scaling.ports, plan)
    return {"store": opened.store, "policies": opened.policies, "workloads": opened.workloads}


def replicas(harness: PolicyHarness) -> list[int]:
    return [harness.memory_workloads.read(ref).replicas for ref in REFS]


def calls_of(make: Callable[[], PolicyHarness], act: Callable[[PolicyHarness, Scaling], None]) -> list[str]:
    plan, harness = CrashPlan(), make()
    act(harness, struck(harness, plan))
    return plan.calls


def fall(harness: PolicyHarness, scaling: Scaling) -> None:
    harness.round(scaling, "struck")


def wake(harness: PolicyHarness, scaling: Scaling) -> None:
    scaling.wake(harness.policies[0].id, WakeReason.MANUAL)


def carry_on(harness: PolicyHarness, seconds: int = 900) -> None:
    """The lease of the dead runs out, and another runner continues."""
    for _ in range(seconds // 60):
        harness.clock.sleep(60)
        harness.round(owner="another")


@by_strike
def test_going_to_zero_comes_to_its_end_wherever_it_is_struck(strike: Strike) -> None:
    calls = calls_of(about_to_fall, fall)
    assert calls.count("workloads.scale#1") == 1
    for number, label in enumerate(calls, start=1):
        harness = about_to_fall()
        plan = CrashPlan(number, strike, on_stall=lambda harness=harness: carry_on(harness, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            fall(harness, struck(harness, plan))
        assert plan.struck == label
        carry_on(harness, 3600)  # the lease of the dead, and then a whole idle time: nobody looked meanwhile
        assert (harness.state.phase, replicas(harness)) == (Phase.ZERO, [0, 0]), label
        assert [one.replicas for one in harness.state.remembered] == [3, 2], label
        assert_ledger_adds_up(harness, label)


@by_strike
def test_a_wake_comes_to_its_end_wherever_it_is_struck(strike: Strike) -> None:
    """Where the wake was not even written its caller knows, and asks again."""
    for number, label in enumerate(calls_of(asleep, wake), start=1):
        harness = asleep()
        plan = CrashPlan(number, strike, on_stall=lambda harness=harness: carry_on(harness, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            wake(harness, struck(harness, plan))
        assert plan.struck == label
        if harness.state.wake_count == 0:
            wake(harness, harness.runner())
        carry_on(harness)
        assert (harness.state.phase, replicas(harness)) == (Phase.IDLE, [3, 2]), label
        assert len(harness.state.wakes) == 1, label
        assert_ledger_adds_up(harness, label)


def test_a_wake_wins_wherever_a_sleeper_freezes() -> None:
    """The sleeper freezes at one of its calls; somebody wakes the target; the sleeper thaws and continues."""
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        harness = about_to_fall()
        plan = CrashPlan(number, Strike.STALL, on_stall=partial(wake, harness, harness.runner()))
        with suppress(EbbtideError):
            fall(harness, struck(harness, plan))
        assert plan.struck == label
        assert (harness.state.wake_count, replicas(harness)) == (1, [3, 2]), label
        carry_on(harness, 300)
        assert (harness.state.wake_count, replicas(harness)) == (1, [3, 2]), label
        assert_ledger_adds_up(harness, label)


def test_a_wake_wins_although_its_caller_dies_while_a_sleeper_is_frozen() -> None:
    """The worst: the call to zero is on its way, the wake is written and not carried out. The round that
    finds it changes every workload, so the call, when it lands, is refused."""
    falls = calls_of(about_to_fall, fall)
    wakes = calls_of(asleep, wake)
    tried = 0
    for number, label in enumerate(falls, start=1):
        if not label.startswith("workloads."):
            continue
        for place in range(1, len(wakes) + 1):
            harness = about_to_fall()

            def meanwhile(harness: PolicyHarness = harness, place: int = place) -> None:
                with suppress(RunnerCrashed):
                    wake(harness, struck(harness, CrashPlan(place, Strike.CRASH_AFTER)))
                assert harness.state.wake_count == 1
                carry_on(harness, 600)

            plan = CrashPlan(number, Strike.STALL, on_stall=meanwhile)
            with suppress(EbbtideError):
                fall(harness, struck(harness, plan))
            carry_on(harness, 300)
            assert replicas(harness) == [3, 2], (label, wakes[place - 1])
            assert harness.state.phase in (Phase.ACTIVE, Phase.IDLE)
            tried += 1
    assert tried >= 6


def test_a_second_sleeper_and_a_wake_both_pass_a_frozen_one() -> None:
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        if not label.startswith("workloads."):
            continue
        harness = about_to_fall()

        def meanwhile(harness: PolicyHarness = harness) -> None:
            carry_on(harness, 600)
            assert harness.state.phase is Phase.ZERO
            wake(harness, harness.runner())
            carry_on(harness, 60)

        with suppress(EbbtideError):
            fall(harness, struck(harness, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        carry_on(harness, 120)
        assert replicas(harness) == [3, 2], label


def assert_ledger_adds_up(harness: PolicyHarness, label: str) -> None:
    before = harness.scaling.savings(harness.policies[0].id, "", "")
    (rebuilt,) = harness.scaling.rebuild()
    assert not rebuilt.changed, label
    assert harness.scaling.savings(harness.policies[0].id, "", "") == before, label
