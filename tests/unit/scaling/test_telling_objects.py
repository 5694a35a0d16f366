"""What objects are told of their policies: by how many calls at once, and nothing where nobody knows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from ebbtide.engine.scale_to_zero.declaring import AT_ONCE
from ebbtide.errors import Retryable
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Declaration, Readiness, Report
from ebbtide.ports import PolicyStore
from tests.memory_declarations import MemoryDeclarations, make_object
from tests.memory_services import gate_of
from tests.policy_harness import make_policy, make_ref, policy_id
from tests.unit.scaling.test_declaring import Stand


class Crowded(MemoryDeclarations):
    """Notes whether two calls were ever in flight at once."""

    def __init__(self) -> None:
        super().__init__()
        self.crowded = False
        self._two = threading.Barrier(2)
        self._one = threading.Lock()

    def tell(self, declaration: Declaration, report: Report) -> None:
        with suppress(threading.BrokenBarrierError):
            self._two.wait(0.5)
            self.crowded = True
        with self._one:
            super().tell(declaration, report)


@pytest.mark.parametrize(("threads", "crowded"), [(0, False), (1, False), (2, True)])
def test_as_many_objects_are_told_at_once_as_the_process_may_make_calls(threads: int, crowded: bool) -> None:
    objects = Crowded()
    stand = Stand(objects)
    for number, name in enumerate(("web", "api")):
        objects.put(make_object(f"{name}-nights", name, number=101 + number))
    stand.scaling = stand.runner(threads=threads)
    stand.round()
    assert sorted(name for name, _ in objects.told) == ["api-nights", "web-nights"]
    assert objects.crowded is crowded


class WithoutStates:
    """A store whose list of states is empty: their policies were deleted since, or made after it was read."""

    def __init__(self, inner: PolicyStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list_states(self) -> Sequence[IdleState]:
        return ()


def test_an_object_whose_policy_has_no_state_is_told_nothing_and_keeps_what_it_was_told() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.round()
    before = stand.objects.report()
    stand.scaling = stand.runner(policies=cast(PolicyStore, WithoutStates(stand.harness.rows)))
    stand.round()
    assert len(stand.objects.told) == 1
    assert stand.objects.report() == before


def test_an_object_whose_workload_sleeps_on_is_told_what_was_saved_when_a_day_has_ended() -> None:
    stand = Stand()
    stand.objects.put(make_object())
    stand.asleep()
    stand.round()
    before = stand.objects.report().saved
    assert before is not None
    stand.harness.clock.sleep(86_400)
    stand.round()
    after = stand.objects.report().saved
    assert after is not None
    assert after.until > before.until


class SlowToRead(MemoryDeclarations):
    """A list of objects that takes longer than a round may."""

    seconds = 0.0
    stand: Stand

    def read(self) -> Sequence[Declaration]:
        self.stand.harness.clock.sleep(self.seconds)
        return super().read()


def test_what_was_read_too_slowly_is_neither_written_nor_ended() -> None:
    """Another runner may have the lease by now, and have read the objects since."""
    objects = SlowToRead()
    objects.stand = stand = Stand(objects)
    objects.put(make_object("web-nights", "web"))
    stand.round()
    objects.there, objects.seconds = [make_object("api-nights", "api", number=102)], 200.0
    stand.round()
    (policy,) = stand.all
    assert (policy.name, policy.enabled) == ("default.web-nights", True)
    objects.seconds = 0.0
    stand.round()
    assert [each.name for each in stand.all] == ["default.api-nights"]


def test_an_object_under_another_name_is_applied_in_the_round_that_ends_the_first() -> None:
    stand = Stand()
    stand.objects.put(make_object("nights"))
    stand.round()
    stand.objects.there = [make_object("evenings", number=102)]
    stand.round()
    assert [each.name for each in stand.all] == ["default.evenings"]


class Unreadable(MemoryDeclarations):
    """Objects that can be told something and not be listed."""

    hidden = False

    def read(self) -> Sequence[Declaration]:
        if self.hidden:
            raise Retryable("the API server does not list them")
        return super().read()


def test_objects_that_could_not_be_listed_are_told_nothing() -> None:
    objects = Unreadable()
    stand = Stand(objects)
    objects.put(make_object())
    stand.round()
    told, objects.hidden = len(objects.told), True
    stand.asleep()
    stand.round()
    assert len(objects.told) == told


def test_an_object_that_says_nothing_new_keeps_no_other_from_being_applied() -> None:
    stand = Stand()
    stand.objects.put(make_object("a", "web", created_at=1))
    stand.round()
    stand.objects.put(make_object("b", "api", number=102, created_at=2))
    stand.round()
    assert [each.name for each in stand.all] == ["default.a", "default.b"]


class Watching:
    """A store of policies that notes how many are written together, and lets another write first."""

    def __init__(self, inner: PolicyStore, first: Callable[[], object] = lambda: None) -> None:
        self._inner = inner
        self._first: Callable[[], object] | None = first
        self.together: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_policies(self, policies: Sequence[Any]) -> Sequence[Any]:
        first, self._first = self._first, None
        if first is not None:
            first()
        self.together.append(len(policies))
        return self._inner.put_policies(policies)


def test_no_more_policies_are_written_together_than_one_renewal_of_the_lease_covers() -> None:
    stand = Stand()
    for number in range(AT_ONCE + 20):
        stand.objects.put(make_object(f"p{number:03d}", f"w{number:03d}", number=200 + number))
    watching = Watching(stand.harness.rows)
    stand.scaling = stand.runner(policies=cast(PolicyStore, watching))
    stand.round()
    assert watching.together == [AT_ONCE, 20]


def test_changes_that_move_no_target_are_written_together() -> None:
    stand = Stand()
    for seconds in (60, 120):
        for number, name in enumerate(("web", "api")):
            changed = {"grace_seconds": seconds}
            stand.objects.put(make_object(name, name, number=101 + number, policy=changed))
        watching = Watching(stand.harness.rows)
        stand.scaling = stand.runner(policies=cast(PolicyStore, watching))
        stand.round()
        assert watching.together == [2]
        assert {policy.grace_seconds for policy in stand.all} == {seconds}


def test_an_object_that_is_refused_by_the_store_keeps_no_other_from_being_told() -> None:
    stand = Stand()
    for number, name in enumerate(("web", "api")):
        stand.objects.put(make_object(f"{name}-nights", name, number=101 + number, created_at=number))
    mine = make_policy("by-hand", make_ref("web"), id=policy_id(1))
    watching = Watching(stand.harness.rows, lambda: stand.harness.rows.put_policy(mine))
    stand.scaling = stand.runner(policies=cast(PolicyStore, watching))
    stand.round()
    assert stand.objects.report("web-nights").ready is Readiness.CONFLICT
    assert stand.objects.report("api-nights").ready is Readiness.APPLIED


def test_of_two_new_objects_for_one_service_one_is_applied() -> None:
    stand = Stand()
    for number, name in enumerate(("web", "api")):
        gated = {"gate": gate_of("web")}
        stand.objects.put(make_object(name, name, number=101 + number, created_at=number, policy=gated))
    stand.round()
    ready = {name: stand.objects.report(name).ready for name in ("web", "api")}
    assert ready == {"web": Readiness.APPLIED, "api": Readiness.CONFLICT}
