"""Advance one state machine for as long as it moves and there is time.

A round: ask the machine, check its invariants, write the new state (or make sure that the old one still holds
where nothing changed), perform the effects, absorb how they went, look again. A conflict with another
writer means: read again and start the round again. Whatever does not fit is in the store, for the next run.

Operations on nodes and answers to spot notices are such machines (`record_machine`), and so is what a policy
does to its target (`scale_to_zero/policy_machine`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from ebbtide.core.step import Step
from ebbtide.errors import Conflict, EbbtideError, LeaseLost

State = TypeVar("State")
StepOf = TypeVar("StepOf", bound=Step[Any, Any])
Outcomes = TypeVar("Outcomes")


class InvariantBroken(EbbtideError):
    """A machine asked for what it must never do: nothing was written, nothing done."""


class StateMachine(Protocol[State, StepOf, Outcomes]):
    """One machine at work: where its state is kept, what it sees, and how its effects are performed."""

    most_rounds: int

    def has_time(self) -> bool:
        """Whether another round may start; renews a lease that is half over."""

    def find(self) -> State | None:
        """Its state as it was last read or written; none where it is over."""

    def advance(self, state: State) -> StepOf:
        """What follows from what was seen; without effects that this run asked for before."""

    def broken(self, before: State, after: State) -> Sequence[str]:
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
        except LeaseLost:
            raise
        except Conflict:
            machine.reload()
    return False


def _round(machine: StateMachine[State, StepOf, Outcomes], before: State) -> bool:
    """One step; whether another may follow at once."""
    step = machine.advance(before)
    refuse_if_broken(machine.broken(before, step.state))
    written = machine.write(before, step)
    if written is None:
        if not step.effects:
            return False
        if not machine.is_ours(before):
            return True
    state = before if written is None else written
    if not step.effects:
        return machine.goes_on(state, ())
    outcomes = machine.perform(step)
    machine.absorb(state, outcomes)
    return machine.goes_on(state, outcomes)


def refuse_if_broken(broken: Sequence[str]) -> None:
    if broken:
        raise InvariantBroken(f"{broken[0]}: nothing was written and nothing done; please report this")
