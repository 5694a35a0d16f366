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
from ebbtide.simulator.faults.calls import CrashPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.ward import PORTS, Ward, gate_of, ward_of
from tests.yard import Town, make_policy, make_ref, make_workload

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


class GatedTown(Town):
    ward: Ward

    def runner(self, **changes: Any) -> Scaling:
        return super().runner(**{"services": self.ward, "gate_ports": PORTS, **changes})


def a_group() -> GatedTown:
    """Two workloads that sleep together, each with its Service."""
    GatedTown.ward = ward_of(make_workload("web", 3), make_workload("api", 2))
    policy = make_policy("pair", *map(make_ref, NAMES), gate=gate_of(*NAMES))
    return GatedTown(policies=(policy,), yard=GatedTown.ward.yard)


def about_to_fall() -> GatedTown:
    town = a_group()
    town.rounds(2100)
    assert town.state.phase is Phase.IDLE
    town.clock.sleep(60)
    return town


def waking() -> GatedTown:
    """Woken, ready, and not yet given back."""
    town = a_group()
    town.sleep()
    town.clock.sleep(60)
    wake(town, town.scaling)
    return town


def awake_and_taken_over() -> GatedTown:
    """The wake is over; nobody has looked at the Services since."""
    town = waking()
    woken = town.scaling.wake(town.policies[0].id, WakeReason.MANUAL)
    town.scaling.wait_ready(town.policies[0].id, woken.wake_id, town.clock.now())
    assert (town.phase(), taken(town)) == (Phase.ACTIVE, ["api", "web"])
    return town


def struck(town: GatedTown, plan: CrashPlan) -> Scaling:
    doors = faulty_scaling(town.scaling.ports, plan)
    return town.runner(
        store=doors.store, policies=doors.policies, workloads=doors.workloads, services=doors.services
    )


def fall(town: GatedTown, scaling: Scaling) -> None:
    town.round(scaling, "struck")


def give_back(town: GatedTown, scaling: Scaling) -> None:
    scaling.reconcile_gates()


def wake(town: GatedTown, scaling: Scaling) -> None:
    scaling.wake(town.policies[0].id, WakeReason.MANUAL)


def sleep_again(town: GatedTown) -> None:
    """Wholly awake, idle, asleep: a whole turn while somebody is frozen."""
    town.round(owner="another")
    town.sleep()


def calls_of(make: Callable[[], GatedTown], act: Callable[[GatedTown, Scaling], None]) -> list[str]:
    plan, town = CrashPlan(), make()
    act(town, struck(town, plan))
    return plan.calls


def carry_on(town: GatedTown, seconds: int = 900) -> None:
    for _ in range(seconds // 60):
        town.clock.sleep(60)
        town.round(owner="another")


def replicas(town: GatedTown) -> list[int]:
    return [town.yard.read(make_ref(name)).replicas for name in NAMES]


def taken(town: GatedTown) -> list[str]:
    return sorted(ref.name for ref in town.ward.taken)


@by_strike
def test_going_to_zero_takes_over_first_wherever_it_is_struck(strike: Strike) -> None:
    calls = calls_of(about_to_fall, fall)
    assert calls.count("services.take_over#1") == 1
    for number, label in enumerate(calls, start=1):
        town = about_to_fall()
        plan = CrashPlan(number, strike, on_stall=lambda town=town: carry_on(town, 600))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            fall(town, struck(town, plan))
        assert plan.struck == label
        assert not town.ward.nowhere, label
        carry_on(town, 3600)
        assert (town.state.phase, replicas(town)) == (Phase.ZERO, [0, 0]), label
        assert taken(town) == ["api", "web"], label
        assert not town.ward.nowhere, label


@by_strike
def test_a_service_is_given_back_wherever_the_release_is_struck(strike: Strike) -> None:
    calls = calls_of(waking, give_back)
    assert calls.count("services.release#1") == 1
    for number, label in enumerate(calls, start=1):
        town = waking()
        plan = CrashPlan(number, strike, on_stall=lambda town=town: carry_on(town, 120))  # type: ignore[misc]
        with suppress(RunnerCrashed, EbbtideError):
            give_back(town, struck(town, plan))
        assert plan.struck == label
        carry_on(town, 120)
        assert (taken(town), replicas(town)) == ([], [3, 2]), label
        assert not town.ward.nowhere, label


def test_a_release_that_froze_is_refused_when_its_service_sleeps_again() -> None:
    """It saw the takeover of the last sleep; the next one has written it again."""
    for number, label in enumerate(calls_of(waking, give_back), start=1):
        town = waking()
        plan = CrashPlan(number, Strike.STALL, on_stall=lambda town=town: sleep_again(town))  # type: ignore[misc]
        with suppress(EbbtideError):
            give_back(town, struck(town, plan))
        assert plan.struck == label
        assert (town.phase(), taken(town)) == (Phase.ZERO, ["api", "web"]), label
        assert not town.ward.nowhere, label


def test_a_release_that_froze_is_refused_although_nobody_else_released_in_between() -> None:
    """Its pods were not ready from then on, so the takeover of the last sleep is still there at the next. It
    is written again all the same."""
    for number, label in enumerate(calls_of(awake_and_taken_over, give_back), start=1):
        town = awake_and_taken_over()

        def meanwhile(town: GatedTown = town) -> None:
            for name in NAMES:
                town.yard.put(make_ref(name), ready_replicas=0)
            town.sleep()

        with suppress(EbbtideError):
            give_back(town, struck(town, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        assert taken(town) == ["api", "web"], label
        assert not town.ward.nowhere, label


def test_a_wake_wins_wherever_a_sleeper_freezes_and_the_service_is_back_at_the_end() -> None:
    for number, label in enumerate(calls_of(about_to_fall, fall), start=1):
        town = about_to_fall()

        def meanwhile(town: GatedTown = town) -> None:
            wake(town, town.runner())
            town.round(owner="another")

        with suppress(EbbtideError):
            fall(town, struck(town, CrashPlan(number, Strike.STALL, on_stall=meanwhile)))
        carry_on(town, 180)
        assert (replicas(town), taken(town)) == ([3, 2], []), label
        assert not town.ward.nowhere, label


def test_a_wake_that_died_before_its_calls_keeps_the_gates() -> None:
    """A call to zero may still be on its way; its pods are ready all the same."""
    town = about_to_fall()
    sleeper = struck(town, CrashPlan())

    def meanwhile(seen: object, wanted: int) -> None:
        town.yard.before_scale = lambda seen, wanted: None
        plan = CrashPlan(2, Strike.CRASH_AFTER)
        with suppress(RunnerCrashed):
            wake(town, struck(town, plan))
        assert (town.state.phase, town.state.last_scaled_at) == (Phase.WAKING, 0)
        assert town.runner().reconcile_gates() == []

    town.yard.before_scale = meanwhile
    with suppress(EbbtideError):
        fall(town, sleeper)
    assert taken(town) == ["api", "web"]
    assert not town.ward.nowhere
    carry_on(town, 180)
    assert (replicas(town), taken(town)) == ([3, 2], [])
