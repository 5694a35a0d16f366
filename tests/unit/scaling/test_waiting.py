"""Waiting for a wake: answered the moment the target is ready, with the wake continuing where it is not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling, run_rounds
from ebbtide.errors import NotFound
from ebbtide.model.events import OperationKind, PartKind, Transition
from ebbtide.model.idle import Phase, WakeReason, WakeTime, wake_id
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Target, ZeroDefaults
from ebbtide.model.snapshot import ClusterView
from ebbtide.narrate import entry_of
from tests.builders import make_node
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_ref, make_workload

WEB = make_ref()
LONG = 30.0


class RealTime:
    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.01))


def asleep(**changes: Any) -> tuple[PolicyHarness, Scaling]:
    """A target at zero that takes its time to be ready, and a process that runs in real time."""
    harness = PolicyHarness()
    harness.sleep()
    harness.memory_workloads.slow = True
    return harness, harness.runner(**{"clock": RealTime(), **changes})


def test_a_wake_is_answered_the_moment_it_is_ready_however_many_wait() -> None:
    harness, scaling = asleep()
    woken = scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    with ThreadPoolExecutor(20) as pool:
        waits = [
            pool.submit(scaling.wait_ready, woken.policy_id, woken.wake_id, time.time() + LONG)
            for _ in range(20)
        ]
        assert not any(one.done() for one in waits)
        harness.memory_workloads.put(WEB, ready_replicas=2)
        answers = [one.result(LONG) for one in waits]
    assert {(one.ready, one.message, one.wake_id) for one in answers} == {(True, "Ready", woken.wake_id)}
    assert (harness.state.phase, len(harness.state.wakes)) == (Phase.ACTIVE, 1)


def test_a_wait_that_ends_too_early_leaves_the_wake_in_progress() -> None:
    harness, scaling = asleep()
    woken = scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    answer = scaling.wait_ready(woken.policy_id, woken.wake_id, time.time())
    assert (answer.ready, answer.wake_id) == (False, woken.wake_id)
    assert harness.phase() is Phase.WAKING
    harness.memory_workloads.put(WEB, ready_replicas=2)
    assert scaling.wait_ready(woken.policy_id, woken.wake_id, time.time() + LONG).ready
    assert scaling.wait_ready(woken.policy_id, woken.wake_id, time.time() + LONG).ready


@pytest.mark.parametrize("wrong", ["", "wake-1", "wake-x-1", "{id}-99", "{id}-x"])
def test_a_wake_that_never_was_cannot_be_waited_for(wrong: str) -> None:
    harness, scaling = asleep()
    name = wrong.format(id=wake_id(harness.policies[0].id, 1).rpartition("-")[0])
    with pytest.raises(NotFound, match="no wake"):
        scaling.wait_ready(harness.policies[0].id, name, time.time())


def test_a_wake_that_was_not_carried_out_is_before_it_counts_as_ready() -> None:
    """It may be up only because a call to zero is still on its way."""
    harness = PolicyHarness()
    harness.put(phase=Phase.WAKING, wake_count=1, last_wake_at=harness.now, last_scaled_at=0)
    scaling = harness.runner(clock=RealTime())
    version = harness.memory_workloads.read(WEB).version
    assert scaling.wait_ready(
        harness.policies[0].id, wake_id(harness.policies[0].id, 1), time.time() + LONG
    ).ready
    assert harness.memory_workloads.calls == [(WEB, 2)]
    assert harness.memory_workloads.read(WEB).version != version


def test_what_was_at_zero_in_a_group_is_brought_up_and_waited_for() -> None:
    refs = (make_ref("web"), make_ref("api"))
    harness = PolicyHarness(
        policies=(make_policy("pair", *refs),),
        memory_workloads=MemoryWorkloads(make_workload("web"), make_workload("api", 0)),
    )
    scaling = harness.runner(clock=RealTime())
    woken = scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    assert scaling.wait_ready(woken.policy_id, woken.wake_id, time.time() + LONG).ready
    assert harness.memory_workloads.read(refs[1]).replicas == 1
    harness.memory_workloads.put(refs[1], replicas=0, ready_replicas=0)
    assert scaling.wait_ready(woken.policy_id, woken.wake_id, time.time() + LONG).ready


def test_a_process_that_stays_follows_its_wakes() -> None:
    harness, scaling = asleep(follows=True)
    scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.memory_workloads.put(WEB, ready_replicas=2)
    deadline = time.time() + LONG
    while harness.phase() is not Phase.ACTIVE:
        assert time.time() < deadline
        time.sleep(0.01)


def test_the_time_that_a_node_took_is_told_apart() -> None:
    harness = PolicyHarness()
    harness.sleep()
    woken = harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.memory_workloads.put(WEB, ready_replicas=0)
    harness.clock.sleep(50)
    ready = Transition("op", OperationKind.SCALE_UP, PartKind.LAUNCH, "n-1", "JOINED", "READY")
    gone = Transition("op", OperationKind.SCALE_DOWN, PartKind.REMOVAL, "n-2", "TERMINATING", "GONE")
    came = entry_of("zz-1", harness.now, ready, "n-1")
    harness.store.append([came])
    harness.clock.sleep(20)
    harness.store.append(
        [entry_of("zz-2", harness.now, gone, "n-2"), replace(came, id="zz-3", at=harness.now, data={})]
    )
    harness.memory_workloads.put(WEB, ready_replicas=2)
    answer = harness.scaling.wait_ready(woken.policy_id, woken.wake_id, time.time())
    assert (answer.ready, answer.node_wait) == (True, True)
    (timed,) = harness.state.wakes
    assert (timed.seconds, timed.node_seconds) == (70, 50)
    harness.sleep()
    harness.put(wakes=(replace(timed, at=1), replace(timed, at=2), WakeTime(3, 20)))
    assert harness.scaling.wake(woken.policy_id, WakeReason.MANUAL).estimated_ready_seconds == 70


class Pool:
    def __init__(self) -> None:
        self.view = ClusterView((make_node("a1", ready=False),))
        self.looks = 0

    def read(self) -> ClusterView:
        self.looks += 1
        if self.looks == 3:
            self.view = ClusterView((make_node("a1"),))
        return self.view


def test_a_pool_is_ready_when_its_nodes_are() -> None:
    harness = PolicyHarness(
        policies=(make_policy(target=Target(pool="workers")),), memory_workloads=MemoryWorkloads()
    )
    harness.sleep()
    scaling = harness.runner(cluster=Pool())
    woken = scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    early = scaling.wait_ready(woken.policy_id, woken.wake_id, harness.clock.now())
    assert not early.ready
    assert scaling.wait_ready(woken.policy_id, woken.wake_id, harness.clock.now() + 60).ready
    blind = harness.runner().wait_ready(woken.policy_id, woken.wake_id, harness.clock.now() + 60)
    assert not blind.ready


def test_the_loop_rounds_until_it_is_asked_to_stop() -> None:
    harness = PolicyHarness(defaults=ZeroDefaults(check_interval_seconds=0))
    stop = threading.Event()
    seen: list[str] = []

    def note(report: Any) -> None:
        seen.append(report.says)
        if len(seen) == 3:
            stop.set()

    run_rounds(harness.scaling, "runner", stop, note)
    assert len(seen) == 3


def test_a_workload_that_cannot_be_looked_at_counts_as_running() -> None:
    class Away(MemoryWorkloads):
        def read(self, ref: Any) -> Workload:
            from ebbtide.errors import Retryable

            raise Retryable("the API server does not answer")

    harness = PolicyHarness(memory_workloads=Away(make_workload()))
    woken = harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    assert (woken.status, woken.ready) == ("already_running", False)
