"""Many callers, one call."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.engine.scale_to_zero.waking import SingleFlight
from ebbtide.model.idle import Phase, WakeReason, wake_id
from tests.policy_harness import PolicyHarness, make_ref


def test_those_who_wait_share_one_answer_and_a_later_one_begins_again() -> None:
    flights: SingleFlight[int] = SingleFlight()
    began, let_go = threading.Event(), threading.Event()
    calls: list[str] = []

    def slow() -> int:
        calls.append("slow")
        began.set()
        let_go.wait(10)
        return 1

    def quick() -> int:
        calls.append("quick")
        return 2

    with ThreadPoolExecutor(20) as pool:
        first = pool.submit(flights.do, "a", slow)
        assert began.wait(10)
        rest = [pool.submit(flights.do, "a", quick) for _ in range(10)]
        other = pool.submit(flights.do, "b", quick)
        assert other.result(10) == 2
        let_go.set()
        assert first.result(10) == 1
        assert {one.result(10) for one in rest} == {2}
    assert 2 <= calls.count("quick") <= 11
    assert calls[0] == "slow"


def test_an_error_is_everybodys_error() -> None:
    flights: SingleFlight[int] = SingleFlight()

    def fails() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            flights.do("a", fails)
    assert flights.do("a", lambda: 3) == 3


def wake_at_once(runners: list[Scaling], policy_id: str, callers: int) -> list[tuple[str, str]]:
    """What each of the callers is told, all of them starting together."""
    start = threading.Barrier(callers)

    def one(number: int) -> tuple[str, str]:
        start.wait(60)
        woken = runners[number % len(runners)].wake(policy_id, WakeReason.MANUAL)
        return woken.status, woken.wake_id

    with ThreadPoolExecutor(callers) as pool:
        return list(pool.map(one, range(callers)))


@pytest.mark.parametrize("processes", [1, 4])
def test_a_thousand_wakes_of_one_policy_are_one_call(processes: int) -> None:
    harness = PolicyHarness()
    harness.sleep()
    before = len(harness.memory_workloads.calls)
    runners = [harness.runner() for _ in range(processes)]
    answers = wake_at_once(runners, harness.policies[0].id, 1000)
    assert harness.memory_workloads.calls[before:] == [(make_ref(), 2)]
    assert harness.state.phase is Phase.WAKING
    assert set(answers) == {("waking", wake_id(harness.policies[0].id, 1))}


def test_a_thousand_wakes_of_what_runs_call_nothing() -> None:
    harness = PolicyHarness()
    answers = wake_at_once([harness.runner()], harness.policies[0].id, 200)
    assert {status for status, _ in answers} == {"already_running"}
    assert harness.memory_workloads.calls == []
