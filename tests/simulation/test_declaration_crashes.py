"""A policy that an object declares, made and ended with the runner struck at every call in every way: it is
made once, and whatever it put to sleep is up again when it is gone."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Readiness
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.memory_declarations import MemoryDeclarations, make_object
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_ref, make_workload

STRIKES = (
    Strike.CRASH_BEFORE,
    Strike.CRASH_AFTER,
    Strike.LOST_REPLY,
    Strike.FAILED,
    Strike.THROTTLED,
    Strike.STALL,
)
by_strike = pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.value)
LEASE_SECONDS = 900


class Stand:
    def __init__(self) -> None:
        self.harness = PolicyHarness(policies=(), memory_workloads=MemoryWorkloads(make_workload("web", 3)))
        self.objects = MemoryDeclarations([make_object()])

    def scaling(self, plan: CrashPlan | None = None) -> Scaling:
        ports = self.harness.scaling.ports
        doors = faulty_scaling(ports, plan) if plan is not None else ports
        return self.harness.runner(
            declarations=self.objects, store=doors.store, policies=doors.policies, workloads=doors.workloads
        )

    def rounds(self, seconds: int = LEASE_SECONDS) -> None:
        """Another runner continues, once the lease of the dead has run out."""
        another = self.scaling()
        for _ in range(seconds // 60):
            self.harness.clock.sleep(60)
            self.harness.round(another, "another")

    def phase(self) -> Phase | None:
        found = self.harness.rows.list_states()
        return found[0].phase if found else None

    def replicas(self) -> int:
        return self.harness.memory_workloads.read(make_ref()).replicas


def fresh() -> Stand:
    return Stand()


def about_to_sleep() -> Stand:
    """Idle for so long that the next round puts it to sleep, and its object is still there."""
    stand = Stand()
    stand.rounds(2100)
    assert stand.phase() is Phase.IDLE
    stand.harness.clock.sleep(60)
    return stand


def asleep() -> Stand:
    stand = Stand()
    stand.rounds(3600)
    assert (stand.phase(), stand.replicas()) == (Phase.ZERO, 0)
    return stand


def forsaken() -> Stand:
    """Asleep, and its object is gone."""
    stand = asleep()
    stand.objects.remove("nights")
    return stand


def round_of(stand: Stand, scaling: Scaling) -> None:
    stand.harness.round(scaling, "struck")


def calls_of(stand: Stand) -> list[str]:
    plan = CrashPlan()
    round_of(stand, stand.scaling(plan))
    return plan.calls


@by_strike
def test_a_policy_is_made_once_wherever_its_runner_is_struck(strike: Strike) -> None:
    calls = calls_of(fresh())
    assert "policies.put_policy#1" in calls
    for number, label in enumerate(calls, start=1):
        stand = fresh()
        plan = CrashPlan(number, strike, on_stall=partial(stand.rounds, 1200))
        with suppress(RunnerCrashed, EbbtideError):
            round_of(stand, stand.scaling(plan))
        assert plan.struck == label
        stand.rounds()
        assert [each.name for each in stand.harness.rows.list_policies()] == ["default.nights"], label
        assert stand.objects.report().ready is Readiness.APPLIED, label


def three() -> Stand:
    """Three objects, which one round writes together."""
    stand = fresh()
    stand.objects.there += [make_object(name, name, number=each) for each, name in enumerate("ab", 102)]
    return stand


@by_strike
def test_of_many_made_together_each_is_made_once_wherever_their_runner_is_struck(strike: Strike) -> None:
    calls = calls_of(three())
    assert "policies.put_policy#3" in calls
    for number, label in enumerate(calls, start=1):
        stand = three()
        plan = CrashPlan(number, strike, on_stall=partial(stand.rounds, 1200))
        with suppress(RunnerCrashed, EbbtideError):
            round_of(stand, stand.scaling(plan))
        assert plan.struck == label
        stand.rounds()
        made = [(each.name, each.version) for each in stand.harness.rows.list_policies()]
        assert made == [("default.a", 1), ("default.b", 1), ("default.nights", 1)], label
        for name in ("a", "b", "nights"):
            assert stand.objects.report(name).ready is Readiness.APPLIED, label


@by_strike
def test_what_sleeps_is_woken_before_its_policy_goes_wherever_its_runner_is_struck(strike: Strike) -> None:
    calls = calls_of(forsaken())
    assert {"policies.put_policy#1", "workloads.scale#1"} <= set(calls)
    for number, label in enumerate(calls, start=1):
        stand = forsaken()
        plan = CrashPlan(number, strike, on_stall=partial(stand.rounds, 1200))
        with suppress(RunnerCrashed, EbbtideError):
            round_of(stand, stand.scaling(plan))
        assert plan.struck == label
        stand.rounds(1800)
        assert (stand.replicas(), list(stand.harness.rows.list_policies())) == (3, []), label


def test_a_workload_that_falls_asleep_while_its_policy_is_ended_is_woken() -> None:
    """The runner that ends the policy saw it awake, and freezes at one of its calls. Meanwhile another, which
    read the objects before, puts it to sleep. Then the call lands."""
    ending = about_to_sleep()
    ending.objects.remove("nights")
    for number, label in enumerate(calls_of(ending), start=1):
        stand = about_to_sleep()
        stand.objects.remove("nights")

        def meanwhile(stand: Stand = stand) -> None:
            sleeper = stand.harness.runner()
            for _ in range(60):
                stand.harness.clock.sleep(60)
                stand.harness.round(sleeper, "sleeper")

        plan = CrashPlan(number, Strike.STALL, on_stall=meanwhile)
        with suppress(EbbtideError):
            round_of(stand, stand.scaling(plan))
        assert plan.struck == label
        stand.rounds(2400)
        assert (stand.replicas(), list(stand.harness.rows.list_policies())) == (3, []), label
