"""What a race between wakes and idle loops is made of, for threads and for processes.

A target is made ripe for zero and woken at about the same moment. An hour of idleness is asked for, so what
is down after its wake was put there by a decision from before it: a lost wake. The loops do without a lease
among themselves, since safety must come from the conditions of the writes alone.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.errors import Conflict, LeaseLost
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.record import Lease
from ebbtide.ports import PolicyStore, Store, Workloads
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.contract.stores.lab import START, StillClock, policies_of
from tests.policy_harness import QUERY, Readings, make_policy, make_workload, policy_id

TARGETS = 12
DEFAULTS = ZeroDefaults(idle_threshold_seconds=3600, keep_alive_window_seconds=0)
RIPE = START - 100_000


def workloads() -> list[Workload]:
    return [make_workload(f"w{n}", 2, created_at=RIPE, deployed_at=RIPE) for n in range(TARGETS)]


def targets() -> list[Policy]:
    return [make_policy(f"w{n}", id=policy_id(n), created_at=RIPE, updated_at=RIPE) for n in range(TARGETS)]


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


def runner(clock: StillClock, store: Store, memory_workloads: Workloads, name: str) -> Scaling:
    numbers = iter(range(10**9))
    ports = ScalingPorts(
        store=NoTurns(store),  # type: ignore[arg-type]  # the rest is the store itself
        policies=policies_of(store),
        workloads=memory_workloads,
        signals=Readings({QUERY: 0.0}, clock),  # type: ignore[arg-type]  # it only tells the time
        notifier=SimNotifier(),
        clock=clock,
        new_id=lambda: f"{name}-{next(numbers):09d}",
    )
    return Scaling(ports, DEFAULTS, make_settings())


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
