"""What a caller of a wake is told: every field of the answer, whatever state the target is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.scale_to_zero.eta import DEFAULT_POD_SECONDS
from ebbtide.engine.scale_to_zero.waking import Woken
from ebbtide.errors import KeyUsed, Retryable
from ebbtide.model.events import OperationKind, PartKind, Transition
from ebbtide.model.idle import Once, WakeReason, WakeTime, wake_id
from ebbtide.model.log import LogEntry
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Target
from ebbtide.model.snapshot import ClusterView
from ebbtide.narrate import entry_of
from tests.builders import make_node
from tests.policy_harness import (
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)

WEB, API = make_ref("web"), make_ref("api")


def pair(web: Workload, api: Workload) -> PolicyHarness:
    return PolicyHarness((make_policy("pair", WEB, API),), MemoryWorkloads(web, api))


def test_of_what_runs_the_answer_says_how_much_and_whether_it_is_ready() -> None:
    harness = pair(make_workload("web", 2), make_workload("api", 3))
    harness.put(wake_count=4)
    running = Woken(
        policy_id(),
        previous_replicas=5,
        target_replicas=5,
        wake_reason=WakeReason.API_REQUEST,
        status="already_running",
        message="Already running",
        estimated_ready_seconds=0,
        wake_id=wake_id(policy_id(), 5),
        ready=True,
    )
    found = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert found == running
    harness.memory_workloads.put(API, ready_replicas=2)
    found = harness.scaling.wake(policy_id(), WakeReason.WEBHOOK)
    assert found == replace(
        running, wake_reason=WakeReason.WEBHOOK, wake_id=wake_id(policy_id(), 6), ready=False
    )


@pytest.mark.parametrize(("minimum", "nodes"), [(0, 1), (3, 3)])
def test_of_a_pool_the_answer_counts_nodes_and_at_least_one(minimum: int, nodes: int) -> None:
    policy = make_policy(target=Target(pool="workers"), min_replicas=minimum)
    harness = PolicyHarness((policy,), MemoryWorkloads())
    running = harness.scaling.wake(policy.id, WakeReason.API_REQUEST)
    assert (running.status, running.previous_replicas, running.target_replicas) == (
        "already_running",
        nodes,
        nodes,
    )
    harness.sleep()
    woken = harness.scaling.wake(policy.id, WakeReason.API_REQUEST)
    assert (woken.status, woken.target_replicas) == ("waking", nodes)


def asleep() -> PolicyHarness:
    harness = PolicyHarness()
    harness.sleep()
    harness.memory_workloads.slow = True
    return harness


def test_a_wake_that_begins_is_told_apart_from_one_that_is_joined() -> None:
    harness = asleep()
    count = harness.state.wake_count
    first = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    begun = Woken(
        policy_id(),
        previous_replicas=0,
        target_replicas=2,
        wake_reason=WakeReason.API_REQUEST,
        status="waking",
        message="Wake initiated",
        estimated_ready_seconds=first.estimated_ready_seconds,
        wake_id=wake_id(policy_id(), count + 1),
        eta_says=first.eta_says,
    )
    assert first == begun
    assert first.estimated_ready_seconds > 0
    assert first.eta_says
    harness.clock.sleep(first.estimated_ready_seconds + 1)
    joined = harness.scaling.wake(policy_id(), WakeReason.WEBHOOK)
    assert (joined.wake_id, joined.wake_reason, joined.late) == (begun.wake_id, WakeReason.API_REQUEST, True)
    assert harness.memory_workloads.calls == [(WEB, 0), (WEB, 2)]


class Refusing(MemoryWorkloads):
    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        if replicas and seen.ref == API:
            raise Retryable("the API server does not answer")
        return super().scale(seen, replicas, note)


def test_a_wake_of_which_one_call_failed_says_so_and_the_next_round_carries_it_out() -> None:
    workloads = Refusing(make_workload("web"), make_workload("api"))
    harness = PolicyHarness((make_policy("pair", WEB, API),), workloads)
    harness.sleep()
    woken = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert woken.message == ("Wake recorded; the next round carries it out: the API server does not answer")
    assert workloads.read(WEB).replicas == 2
    assert workloads.read(API).replicas == 0


def test_a_wake_of_what_is_gone_is_carried_out_and_says_what_is_missing() -> None:
    harness = pair(make_workload("web"), make_workload("api"))
    harness.sleep()
    del harness.memory_workloads.there[API]
    woken = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert woken.message == f"Wake initiated; there is no {API}"


def test_a_key_is_used_up_by_the_wake_that_it_began_and_by_one_that_it_joins() -> None:
    harness = asleep()
    now = harness.now

    def once(value: str) -> Once:
        return Once("webhook:id-1", value, now + 600, now)

    harness.scaling.wake_once(policy_id(), WakeReason.WEBHOOK, once("first"))
    assert harness.rows.keep_once("webhook:id-1", "another", now + 600, now) == "first"
    with pytest.raises(KeyUsed, match="webhook:id-1 was used before"):
        harness.scaling.wake_once(policy_id(), WakeReason.WEBHOOK, once("second"))
    other = Once("webhook:id-2", "joins", now + 600, now)
    joined = harness.scaling.wake_once(policy_id(), WakeReason.WEBHOOK, other)
    assert joined.wake_id == wake_id(policy_id(), harness.state.wake_count)
    assert harness.rows.keep_once("webhook:id-2", "another", now + 600, now) == "joins"


def launch(name: str, state: str, part: PartKind = PartKind.LAUNCH) -> Transition:
    return Transition("op", OperationKind.SCALE_UP, part, name, "LAUNCHING", state)


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([(10, launch("n", "LAUNCHED")), (30, launch("n", "READY")), (20, launch("n", "JOINED"))], 30),
        ([(0, launch("n", "READY"))], 1),
        ([(60, launch("n", "READY"))], 60),
        ([(61, launch("n", "READY")), (-1, launch("n", "READY"))], 0),
        ([(40, launch("n", "FAILED")), (50, launch("n", "READY", PartKind.REMOVAL))], 0),
        ([], 0),
    ],
    ids=["the last step", "at once", "at its end", "before and after it", "no step of a node", "none"],
)
def test_a_wake_waited_for_the_last_step_of_a_node_that_came_while_it_waited(
    steps: Sequence[tuple[int, Transition]], seconds: int
) -> None:
    harness = asleep()
    woken = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    began = harness.now
    for number, (after, fact) in enumerate(steps):
        harness.store.append([entry_of(f"zz-{number}", began + after, fact, "n")])
    harness.clock.sleep(60)
    harness.memory_workloads.put(WEB, ready_replicas=2)
    answer = harness.scaling.wait_ready(woken.policy_id, woken.wake_id, harness.clock.now())
    assert (answer.ready, answer.message, answer.node_wait) == (True, "Ready", seconds > 0)
    (timed,) = harness.state.wakes
    assert (timed.at, timed.seconds, timed.node_seconds) == (began, 60, seconds)


def test_a_node_that_an_earlier_wake_waited_for_is_not_told_of_this_one() -> None:
    harness = asleep()
    harness.put(wakes=(WakeTime(1, 70.0, 50.0),))
    woken = harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    harness.memory_workloads.put(WEB, ready_replicas=2)
    answer = harness.scaling.wait_ready(policy_id(), woken.wake_id, harness.clock.now())
    assert (answer.ready, answer.node_wait) == (True, False)


def test_the_answer_to_an_older_wake_names_the_wake_that_was_asked_for() -> None:
    harness = asleep()
    harness.scaling.wake(policy_id(), WakeReason.API_REQUEST)
    harness.put(wake_count=harness.state.wake_count + 1)
    older = wake_id(policy_id(), harness.state.wake_count - 1)
    assert harness.scaling.wait_ready(policy_id(), older, harness.clock.now()).wake_id == older


class Empty:
    """A pool without a ready node, and a clock that says how long was slept between two looks."""

    def __init__(self, harness: PolicyHarness) -> None:
        self.looks: list[float] = []
        self.clock = harness.clock

    def read(self) -> ClusterView:
        self.looks.append(self.clock.now())
        return ClusterView((make_node("a1", ready=False),))


def test_a_pool_is_looked_at_each_second_until_the_time_is_over_and_once_more() -> None:
    harness = PolicyHarness((make_policy(target=Target(pool="workers")),), MemoryWorkloads())
    harness.sleep()
    pool = Empty(harness)
    scaling = harness.runner(cluster=pool)
    woken = scaling.wake(policy_id(), WakeReason.API_REQUEST)
    start = harness.clock.now()
    pool.looks.clear()
    answer = scaling.wait_ready(policy_id(), woken.wake_id, start + 2.5)
    assert not answer.ready
    assert [at - start for at in pool.looks] == [0.0, 1.0, 2.0, 2.5]


def test_an_estimate_without_a_log_is_the_default_and_the_log_is_not_read_for_each_caller() -> None:
    harness = asleep()
    reads: list[float] = []

    class Counted(MemoryStore):
        def read_log(self, *args: Any, **named: Any) -> Sequence[LogEntry]:
            reads.append(harness.clock.now())
            return super().read_log(*args, **named)

    scaling = harness.runner(store=Counted(harness.clock, database=harness.database))
    first = scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert first.estimated_ready_seconds == DEFAULT_POD_SECONDS
    begun = len(reads)
    scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert len(reads) == begun
    harness.clock.sleep(31)
    scaling.wake(policy_id(), WakeReason.API_REQUEST)
    assert len(reads) == begun + 1
