"""One of two replicas that race each other: an idle loop, and wakes that come in next to it, in one process.

The workloads live in a process of their own, as a cluster does, and are scaled over a socket.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import cast

from ebbtide.model.idle import WakeReason
from ebbtide.ports import PolicyStore, Workloads
from tests.contract.stores.hammer import arrived, open_place
from tests.contract.stores.lab import START, StillClock, policies_of
from tests.contract.stores.wake_racing import TARGETS, ripen, runner, workloads
from tests.policy_harness import MemoryWorkloads, make_ref, policy_id

REPLICAS = 2
WAKERS = 2
"""In each replica. Every target has one of them, so it knows what it last did to it."""
LONGEST_WAIT_SECONDS = 0.05
SECRET = b"contract"


class WorkloadServer(BaseManager):
    """Serves one set of workloads to several processes."""


_memory_workloads = MemoryWorkloads(*workloads())


def _the_workloads() -> MemoryWorkloads:
    return _memory_workloads


WorkloadServer.register("memory_workloads", _the_workloads)


def workload_server() -> WorkloadServer:
    return WorkloadServer(authkey=SECRET, ctx=multiprocessing.get_context("spawn"))


def connect(address: str) -> Workloads:
    manager = WorkloadServer(address, SECRET)
    manager.connect()
    return cast(Workloads, manager.memory_workloads())  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a race takes place."""

    place: str
    cluster: str
    memory_workloads: str
    arrivals: Path
    wakes: int
    """By all replicas together, at least; each waker makes as many as the others, two at a time."""


@dataclass
class Raced:
    falls: int = 0
    wakes: dict[int, int] = field(default_factory=dict)
    """How often each target was woken."""
    lost: list[str] = field(default_factory=list)
    round_seconds: float = 0.0
    """How long the last round took: a wake comes at any moment of one."""


def race(ground: Ground, number: int) -> Raced:
    done = Raced()
    loop_store = open_place(ground.place, ground.cluster)
    loop = runner(StillClock(), loop_store, connect(ground.memory_workloads), f"loop{number}")
    first = number * WAKERS
    wakers = [Waker(ground, first + each, done) for each in range(WAKERS)]
    arrived(ground.arrivals, number, REPLICAS)
    with ThreadPoolExecutor(WAKERS) as pool:
        running = [pool.submit(waker.run) for waker in wakers]
        while not all(one.done() for one in running):
            began = time.monotonic()
            done.falls += loop.round(f"loop{number}", START + 1000).fell
            done.round_seconds = time.monotonic() - began
        for one in running:
            one.result()
    loop_store.close()
    return done


class Waker:
    def __init__(self, ground: Ground, number: int, done: Raced) -> None:
        self._store = open_place(ground.place, ground.cluster)
        self._policies: PolicyStore = policies_of(self._store)
        self._memory_workloads = connect(ground.memory_workloads)
        self._scaling = runner(StillClock(), self._store, self._memory_workloads, f"waker{number}")
        self._mine = range(number, TARGETS, REPLICAS * WAKERS)
        self._pairs = -(-ground.wakes // (2 * REPLICAS * WAKERS))
        self._chance = random.Random(number)
        self._done = done

    def run(self) -> None:
        """Ripen two, wake them in any order: while the one is woken, the other has more time to fall."""
        for _ in range(self._pairs):
            pair = self._chance.sample(self._mine, 2)
            for target in pair:
                self._look(target, "a little later")
                ripen(self._policies, target)
            for target in self._chance.sample(pair, 2):
                time.sleep(self._chance.random() * min(self._done.round_seconds, LONGEST_WAIT_SECONDS))
                self._scaling.wake(policy_id(target), WakeReason.MANUAL)
                self._done.wakes[target] = self._done.wakes.get(target, 0) + 1
                self._look(target, "at once")
        self._store.close()

    def _look(self, target: int, when: str) -> None:
        if not self._memory_workloads.read(make_ref(f"w{target}")).replicas:
            self._done.lost.append(f"w{target} after wake {self._done.wakes.get(target, 0)}, {when}")
