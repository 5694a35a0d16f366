"""What objects are told of their policies: by how many calls at once, and nothing where nobody knows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Declaration, Report
from ebbtide.ports import PolicyStore
from tests.memory_declarations import MemoryDeclarations, make_object
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
