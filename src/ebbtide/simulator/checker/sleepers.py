"""Workloads that people use for an hour now and then and that sleep otherwise, and what must hold of them.

While they sleep their nodes stand empty and go; a wake finds no room and brings a node.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import IdleState, Phase, WakeReason
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, Signal, SignalKind, Target
from ebbtide.ports import PolicyStore
from ebbtide.simulator.checker.violations import Violation, ViolationKind
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.pods import Workload
from ebbtide.simulator.world.world import World

NAMES = ("reports", "staging", "wiki")
LONGEST_WAIT_SECONDS = 1800.0
"""How long people may be kept waiting by a wake: the round, a node, the pods, and every fault on the way."""


def policies_for(names: Sequence[str], now: int) -> tuple[Policy, ...]:
    """One for each Deployment of these names; activity is what people send."""
    return tuple(
        Policy(
            id=str(uuid.UUID(int=number + 1)),
            name=name,
            target=Target((WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name),)),
            scale_to_zero=True,
            signals=(Signal(SignalKind.PROMQL_RATE, f'requests{{workload="default/{name}"}}'),),
            created_at=now,
            updated_at=now,
        )
        for number, name in enumerate(names)
    )


class Visitor:
    """Somebody who wakes a sleeper now and then, through ports that may fail, and remembers what was
    answered."""

    def __init__(
        self, scaling: Callable[[], Scaling], policies: Sequence[Policy], chance: float, seed: str
    ) -> None:
        self._scaling = scaling
        self._policies = policies
        self._chance = chance
        self._random = random.Random(seed)
        self.answered: dict[str, int] = {}
        """By policy: the number of the last wake that was reported as done or in progress."""

    def come(self) -> None:
        for policy in self._policies:
            if self._random.random() < self._chance:
                with suppress(EbbtideError, RunnerCrashed):
                    woken = self._scaling().wake(policy.id, WakeReason.MANUAL)
                    self.answered[policy.id] = int(woken.wake_id.rpartition("-")[2])


class Watchman:
    """Says what must not be: people who wait too long, wakes that are forgotten, and states that are not
    what the cluster shows."""

    def __init__(self, world: World, policies: PolicyStore, visitor: Visitor, room: bool = True) -> None:
        """`room`: whether a node can always be launched for a wake; else pods need only be wanted."""
        self._world = world
        self._room = room
        self._policies = policies
        self._visitor = visitor
        self._since: dict[tuple[str, str], float] = {}
        self._forgotten: set[str] = set()

    def look(self) -> Iterator[Violation]:
        since = self._world.now - self._world.controllers.began_at
        for policy in self._policies.list_policies():
            name = policy.name
            # What a schedule put to sleep no request wakes.
            by_use = not any(schedule.sleeps for schedule in policy.schedules)
            waits = by_use and any(map(partial(self._waits, since), self._workloads(policy)))
            if waited := self._too_long("waits", name, waits):
                yield Violation(
                    ViolationKind.USERS_WAIT,
                    name,
                    f"people have waited {waited:.0f} s for {name}, which does not wake",
                )
            state = self._policies.find_state(policy.id)
            if state is None:
                yield Violation(ViolationKind.STATE_ASTRAY, name, f"the state of {name} is gone")
                continue
            if waited := self._too_long("astray", name, self._astray(policy, state)):
                yield Violation(
                    ViolationKind.STATE_ASTRAY,
                    name,
                    f"{name} is {state.phase}, and has had {self._wanted(policy)} replicas "
                    f"for {waited:.0f} s",
                )
            if state.wake_count < self._visitor.answered.get(policy.id, 0) and name not in self._forgotten:
                self._forgotten.add(name)
                yield Violation(
                    ViolationKind.WAKE_FORGOTTEN, name, f"a wake of {name} was answered and is forgotten"
                )

    def finish(self) -> Iterator[Violation]:
        for policy in self._policies.list_policies():
            state = self._policies.find_state(policy.id)
            if state is None or self._astray(policy, state) or state.phase is Phase.FALLING:
                yield Violation(
                    ViolationKind.STATE_ASTRAY,
                    policy.name,
                    f"{policy.name} has {self._wanted(policy)} replicas, and its state is "
                    f"{state and state.phase}",
                )

    def _workloads(self, policy: Policy) -> list[Workload]:
        """Of a pool none is known: its nodes are judged by the checker."""
        book = self._world.pods.book.workloads
        return [book[f"{ref.namespace}/{ref.name}"] for ref in policy.target.workloads]

    def _wanted(self, policy: Policy) -> str:
        return " and ".join(str(workload.wanted) for workload in self._workloads(policy))

    def _waits(self, since: float, workload: Workload) -> bool:
        asked = workload.spec.requests is not None and workload.spec.requests.wanted_at(since) > 0
        return asked and not (workload.ready if self._room else workload.wanted)

    def _astray(self, policy: Policy, state: IdleState) -> bool:
        asleep = state.phase is Phase.ZERO
        strays = any(asleep != (workload.wanted == 0) for workload in self._workloads(policy))
        return state.phase is not Phase.FALLING and strays

    def _too_long(self, what: str, name: str, is_so: bool) -> float:
        """For how long it has been so, reported now and then; 0 where it is not, or not yet for too long."""
        if not is_so:
            self._since.pop((what, name), None)
            return 0.0
        started = self._since.setdefault((what, name), self._world.now)
        if (lasted := self._world.now - started) <= LONGEST_WAIT_SECONDS:
            return 0.0
        self._since[(what, name)] = self._world.now
        return lasted
