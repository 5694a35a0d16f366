"""Workloads that people use for an hour now and then and that sleep otherwise, and what must hold of them.

While they sleep their nodes stand empty and go; a wake finds no room and brings a node.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace

from ebbtide.model.idle import Phase
from ebbtide.model.policy import Policy, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.workload import WorkloadKind, WorkloadRef
from ebbtide.ports import PolicyStore
from ebbtide.simulator.catalogue import deployment
from ebbtide.simulator.rules import WorkloadSpec
from ebbtide.simulator.workload import Curve, Demand
from ebbtide.simulator.world import World

NAMES = ("reports", "staging", "wiki")
DEFAULTS = ZeroDefaults(idle_threshold_seconds=20 * 60)
EVERY_SECONDS, USED_SECONDS = 8 * 3600.0, 3600.0
LONGEST_WAIT_SECONDS = 1800.0
"""How long people may be kept waiting by a wake: the round, a node, the pods, and every fault on the way."""


def sleeper(number: int, name: str) -> WorkloadSpec:
    used = Demand(
        Curve.BURST,
        0,
        5,
        every_seconds=EVERY_SECONDS,
        burst_seconds=USED_SECONDS,
        offset_seconds=(number + 1) * 2 * 3600.0,
    )
    spec = deployment(name, 3000, 4000, Demand(low=4), 0.4)
    return replace(spec, requests=used, start_seconds=20.0)


def sleepers() -> Iterator[WorkloadSpec]:
    yield from (sleeper(number, name) for number, name in enumerate(NAMES))


def policies_for(now: int) -> tuple[Policy, ...]:
    """One for each sleeper; activity is what people send."""
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
        for number, name in enumerate(NAMES)
    )


class Watchman:
    """Says what must not be: people who wait too long, and states that are not what the cluster shows."""

    def __init__(self, world: World, policies: PolicyStore) -> None:
        self._world = world
        self._policies = policies
        self._waiting_since: dict[str, float] = {}

    def look(self) -> Iterator[str]:
        since = self._world.now - self._world.controllers.began_at
        for name in NAMES:
            workload = self._world.pods.book.workloads[f"default/{name}"]
            asked = workload.spec.requests is not None and workload.spec.requests.wanted_at(since) > 0
            if not asked or workload.ready:
                self._waiting_since.pop(name, None)
                continue
            begun = self._waiting_since.setdefault(name, self._world.now)
            if self._world.now - begun > LONGEST_WAIT_SECONDS:
                self._waiting_since[name] = self._world.now
                yield f"people have waited {self._world.now - begun:.0f} s for {name}, which does not wake"

    def finish(self) -> Iterator[str]:
        for policy in self._policies.list_policies():
            state = self._policies.find_state(policy.id)
            wanted = self._world.pods.book.workloads[f"default/{policy.name}"].wanted
            asleep = state is not None and state.phase is Phase.ZERO
            if asleep != (wanted == 0):
                yield f"{policy.name} has {wanted} replicas, and its state is {state and state.phase}"
