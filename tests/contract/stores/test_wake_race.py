"""Wakes that race two idle loops on every store: not one is lost.

`EBBTIDE_WAKES=10000 pytest -s tests/contract/stores/test_wake_race.py` runs as many on each store
and prints its numbers. `test_wake_race_processes.py` is the same race between processes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.model.idle import WakeReason
from tests.contract.stores.lab import START, MemoryLab, StoreLab, policies_of
from tests.contract.stores.wake_racing import RIPE, TARGETS, ripen, runner, targets, workloads
from tests.policy_harness import MemoryWorkloads, make_policy, make_ref, make_workload, policy_id

LOOPS = 2
WAKERS = 4
WAKES = int(os.environ.get("EBBTIDE_WAKES", "0"))
MOST = 20
"""Times the cycles that a race may take until a target has been at zero at all."""
QUICK = {"memory": 600, "sqlite": 96, "postgresql": 240, "dynamodb": 48}


@pytest.fixture(autouse=True)
def at_the_start(request: pytest.FixtureRequest) -> Iterator[None]:
    """Labs are shared, and other tests move their clocks on."""
    if "lab" not in request.fixturenames:
        yield
        return
    clock = request.getfixturevalue("lab").clock
    moved, clock.time = clock.time, float(START)
    yield
    clock.time = max(moved, clock.time)


@pytest.mark.timeout(120 + WAKES)
def test_no_wake_is_lost_while_two_loops_race_to_zero(
    lab: StoreLab, cluster: str, request: pytest.FixtureRequest
) -> None:
    memory_workloads = MemoryWorkloads(*workloads())
    stores = [lab.open(cluster) for _ in range(LOOPS + WAKERS)]
    policies = policies_of(stores[0])
    for policy in targets():
        policies.put_policy(policy)
    kind = request.node.callspec.params["lab"]
    cycles = (WAKES or QUICK[kind]) // TARGETS
    began, stop = time.monotonic(), threading.Event()
    falls = [0] * LOOPS
    ran = [0] * WAKERS
    lost: list[str] = []

    def loop(number: int) -> None:
        scaling = runner(lab.clock, stores[number], memory_workloads, f"loop{number}")
        while not stop.is_set():
            falls[number] += scaling.round(f"loop{number}", START + 1000).fell

    def wake(number: int) -> None:
        chance = random.Random(number)
        own = policies_of(stores[LOOPS + number])
        scaling = runner(lab.clock, stores[LOOPS + number], memory_workloads, f"waker{number}")
        mine = range(number, TARGETS, WAKERS)
        # On a busy machine the loops may not have come to anything yet: then the race continues.
        while ran[number] < cycles or (not sum(falls) and ran[number] < MOST * cycles):
            cycle = ran[number]
            ran[number] += 1
            for target in mine:
                ripen(own, target)
            for target in mine:
                stop.wait(chance.random() * 0.002)
                scaling.wake(policy_id(target), WakeReason.MANUAL)
                if not memory_workloads.read(make_ref(f"w{target}")).replicas:
                    lost.append(f"w{target} in cycle {cycle}, at once")
            for target in mine:
                if not memory_workloads.read(make_ref(f"w{target}")).replicas:
                    lost.append(f"w{target} in cycle {cycle}, a little later")

    with ThreadPoolExecutor(LOOPS + WAKERS) as pool:
        loops = [pool.submit(loop, number) for number in range(LOOPS)]
        wakers = [pool.submit(wake, number) for number in range(WAKERS)]
        try:
            for one in wakers:
                one.result()
        finally:
            stop.set()
        for one in loops:
            one.result()
    took = time.monotonic() - began
    wakes = sum(ran) * TARGETS // WAKERS
    print(f"\n{kind}: {wakes} wakes in {took:.1f} s, {sum(falls)} falls, {len(lost)} wakes lost")
    assert lost == []
    assert {each.replicas for each in memory_workloads.there.values()} == {2}
    assert sum(falls) > 0
    woken = {state.policy_id: state.wake_count for state in policies.list_states()}
    assert woken == {policy_id(target): ran[target % WAKERS] for target in range(TARGETS)}
    rebuilt = runner(lab.clock, stores[0], memory_workloads, "rebuild").rebuild()
    assert not any(one.changed for one in rebuilt)
    for store in stores:
        store.close()


def test_the_race_is_seen_to_lose_wakes_without_the_condition() -> None:
    """What makes the test above worth something: a sleeper that does not mind the version loses a wake."""

    class Heedless(MemoryWorkloads):
        def scale(self, seen, replicas, note):  # type: ignore[no-untyped-def]
            self.before_scale(seen, replicas)
            return self.put(seen.ref, replicas=replicas)

    lab = MemoryLab()
    memory_workloads = Heedless(make_workload("w0", 2, created_at=RIPE, deployed_at=RIPE))
    store = MemoryStore(lab.clock, "heedless", lab.database)
    rows = store.policies()
    rows.put_policy(make_policy("w0", id=policy_id(0), created_at=RIPE, updated_at=RIPE))
    ripen(rows, 0)
    waker = runner(lab.clock, store, memory_workloads, "waker")
    sleeper = runner(lab.clock, store, memory_workloads, "sleeper")

    def wake_first(seen: object, replicas: int) -> None:
        if replicas == 0:
            memory_workloads.before_scale = lambda seen, replicas: None
            waker.wake(policy_id(0), WakeReason.MANUAL)

    memory_workloads.before_scale = wake_first
    sleeper.round("sleeper", START + 1000)
    assert memory_workloads.read(make_ref("w0")).replicas == 0
