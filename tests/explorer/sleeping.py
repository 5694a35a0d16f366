"""Workloads that go to zero and people who wake them: a scene, and what must be true in every state."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ebbtide.adapters.stores.codec.policies import Bodies
from ebbtide.core.scale_to_zero.machine import check_invariants
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, ServiceRef, Signal, SignalKind, Takeover, Target, WakeOnRequest
from ebbtide.simulator.run.runner import Stage, policies_of
from ebbtide.simulator.world.rules import Demand, Rules
from ebbtide.simulator.world.world import World, deployment
from tests.simulation.stories import small_world

UP = {"web": 2, "api": 1}
"""The replicas of a group that sleeps and wakes together."""
GROUP = Policy(
    id=str(uuid.UUID(int=1)),
    name="pair",
    target=Target(tuple(WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name) for name in UP)),
    scale_to_zero=True,
    signals=tuple(Signal(SignalKind.PROMQL_RATE, f'requests{{workload="default/{name}"}}') for name in UP),
)


SERVICES = tuple(ServiceRef("default", name) for name in UP)
GATES = ("10.0.0.1",)


def drowsy_world(rules: Rules) -> World:
    """Two workers, and a group that nobody uses."""
    world = small_world(rules)
    for zone in ("a", "b"):
        world.add_node("general", "small", zone)
    for name, replicas in UP.items():
        spec = deployment(name, 300, 256, Demand(low=replicas), 0.1)
        world.add_workload(replace(spec, requests=Demand(low=0), start_seconds=10.0))
    return world


def lull(stage: Stage, seconds: int, gated: bool = False) -> None:
    """The group has been idle for so long that in so many seconds a round will send it to zero. `gated`: the
    first connection to either of its Services wakes it, and after its last wake both still
    lead to the gates."""
    stage.gates = GATES if gated else ()
    stage.world.takeovers = {ref: Takeover(ref, "0", (), GATES) for ref in SERVICES} if gated else {}
    policy = replace(GROUP, gate=WakeOnRequest(SERVICES)) if gated else GROUP
    stage.policies = (policy,)
    rows = policies_of(stage)
    rows.put_policy(policy)
    now, zero = int(stage.clock.now()), stage.zero
    since = now + seconds - zero.idle_threshold_seconds - zero.keep_alive_window_seconds
    idle = replace(
        state_of(stage), phase=Phase.IDLE, last_activity_at=since, idle_since=since, stretch_since=since
    )
    rows.write_state(replace(idle, checked_at=now))


def state_of(stage: Stage) -> IdleState:
    """Asked for in every state, so read past the store, once for each that was ever written."""
    _, body = stage.database.policies[stage.settings.cluster].states[GROUP.id]
    return _read(body)


@lru_cache(100_000)
def _read(body: str) -> IdleState:
    return _BODIES.read(body)


_BODIES = Bodies(IdleState)


def replicas(stage: Stage) -> dict[str, int]:
    loads = stage.world.pods.book.workloads
    return {name: loads[f"default/{name}"].wanted for name in UP}


def versions(stage: Stage) -> dict[str, object]:
    """What a runner may have seen and somebody else changed since."""
    if not stage.policies:
        return {}
    loads = stage.world.pods.book.workloads
    seen: dict[str, object] = {name: str(loads[f"default/{name}"].version) for name in UP}
    for ref in SERVICES if stage.gates else ():
        taken = stage.world.takeovers.get(ref)
        seen[str(ref)] = "" if taken is None else taken.version
    return {"state": state_of(stage).rev, **seen}


def wrong_with_state(stage: Stage, before: IdleState, after: IdleState) -> Iterator[str]:
    """Of a write that landed."""
    if after.rev != before.rev + 1:
        yield f"a state of rev {after.rev - 1} was written over rev {before.rev}"
    if after.wake_count < before.wake_count:
        yield f"{before.wake_count - after.wake_count} wakes were forgotten"
    if before.phase is Phase.WAKING and after.phase in (Phase.FALLING, Phase.ZERO):
        yield f"a wake was passed over: {before.phase} became {after.phase}"
    yield from (broken.says for broken in check_invariants(before, after))
    if after.phase is Phase.ZERO and any(replicas(stage).values()):
        yield f"it is said to be at zero and has {replicas(stage)}"


def wrong_with_scale(stage: Stage, wanted: int) -> Iterator[str]:
    """Of a call to the cluster that was carried out. One to zero may still come after a wake, as long as
    the wake has not said that its own calls were made."""
    state = state_of(stage)
    meant = state.phase is Phase.FALLING or (state.phase is Phase.WAKING and not state.last_scaled_at)
    if wanted == 0 and not meant:
        yield f"it was scaled to zero while its state was {state.phase}"


def leads_nowhere(stage: Stage) -> Iterator[str]:
    """Of any call that was carried out: a Service has pods that are wanted, or gates."""
    for ref in SERVICES if stage.gates else ():
        if not replicas(stage)[ref.name] and ref not in stage.world.takeovers:
            yield f"{ref} leads nowhere"


def wrong_with_sleep(stage: Stage, asked: Sequence[bool], answered: Sequence[bool]) -> Iterator[str]:
    """At the end: by the wakes that somebody `asked` for, and those that were `answered`."""
    if not stage.policies:
        return
    state, now = state_of(stage), replicas(stage)
    if any(asked):
        yield "a wake was asked for again and again and never answered"
    if any(answered) and not state.wake_count:
        yield "a wake was answered and is not written"
    awake = state.phase in (Phase.ACTIVE, Phase.IDLE) and now == UP
    asleep = state.phase is Phase.ZERO and not any(now.values())
    remembered = {one.ref.name: one.replicas for one in state.remembered}
    if asleep and remembered != UP:
        yield f"asleep, and it would wake to {remembered}"
    taken = sorted(ref.name for ref in stage.world.takeovers)
    if stage.gates and taken != (sorted(UP) if asleep else []):
        yield f"its state is {state.phase}, and {taken or 'nothing'} leads to the gates"
    if not (awake if state.wake_count else awake or asleep):
        yield f"after {state.wake_count} wakes its state is {state.phase}, and it has {now}"
