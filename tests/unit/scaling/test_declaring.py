"""Objects that declare policies: applied once, reported once, never fought over, ended safely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import Retryable
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import FROM_CONFIGURATION, Declarer, Policy, Readiness, Target
from tests.memory_declarations import MemoryDeclarations, make_object
from tests.policy_harness import (
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)


@dataclass
class Stand:
    """Two Deployments, `web` and `api`, and the objects of the test."""

    objects: MemoryDeclarations = field(default_factory=MemoryDeclarations)
    policies: tuple[Policy, ...] = ()

    def __post_init__(self) -> None:
        workloads = MemoryWorkloads(make_workload(), make_workload("api"))
        self.harness = PolicyHarness(policies=self.policies, memory_workloads=workloads)
        self.scaling = self.runner()

    def runner(self, **changes: Any) -> Scaling:
        return self.harness.runner(declarations=self.objects, **changes)

    def round(self, owner: str = "runner") -> str:
        self.harness.clock.sleep(60)
        return self.harness.round(self.scaling, owner)

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self.round()

    def until(self, holds: Callable[[], bool]) -> None:
        for _ in range(200):
            if holds():
                return
            self.round()
        raise AssertionError(f"never: {self.harness.rows.list_states()}")

    @property
    def all(self) -> list[Policy]:
        return list(self.harness.rows.list_policies())

    def phase(self) -> Phase:
        (policy,) = self.all
        found = self.harness.rows.find_state(policy.id)
        assert found is not None
        return found.phase

    def asleep(self) -> None:
        self.until(lambda: bool(self.all) and self.phase() is Phase.ZERO)

    def replicas(self, name: str = "web") -> int:
        return self.harness.memory_workloads.read(make_ref(name)).replicas


def test_an_object_becomes_a_policy_and_is_told_so_once() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    assert "policy default.nights: created, as SleepPolicy default/nights says" in stand.round()
    (policy,) = stand.all
    assert (policy.name, policy.origin) == ("default.nights", "kubernetes:SleepPolicy/default/nights")
    report = stand.objects.report()
    assert (report.ready, report.phase, report.target) == (Readiness.APPLIED, Phase.IDLE, "web")
    before, told = stand.harness.said(), len(stand.objects.told)
    stand.rounds(3)
    assert (stand.all, len(stand.objects.told)) == ([policy], told), "nothing changed, so nothing is written"
    assert stand.harness.said() == before


def test_another_runner_finds_nothing_to_do() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    policies, told = stand.all, len(stand.objects.told)
    stand.scaling = stand.runner()
    stand.round("another")
    assert (stand.all, len(stand.objects.told)) == (policies, told)


def test_a_changed_object_changes_its_policy_and_an_unreadable_one_leaves_it_as_it_was() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    stand.objects.put(make_object(generation=2, policy={"idle_threshold_seconds": 60}))
    stand.round()
    assert stand.all[0].idle_threshold_seconds == 60
    assert stand.objects.report().generation == 2
    stand.objects.put(make_object(generation=3, policy=None, problem="timeZone: no such zone"))
    stand.round()
    report = stand.objects.report()
    assert (report.ready, report.says, report.generation) == (Readiness.INVALID, "timeZone: no such zone", 3)
    assert (report.phase, stand.all[0].idle_threshold_seconds) == (Phase.IDLE, 60)


def test_the_phases_of_its_workloads_are_told_and_what_was_saved() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    report = stand.objects.report()
    assert (report.phase, stand.replicas()) == (Phase.ZERO, 0)
    told = len(stand.objects.told)
    stand.rounds(5)
    assert len(stand.objects.told) == told, "a sleep that continues is no news"
    stand.scaling.wake(stand.all[0].id, WakeReason.MANUAL)
    stand.round()
    report = stand.objects.report()
    assert report.phase is not Phase.ZERO
    assert report.saved is not None
    assert report.saved.asleep_seconds >= 300


def test_an_object_that_is_gone_ends_its_policy_and_its_workload_is_woken_first() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    stand.objects.remove("nights")
    assert "woken, since SleepPolicy default/nights is gone" in stand.round()
    assert stand.replicas() == 2
    (policy,) = stand.all
    assert not policy.enabled, "nothing puts it to sleep again before it is deleted"
    assert policy.updated_at == stand.harness.now
    stand.until(lambda: not stand.all)
    assert stand.replicas() == 2
    assert "policy default.nights deleted" in " ".join(stand.harness.said())


def test_objects_that_are_not_read_have_lost_nothing_and_their_policies_stay_active() -> None:
    """One switch was turned off: that SleepPolicies are not asked for says nothing about them."""
    stand = Stand(MemoryDeclarations([make_object()]))
    stand.asleep()
    stand.objects.there, stand.objects.kinds = [], frozenset({Declarer.DEPLOYMENT, Declarer.STATEFUL_SET})
    assert "is gone" not in stand.round()
    stand.rounds(3)
    assert (len(stand.all), stand.phase(), stand.all[0].enabled) == (1, Phase.ZERO, True)


def test_an_awake_workload_of_an_object_that_is_gone_is_not_touched() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    stand.objects.remove("nights")
    stand.round()
    assert (stand.all, stand.harness.memory_workloads.calls) == ([], [])


def test_an_object_that_goes_with_its_workload_ends_its_policy_too() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    stand.objects.remove("nights")
    del stand.harness.memory_workloads.there[make_ref()]
    stand.until(lambda: not stand.all)


def test_an_object_that_comes_back_under_its_name_keeps_its_policy() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    (before,) = stand.all
    stand.objects.remove("nights")
    stand.round()
    stand.objects.put(make_object(number=55))
    stand.round()
    (after,) = stand.all
    assert (after.id, after.enabled) == (before.id, True)


def test_where_the_objects_cannot_be_read_everything_stays_as_it_is() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    before = stand.all
    stand.objects.problem = Retryable("the server does not answer")
    stand.objects.remove("nights")
    said = stand.round()
    assert "policies of Kubernetes objects were left as they are: the server does not answer" in said
    assert stand.all == before


def test_a_target_that_the_api_has_taken_is_a_condition_and_not_a_fight() -> None:
    mine = make_policy("by-hand", make_ref(), id=policy_id(1))
    stand = Stand(policies=(mine,))
    stand.objects.put(make_object())
    stand.rounds(3)
    report = stand.objects.report()
    assert report.ready is Readiness.CONFLICT
    assert "Deployment default/web is the target of policy by-hand already" in report.says
    assert [each.name for each in stand.all] == ["by-hand"]
    assert len(stand.objects.told) == 1
    book = Policies(stand.harness.rows, stand.harness.clock, str)
    book.delete(stand.all[0])
    stand.round()
    assert stand.objects.report().ready is Readiness.APPLIED, "applied as soon as the target is free"


def test_of_two_objects_for_one_workload_the_older_is_applied_and_the_other_waits_for_it() -> None:
    stand = Stand()
    stand.objects.put(make_object("young", number=1, created_at=20))
    stand.objects.put(make_object("old", number=2, created_at=10))
    stand.round()
    assert [each.name for each in stand.all] == ["default.old"]
    assert stand.objects.report("young").ready is Readiness.CONFLICT
    assert "policy default.old" in stand.objects.report("young").says
    stand.objects.remove("old")
    stand.until(lambda: [each.name for each in stand.all] == ["default.young"])
    stand.round()
    assert stand.objects.report("young").ready is Readiness.APPLIED


def test_a_name_that_somebody_else_uses_is_left_to_them() -> None:
    stand = Stand(policies=(make_policy("default.nights", make_ref("api"), id=policy_id(1)),))
    stand.objects.put(make_object())
    stand.round()
    report = stand.objects.report()
    assert (report.ready, "has this name already" in report.says) == (Readiness.CONFLICT, True)
    assert stand.all[0].origin == ""


def test_a_target_changes_once_it_is_awake_and_until_then_the_object_says_why_not() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    stand.objects.put(make_object("nights", "api", generation=2))
    stand.round()
    report = stand.objects.report()
    assert report.ready is Readiness.TARGET_ASLEEP
    assert "wake it first" in report.says
    stand.scaling.wake(stand.all[0].id, WakeReason.MANUAL)
    stand.until(lambda: stand.all[0].target == Target((make_ref("api"),)))
    assert (stand.replicas("web"), stand.replicas("api")) == (2, 2)


def test_what_an_annotation_says_is_a_policy_as_well() -> None:
    stand = Stand()
    stand.objects.put(make_object("web", kind=Declarer.DEPLOYMENT))
    assert "as Deployment default/web says" in stand.round()
    assert stand.all[0].origin == "kubernetes:Deployment/default/web"


def test_a_policy_of_an_object_is_changed_by_nobody_else() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    (policy,) = stand.all
    book = Policies(stand.harness.rows, stand.harness.clock, str)
    with pytest.raises(PolicyRefused, match="SleepPolicy default/nights declares this policy") as refused:
        book.replace(replace(policy, grace_seconds=1))
    assert refused.value.taken
    for origin in (None, FROM_CONFIGURATION):
        (change,) = book.plan([replace(policy, grace_seconds=1)], origin)
        assert "change that object" in change.problems[0].says


def test_an_object_that_could_not_be_told_is_told_by_the_next_round() -> None:
    class Deaf(MemoryDeclarations):
        deaf = True

        def tell(self, declaration: Any, report: Any) -> None:
            if self.deaf:
                raise Retryable("no answer")
            super().tell(declaration, report)

    deaf = Deaf()
    stand = Stand(deaf)
    deaf.put(make_object())
    assert "SleepPolicy default/nights: its status could not be updated: no answer" in stand.round()
    deaf.deaf = False
    stand.round()
    assert deaf.report().ready is Readiness.APPLIED


def test_more_objects_than_are_written_together_are_all_applied_in_one_round_and_then_left_alone() -> None:
    stand = Stand()
    for number in range(230):
        stand.objects.put(make_object(f"p{number:03d}", f"w{number:03d}", number=200 + number))
    stand.round()
    policies = list(stand.harness.rows.list_policies(limit=1000))
    assert [each.name for each in policies] == [f"default.p{number:03d}" for number in range(230)]
    told = len(stand.objects.told)
    assert told == 230
    stand.rounds(2)
    assert list(stand.harness.rows.list_policies(limit=1000)) == policies
    assert len(stand.objects.told) == told


def test_objects_that_there_was_no_time_to_tell_are_told_by_the_next_round() -> None:
    """An API server that answers slowly must not hold the round past its lease."""
    stand = Stand()

    class Slow(MemoryDeclarations):
        seconds = 25.0

        def tell(self, declaration: Any, report: Any) -> None:
            stand.harness.clock.sleep(self.seconds)
            super().tell(declaration, report)

    slow = Slow()
    stand.scaling = stand.harness.runner(declarations=slow)
    for number in range(5):
        slow.put(make_object(f"p{number}", f"w{number}", number=200 + number))
    assert "there was no time to update the status of 2 objects" in stand.round()
    assert len(slow.told) == 3
    slow.seconds = 0.0
    assert "there was no time" not in stand.round()
    assert sorted(name for name, _ in slow.told) == ["p0", "p1", "p2", "p3", "p4"], "each once"


def test_objects_with_nothing_new_ask_the_ledger_for_nothing() -> None:
    stand, asked = Stand(), []
    listing = stand.harness.rows.list_days

    def counted(policy_id: str = "", first: str = "", last: str = "") -> Any:
        asked.append(policy_id)
        return listing(policy_id, first, last)

    stand.harness.rows.list_days = counted  # type: ignore[method-assign]
    for number in range(30):
        stand.objects.put(make_object(f"p{number}", f"w{number}", number=200 + number))
    stand.round()
    assert len(asked) == len(set(asked)) == 30
    stand.rounds(2)
    assert len(asked) == 30


def test_what_a_sleeping_policy_may_not_take_is_left_to_others() -> None:
    """The object of a policy that sleeps asks for another target, without success; a third may still have
    it."""
    stand = Stand()
    stand.objects.put(make_object("a", "web"))
    stand.asleep()
    stand.objects.put(make_object("a", "api", generation=2))
    stand.objects.put(make_object("b", "api", number=102))
    stand.round()
    assert stand.objects.report("a").ready is Readiness.TARGET_ASLEEP
    assert stand.objects.report("b").ready is Readiness.APPLIED
    assert [each.target.workloads[0].name for each in stand.all] == ["web", "api"]


def test_one_round_moves_a_policy_and_gives_its_target_to_another() -> None:
    stand = Stand()
    stand.objects.put(make_object("a", "web"))
    stand.round()
    stand.objects.put(make_object("a", "api", generation=2))
    stand.objects.put(make_object("b", "web", number=102))
    stand.round()
    assert [each.target.workloads[0].name for each in stand.all] == ["api", "web"]
    assert {stand.objects.report(name).ready for name in "ab"} == {Readiness.APPLIED}
