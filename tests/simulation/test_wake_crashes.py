"""To zero and back, struck at every single call in every way: no wake is lost, everything comes to its end.

The calls of an undisturbed telling are counted first; then it is told once for each of them and each way to
fail, with another runner, or somebody who wakes the target, coming in between.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.simulator.faults.calls import CrashPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.yard import Town, Yard, make_policy, make_ref, make_workload

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


def a_group() -> Town:
    """Two workloads of three and two replicas that sleep and wake together."""
    yard = Yard(make_workload("web", 3), make_workload("api", 2))
    return Town(policies=(make_policy("pair", *REFS),), yard=yard)


def about_to_fall() -> Town:
    town = a_group()
    town.rounds(2100)
    assert town.state.phase is Phase.IDLE
    town.clock.sleep(60)
    return town


def asleep() -> Town:
    town = a_group()
    town.sleep()
    town.clock.sleep(3600)
    town.round()
    return town


def struck(town: Town, plan: CrashPlan) -> Scaling:
    return town.runner(**_doors(town, plan))


def _doors(town: Town, plan: CrashPlan) -> dict[str, object]:
    doors = faulty_scaling(town.scaling.ports, plan)
    return {"store": doors.store, "policies": doors.policies, "workloads": doors.workloads}


def replicas(town: Town) -> list[int]:
    return [town.yard.read(ref).replicas for ref in REFS]


def calls_of(make: Callable[[], Town], act: Callable[[Town, Scaling], None]) -> list[str]:
    plan, town = CrashPlan(), make()
    act(town, struck(town, plan))
    return plan.calls


def fall(town: Town, scaling: Scaling) -> None:
    town.round(scaling, "struck")


def wake(town: Town, scaling: Scaling) -> None:
    scaling.wake(town.policies[0].id, WakeReason.MANUAL)


def carry_on(town: Town, seconds: int = 900) -> None:
    """The lease of the dead runs out, and another runner goes on."""
    for _ in range(seconds // 60):
        town.clock.sleep(60)
        town.round(owner="another")


@by_strike
def test_going_to_zero_comes_to_its_end_wherever_it_is_struck(strike: Strike) -> None:
    calls = calls_of(about_to_fall, fall)
    assert calls.count("workloads.scale#1") == 1
    for number, label in enumerate(calls, start=1):
        town = about_to_fall()
        plan = CrashPlan(number, strike, on_stall=lambda town=town: carry_on(town, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            fall(town, struck(town, plan))
        assert plan.struck == label
        carry_on(town, 3600)  # the lease of the dead, and then a whole idle time: nobody looked meanwhile
        assert (town.state.phase, replicas(town)) == (Phase.ZERO, [0, 0]), label
        assert [one.replicas for one in town.state.remembered] == [3, 2], label
        assert_ledger_adds_up(town, label)


@by_strike
def test_a_wake_comes_to_its_end_wherever_it_is_struck(strike: Strike) -> None:
    """Where the wake was not even written its caller knows, and asks again."""
    for number, label in enumerate(calls_of(asleep, wake), start=1):
        town = asleep()
        plan = CrashPlan(number, strike, on_stall=lambda town=town: carry_on(town, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            wake(town, struck(town, plan))
        assert plan.struck == label
        if town.state.wake_count == 0:
            wake(town, town.runner())
        carry_on(town)
        assert (town.state.phase, replicas(town)) == (Phase.IDLE, [3, 2]), label
        assert len(town.state.wakes) == 1, label
        assert_ledger_adds_up(town, label)


def test_a_wake_wins_wherever_a_sleeper_freezes() -> None:
    """The sleeper freezes at one of its calls; somebody wakes the target; the sleeper thaws and goes on."""
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        town = about_to_fall()
        plan = CrashPlan(number, Strike.STALL, on_stall=lambda town=town: wake(town, town.runner()))  # type: ignore[misc]
        with suppress(EbbtideError):
            fall(town, struck(town, plan))
        assert plan.struck == label
        assert (town.state.wake_count, replicas(town)) == (1, [3, 2]), label
        carry_on(town, 300)
        assert (town.state.wake_count, replicas(town)) == (1, [3, 2]), label
        assert_ledger_adds_up(town, label)


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
            town = about_to_fall()

            def meanwhile(town: Town = town, place: int = place) -> None:
                with suppress(RunnerCrashed):
                    wake(town, struck(town, CrashPlan(place, Strike.CRASH_AFTER)))
                assert town.state.wake_count == 1
                carry_on(town, 600)

            plan = CrashPlan(number, Strike.STALL, on_stall=meanwhile)
            with suppress(EbbtideError):
                fall(town, struck(town, plan))
            carry_on(town, 300)
            assert replicas(town) == [3, 2], (label, wakes[place - 1])
            assert town.state.phase in (Phase.ACTIVE, Phase.IDLE)
            tried += 1
    assert tried >= 6


def test_a_second_sleeper_and_a_wake_both_pass_a_frozen_one() -> None:
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        if not label.startswith("workloads."):
            continue
        town = about_to_fall()

        def meanwhile(town: Town = town) -> None:
            carry_on(town, 600)
            assert town.state.phase is Phase.ZERO
            wake(town, town.runner())
            carry_on(town, 60)

        with suppress(EbbtideError):
            fall(town, struck(town, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        carry_on(town, 120)
        assert replicas(town) == [3, 2], label


def assert_ledger_adds_up(town: Town, label: str) -> None:
    before = town.scaling.savings(town.policies[0].id, "", "")
    (rebuilt,) = town.scaling.rebuild()
    assert not rebuilt.changed, label
    assert town.scaling.savings(town.policies[0].id, "", "") == before, label
