"""Runs the state machine of one policy: its state is a row of its own, its effects scale workloads.

A round runs it under the lease `policies`; a wake runs it without one, since it cannot wait. They exclude
each other not by the lease: every write is conditional on `rev`, every call to the cluster on the version
that was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import assert_never

from ebbtide.core.scale_to_zero import machine
from ebbtide.core.scale_to_zero.machine import Observed, StepResult, TargetStep, check_invariants
from ebbtide.engine.leased import Leased
from ebbtide.engine.rounds import NO_TIME, failure, refuse_if_broken
from ebbtide.engine.scale_to_zero.context import MOST_TRIES, PolicyContext
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.errors import Conflict, EbbtideError, NotFound, Unanswered
from ebbtide.model.effect import (
    Broken,
    OutcomeKind,
    Restore,
    SetReplicas,
    ToZero,
    WorkloadEffect,
    WorkloadOutcome,
)
from ebbtide.model.idle import IdleState, Once, Phase
from ebbtide.model.policy import Policy

Advance = Callable[[IdleState, Observed, float], TargetStep]
Observe = Callable[[Policy, IdleState], Observed]


@dataclass(slots=True)
class PolicyMachine:
    context: PolicyContext
    gating: Gating
    state: IdleState
    observed: Observed
    observe: Observe
    """Look again, for a state that was read again."""
    step_from: Advance = machine.advance
    leased: Leased | None = None
    once: Once | None = None
    """A key that is used up with the next write."""
    most_rounds: int = MOST_TRIES
    step: TargetStep | None = None
    """The last one; none where there was no time for any."""
    outcomes: tuple[WorkloadOutcome, ...] = ()
    problems: list[str] = field(default_factory=list)
    result: StepResult = StepResult.NOTED
    told: str = ""

    @property
    def policy(self) -> Policy:
        return self.observed.policy

    def has_time(self) -> bool:
        if self.leased is None:
            return True
        if self.leased.half_over():
            self.leased.renew()
        return self.leased.has_time()

    def find(self) -> IdleState:
        return self.state

    def advance(self, state: IdleState) -> TargetStep:
        self.step = self.step_from(state, self.observed, self.context.ports.clock.now())
        self._note(self.step)
        return self.step

    def _note(self, step: TargetStep) -> None:
        if step.told or step.effects:
            self.result, self.told = step.result, step.told

    def broken(self, before: IdleState, after: IdleState) -> Sequence[Broken]:
        return check_invariants(before, after)

    def write(self, before: IdleState, step: TargetStep) -> IdleState | None:
        if step.state == before and not step.why and not step.stretches:
            return None
        self.state = self.context.save(self.policy, step, self.once)
        return self.state

    def is_ours(self, state: IdleState) -> bool:
        found = self.context.ports.policies.find_state(state.policy_id)
        # Nothing was written in this round, so a wake may have come since the look.
        if found is not None and found.rev == state.rev:
            return True
        self.reload()
        return False

    def perform(self, step: TargetStep) -> tuple[WorkloadOutcome, ...]:
        last_moment = inf if self.leased is None else self.leased.last_moment
        clock = self.context.ports.clock
        self.outcomes = tuple(
            self._attempt(effect)
            if clock.now() < last_moment
            else WorkloadOutcome(effect, OutcomeKind.SKIPPED, NO_TIME)
            for effect in step.effects
        )
        self.problems = [outcome.detail for outcome in self.outcomes if outcome.detail]
        return self.outcomes

    def absorb(self, state: IdleState, outcomes: Sequence[WorkloadOutcome]) -> None:
        """Where the store fails, what was done is found by the next look."""
        try:
            self._absorb(state, outcomes)
        except Conflict:
            raise
        except EbbtideError as error:
            self.problems.append(str(error))

    def _absorb(self, state: IdleState, outcomes: Sequence[WorkloadOutcome]) -> None:
        """A wake whose calls were answered says so on whatever others write meanwhile, as long as it is the
        same wake. Everything else that meets another writer is looked at again."""
        for _ in range(MOST_TRIES):
            step = machine.absorb(self.state, outcomes, self.observed, self.context.ports.clock.now())
            refuse_if_broken(check_invariants(self.state, step.state))
            try:
                self.write(self.state, step)
                self._note(step)
                return
            except Conflict:
                # Only a wake may be noted late: the calls were answered, and it is still the same wake.
                if state.phase is not Phase.WAKING:
                    raise
                self.state = self.context.find(state.policy_id)[1]
                # Another wake, or its end: there is nothing left to note for this one.
                if self.state.phase is not Phase.WAKING or self.state.wake_count != state.wake_count:
                    return

    def goes_on(self, state: IdleState, outcomes: Sequence[WorkloadOutcome]) -> bool:
        """Only on the way to zero: at once where there is nothing to call, and where a workload changed in
        our hands, after another look."""
        if state.phase is not Phase.FALLING:
            return False
        if any(outcome.kind is OutcomeKind.CHANGED for outcome in outcomes):
            self.observed = self.observe(self.policy, self.state)
            return True
        return not outcomes

    def reload(self) -> None:
        policy, self.state = self.context.find(self.state.policy_id)
        self.observed = self.observe(policy, self.state)

    def _attempt(self, effect: WorkloadEffect) -> WorkloadOutcome:
        try:
            return self._do(effect)
        except Conflict as error:
            return WorkloadOutcome(effect, OutcomeKind.CHANGED, str(error))
        except EbbtideError as error:
            return WorkloadOutcome(effect, failure(error), str(error))

    def _do(self, effect: WorkloadEffect) -> WorkloadOutcome:
        match effect:
            case ToZero():
                # Crash table: takeover-crash. From the first call to zero on, nobody but the gates answers.
                self.gating.take_over(effect.policy)
                for each in effect.workloads:
                    self._scale(SetReplicas(effect.policy, each, 0, "idle: scaled to zero"))
            case SetReplicas():
                self._scale(effect)
            case Restore():
                return self._restore(effect)
            case _:
                assert_never(effect)
        return WorkloadOutcome(effect, OutcomeKind.DONE)

    def _scale(self, effect: SetReplicas) -> None:
        note = self.context.note(effect.policy, effect.why)
        self.context.ports.workloads.scale(effect.workload, effect.replicas, note)

    def _restore(self, effect: Restore) -> WorkloadOutcome:
        workloads, target = self.context.ports.workloads, effect.target
        note, before = self.context.note(effect.policy, "woken"), None
        for _ in range(MOST_TRIES):
            try:
                seen = workloads.read(target.ref)
            except NotFound as error:  # there is nothing to bring back
                return WorkloadOutcome(effect, OutcomeKind.DONE, str(error))
            before = seen.replicas if before is None else before
            least = target.replicas if effect.exact or not seen.replicas else 0
            with suppress(Conflict, Unanswered):
                # Crash table: wake-while-falling. Scaled even where nothing changes: see `Restore`.
                workloads.scale(seen, max(seen.replicas, least), note)
                return WorkloadOutcome(effect, OutcomeKind.DONE, previous=before)
        raise Conflict(f"{target.ref} changed {MOST_TRIES} times while it was to be scaled up")
