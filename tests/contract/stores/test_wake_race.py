"""Wakes that race two idle loops on every store: not one is lost.

Each target is made ripe for zero and woken at about the same moment. An hour of idleness is asked for, so
what is down after its wake was put there by a decision from before it: a lost wake. The loops do without a
lease among themselves, since safety must come from the conditions of the writes alone.

`EBBTIDE_WAKES=10000 pytest tests/contract/stores/test_wake_race.py` runs as many on each store.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.scaling import Scaling, ScalingOutside
from ebbtide.errors import Conflict, LeaseLost
from ebbtide.model.idle import IdleState, Phase, WakeReason
from ebbtide.model.policy import ZeroDefaults
from ebbtide.model.record import Lease
from ebbtide.ports import PolicyStore, Store
from ebbtide.simulator.ports import SimNotifier
from tests.builders import make_settings
from tests.contract.stores.lab import START, MemoryLab, StoreLab, policies_of
from tests.yard import QUERY, Readings, Yard, make_policy, make_ref, make_workload, policy_id

TARGETS = 12
LOOPS = 2
WAKERS = 4
DEFAULTS = ZeroDefaults(idle_threshold_seconds=3600, keep_alive_window_seconds=0)
QUICK = {"memory": 600, "sqlite": 96, "postgresql": 240, "dynamodb": 48}
RIPE = START - 100_000


class NoTurns:
    """A store whose lease everybody gets: two loops at once, all the time."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        return Lease(name, owner, 1, START + 10 * ttl_seconds)

    def release(self, lease: Lease) -> None:
        if lease.name != "policies":
            raise LeaseLost(lease.name)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def runner(lab: StoreLab, store: Store, yard: Yard, name: str) -> Scaling:
    numbers = iter(range(10**9))
    outside = ScalingOutside(
        store=NoTurns(store),  # type: ignore[arg-type]  # the rest is the store itself
        policies=policies_of(store),
        workloads=yard,
        signals=Readings({QUERY: 0.0}, lab.clock),  # type: ignore[arg-type]  # it only tells the time
        notifier=SimNotifier(),
        clock=lab.clock,
        new_id=lambda: f"{name}-{next(numbers):09d}",
    )
    return Scaling(outside, DEFAULTS, make_settings())


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


def ripen(policies: PolicyStore, number: int) -> IdleState:
    """From now on the next round would put it to zero."""
    while True:
        state = policies.find_state(policy_id(number))
        assert state is not None
        try:
            return policies.write_state(
                replace(
                    state,
                    phase=Phase.IDLE,
                    idle_since=RIPE,
                    checked_at=START,
                    stretch_since=START,
                    last_activity_at=RIPE,
                    last_wake_at=RIPE,
                )
            )
        except Conflict:
            continue


def test_no_wake_is_lost_while_two_loops_race_to_zero(
    lab: StoreLab, cluster: str, request: pytest.FixtureRequest
) -> None:
    yard = Yard(*(make_workload(f"w{n}", 2, created_at=RIPE, deployed_at=RIPE) for n in range(TARGETS)))
    stores = [lab.open(cluster) for _ in range(LOOPS + WAKERS)]
    policies = policies_of(stores[0])
    for number in range(TARGETS):
        wanted = make_policy(f"w{number}", id=policy_id(number), created_at=RIPE, updated_at=RIPE)
        policies.put_policy(wanted)
    cycles = int(os.environ.get("EBBTIDE_WAKES", QUICK[request.node.callspec.params["lab"]])) // TARGETS
    stop = threading.Event()
    falls = [0] * LOOPS
    lost: list[str] = []

    def loop(number: int) -> None:
        scaling = runner(lab, stores[number], yard, f"loop{number}")
        while not stop.is_set():
            falls[number] += scaling.round(f"loop{number}", START + 1000).fell

    def wake(number: int) -> None:
        chance = random.Random(number)
        own = policies_of(stores[LOOPS + number])
        scaling = runner(lab, stores[LOOPS + number], yard, f"waker{number}")
        mine = range(number, TARGETS, WAKERS)
        for cycle in range(cycles):
            for target in mine:
                ripen(own, target)
            for target in mine:
                stop.wait(chance.random() * 0.002)
                scaling.wake(policy_id(target), WakeReason.MANUAL)
                if not yard.read(make_ref(f"w{target}")).replicas:
                    lost.append(f"w{target} in cycle {cycle}, at once")
            for target in mine:
                if not yard.read(make_ref(f"w{target}")).replicas:
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
    assert lost == []
    assert {each.replicas for each in yard.there.values()} == {2}
    assert sum(falls) > 0
    woken = [state.wake_count for state in policies.list_states()]
    assert woken == [cycles] * TARGETS
    rebuilt = runner(lab, stores[0], yard, "rebuild").rebuild()
    assert not any(one.changed for one in rebuilt)
    for store in stores:
        store.close()


def test_the_race_is_seen_to_lose_wakes_without_the_condition() -> None:
    """What makes the test above worth something: a sleeper that does not mind the version loses a wake."""

    class Heedless(Yard):
        def scale(self, seen, replicas, note):  # type: ignore[no-untyped-def]
            self.before_scale(seen, replicas)
            return self.put(seen.ref, replicas=replicas)

    lab = MemoryLab()
    yard = Heedless(make_workload("w0", 2, created_at=RIPE, deployed_at=RIPE))
    store = MemoryStore(lab.clock, "heedless", lab.database)
    rows = store.policies()
    rows.put_policy(make_policy("w0", id=policy_id(0), created_at=RIPE, updated_at=RIPE))
    ripen(rows, 0)
    waker = runner(lab, store, yard, "waker")
    sleeper = runner(lab, store, yard, "sleeper")

    def wake_first(seen: object, replicas: int) -> None:
        if replicas == 0:
            yard.before_scale = lambda seen, replicas: None
            waker.wake(policy_id(0), WakeReason.MANUAL)

    yard.before_scale = wake_first
    sleeper.round("sleeper", START + 1000)
    assert yard.read(make_ref("w0")).replicas == 0
