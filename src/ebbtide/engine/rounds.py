"""Advance one state machine for as long as it moves and there is time, and carry out its effects.

A round: advance the machine, check its invariants, write the new state (or, if nothing changed, make sure
that the stored one is still current), perform the effects, absorb their outcomes, observe again. A conflict
with another writer means: read again and start the round again. Work that does not fit is in the store, for
the next run.

Effects are carried out only while there is time in the tick and in the lease. The record was written, or
the lease renewed, just before, so the token is known to be ours. Before an instance is terminated the pods
on its node are listed once more, past any cache.

Operations on nodes and answers to spot notices are such machines (`record_machine`), and so is what a
policy does to its target (`scale_to_zero/policy_machine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Protocol, TypeVar

from ebbtide.core.nodes.drain import Disruptions, Treatment, judge
from ebbtide.core.nodes.unwell import is_lost
from ebbtide.engine.ports import Ports
from ebbtide.errors import Conflict, EbbtideError, Final, LeaseLost, NoCapacity, OfferRefused, Retryable
from ebbtide.model.effect import (
    Broken,
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    SoftTaint,
    Step,
    Terminate,
    Uncordon,
)
from ebbtide.model.record import Lease
from ebbtide.model.settings import Settings

State = TypeVar("State")
StepOf = TypeVar("StepOf", bound=Step[Any, Any])
Outcomes = TypeVar("Outcomes")
NO_TIME = "no time left in this tick or its lease"


class InvariantBroken(EbbtideError):
    """A machine asked for what it must never do: nothing was written, nothing done."""


class StateMachine(Protocol[State, StepOf, Outcomes]):
    """One machine that runs: where its state is kept, what it sees, and how its effects are performed."""

    most_rounds: int

    def has_time(self) -> bool:
        """Whether another round may start; renews a lease that is half over."""

    def find(self) -> State | None:
        """Its state as it was last read or written; none where it is over."""

    def advance(self, state: State) -> StepOf:
        """What follows from what was seen; without effects that this run asked for before."""

    def broken(self, before: State, after: State) -> Sequence[Broken]:
        """The invariants that such a step would break."""

    def write(self, before: State, step: StepOf) -> State | None:
        """The state as it was written; none where the step changes nothing. A machine that is at its end is
        closed with this write."""

    def is_ours(self, state: State) -> bool:
        """Nothing was written, but nothing may be done unless the state still holds and is ours to act on."""

    def perform(self, step: StepOf) -> Sequence[Outcomes]: ...

    def absorb(self, state: State, outcomes: Sequence[Outcomes]) -> None:
        """Write what the effects taught."""

    def goes_on(self, state: State, outcomes: Sequence[Outcomes]) -> bool:
        """Look again, where that may show more to do at once; whether it may."""

    def reload(self) -> None:
        """Read and look again, after another writer came first."""


def advance_work(machine: StateMachine[State, StepOf, Outcomes]) -> bool:
    """Whether it came to rest; not where it still moved, or met other writers, in the last round allowed."""
    for _ in range(machine.most_rounds):
        try:
            if not machine.has_time():
                return True
            state = machine.find()
            if state is None or not _round(machine, state):
                return True
        # Another runner has the record now. Any other conflict is one write that came first.
        except LeaseLost:
            raise
        except Conflict:
            machine.reload()
    return False


def _round(machine: StateMachine[State, StepOf, Outcomes], before: State) -> bool:
    """One step; whether another may follow at once."""
    step = machine.advance(before)
    # Before the write: a state that must not be must not be stored either.
    refuse_if_broken(machine.broken(before, step.state))
    written = machine.write(before, step)
    if written is None:
        if not step.effects:
            return False
        # Nothing was written under our lease in this round, so it may be gone by now.
        if not machine.is_ours(before):
            return True
    state = before if written is None else written
    if not step.effects:
        return machine.goes_on(state, ())
    outcomes = machine.perform(step)
    machine.absorb(state, outcomes)
    return machine.goes_on(state, outcomes)


def refuse_if_broken(broken: Sequence[Broken]) -> None:
    if broken:
        raise InvariantBroken(f"{broken[0].says}: nothing was written and nothing done; please report this")


def perform(
    effects: Sequence[Effect], ports: Ports, settings: Settings, lease: Lease, last_moment: float
) -> tuple[Outcome, ...]:
    def attempt(effect: Effect) -> Outcome:
        # Crash table: lease-expires. Whatever starts later could still run under the lease of the next
        # holder.
        if ports.clock.now() >= last_moment:
            return Outcome(effect, OutcomeKind.SKIPPED, NO_TIME)
        try:
            return _do(effect, ports, settings, lease)
        except EbbtideError as error:
            return Outcome(effect, failure(error), str(error), unfit=isinstance(error, OfferRefused))

    outcomes: list[Outcome] = []
    for launches, group in groupby(effects, key=lambda effect: isinstance(effect, Launch)):
        outcomes += _at_once(attempt, list(group), ports.launches_at_once if launches else 1)
    return tuple(outcomes)


def _at_once(attempt: Callable[[Effect], Outcome], effects: Sequence[Effect], most: int) -> Iterable[Outcome]:
    """In the order of the effects. Each launch has its key in the record already, so several calls at a time
    are as safe as one: a hundred nodes must not wait for a hundred answers, one after the other."""
    threads_needed = min(most, len(effects))
    if threads_needed == 1:
        return map(attempt, effects)
    with ThreadPoolExecutor(threads_needed, thread_name_prefix="launch") as threads:
        return list(threads.map(attempt, effects))


def failure(error: EbbtideError) -> OutcomeKind:
    """Whether the effect that raised it was definitely not done."""
    match error:
        case NoCapacity():
            return OutcomeKind.NO_CAPACITY
        case Retryable():
            return OutcomeKind.LATER
        case Final():
            return OutcomeKind.REFUSED
        case _:
            return OutcomeKind.UNKNOWN


def _do(effect: Effect, ports: Ports, settings: Settings, lease: Lease) -> Outcome:
    match effect:
        case SoftTaint():
            ports.cluster.soft_taint(effect, lease.token)
        case Cordon():
            ports.cluster.cordon(effect, lease.token)
        case Uncordon():
            ports.cluster.uncordon(effect, max(lease.token, effect.signed_token))
        case Evict():
            ports.cluster.evict(effect)
        case DeleteNode():
            ports.cluster.delete_node(effect)
        case Launch():
            return Outcome(effect, OutcomeKind.DONE, instance=ports.cloud.launch(effect))
        case Terminate():
            late = _late_pod(effect, ports, settings)
            # Crash table: late-pod. A pod may have been bound since the drain check.
            if late:
                return Outcome(effect, OutcomeKind.LATER, late)
            ports.cloud.terminate(effect.instance_id)
    return Outcome(effect, OutcomeKind.DONE)


def _late_pod(effect: Terminate, ports: Ports, settings: Settings) -> str:
    """A pod that came onto the node after it was found drained."""
    if not effect.node_name:
        return ""
    nothing_known = Disruptions(())
    for pod in ports.cluster.read_pods_on(effect.node_name):
        if is_lost(pod, effect.lost_before):
            continue
        judgement = judge(pod, nothing_known, settings, None)
        if judgement.treatment is not Treatment.SKIP:
            return f"{pod.full_name} is on the node"
    return ""
