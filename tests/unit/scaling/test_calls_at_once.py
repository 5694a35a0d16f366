"""No more calls to the cluster are in flight than the process may make, and as many where there is work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.pod import Workload, WorkloadRef
from tests.policy_harness import (
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)

NAMES = ("a", "b", "c")


class Crowded(MemoryWorkloads):
    """Notes whether two calls of one kind were ever in flight at once."""

    def __init__(self, *workloads: Workload) -> None:
        super().__init__(*workloads)
        self.watched = ""
        self.crowded = False
        self._two = threading.Barrier(2)

    def _note(self, kind: str) -> None:
        if kind == self.watched:
            with suppress(threading.BrokenBarrierError):
                self._two.wait(0.3)
                self.crowded = True

    def read(self, ref: WorkloadRef) -> Workload:
        self._note("read")
        return super().read(ref)

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        self._note("scale")
        return super().scale(seen, replicas, note)


def idle() -> tuple[PolicyHarness, Crowded]:
    """Three targets that the next rounds put to sleep together."""
    workloads = Crowded(*(make_workload(name) for name in NAMES))
    policies = tuple(
        make_policy(name, make_ref(name), id=policy_id(number)) for number, name in enumerate(NAMES, start=1)
    )
    harness = PolicyHarness(policies, workloads)
    harness.rounds(2100)
    harness.clock.sleep(60)
    assert harness.phase() is Phase.IDLE
    return harness, workloads


def falls(harness: PolicyHarness, scaling: Scaling) -> None:
    harness.round(scaling)
    assert {state.phase for state in harness.rows.list_states()} == {Phase.ZERO}


def wakes(harness: PolicyHarness, scaling: Scaling) -> None:
    assert len(scaling.wake_all(None, WakeReason.MANUAL)) == len(NAMES)


@pytest.mark.parametrize(("threads", "crowded"), [(1, False), (2, True)])
@pytest.mark.parametrize(("watched", "does"), [("read", falls), ("scale", falls), ("scale", wakes)])
def test_as_many_calls_are_in_flight_as_the_process_may_make(
    threads: int, crowded: bool, watched: str, does: Callable[[PolicyHarness, Scaling], None]
) -> None:
    harness, workloads = idle()
    scaling = harness.runner(threads=threads)
    if does is wakes:
        harness.round()
    workloads.watched = watched
    does(harness, scaling)
    assert workloads.crowded is crowded
