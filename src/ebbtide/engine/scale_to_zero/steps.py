"""Carrying out what a round wants of one policy: fall to zero, wake, finish a wake, scale, answer a schedule.

Each is written before it is done, and done so it can be done again: a runner that dies in between
leaves a state from which the next round goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.core.scale_to_zero import idle, rules
from ebbtide.core.scale_to_zero.activity import Look, may_not_fall
from ebbtide.core.scale_to_zero.cost_cap import price_each, with_base
from ebbtide.core.scale_to_zero.idle import IdleStep, Wanted
from ebbtide.core.scale_to_zero.rules import Due, Scale
from ebbtide.engine.scale_to_zero.context import PolicyContext, replicas_of
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.waking import Ordered, Waking
from ebbtide.errors import Conflict, EbbtideError
from ebbtide.model.idle import IdleState, Phase, Remembered, WakeReason
from ebbtide.model.ledger import Stretch
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy
from ebbtide.model.workload import Workload

FALL_TRIES = 3
AWAKE = (Phase.ACTIVE, Phase.IDLE)


class Kind(StrEnum):
    FELL = "fell"
    WOKE = "woke"
    SCALED = "scaled"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Done:
    kind: Kind
    says: str = ""


LookAgain = Callable[[Policy, IdleState], Look]
"""What the cluster shows of one policy, read again."""


class Steps:
    def __init__(self, desk: PolicyContext, waking: Waking, gating: Gating) -> None:
        self._desk = desk
        self._waking = waking
        self._gating = gating
        self._workloads = desk.ports.workloads

    def carry_out(self, policy: Policy, step: IdleStep, look: Look, look_again: LookAgain) -> Done:
        """May raise `EbbtideError`: then it is as the store has it, and the next round goes on."""
        match step.wanted:
            case Wanted.FALL | Wanted.FINISH:
                return self._fall(policy, step, look, look_again)
            case Wanted.WAKE:
                self._waking.wake(policy.id, step.reason)
                return Done(Kind.WOKE, step.says)
            case Wanted.READY:
                self._waking.finish(policy.id, step.state.wake_count)
                return Done(Kind.NOTED)
            case Wanted.NOTHING:
                self._desk.save(policy, step.state, step.stretches, step.says)
                return Done(Kind.NOTED, step.says)

    def _fall(self, policy: Policy, step: IdleStep, look: Look, look_again: LookAgain) -> Done:
        """A workload that changes under our hands is looked at again; a wake ends the attempt, since our
        next write is then refused."""
        for _ in range(FALL_TRIES):
            written = self._desk.save(policy, step.state, step.stretches, step.says)
            if step.wanted is Wanted.FINISH:
                return Done(Kind.FELL, step.says)
            # The gates first: from the first call to zero on, nobody else would answer.
            self._gating.take_over(policy)
            try:
                self._to_zero(policy, look.workloads)
            except Conflict:
                look = look_again(policy, written)
                step = idle.evaluate(policy, written, look, self._desk.defaults, self._desk.now)
                if step.wanted not in (Wanted.FALL, Wanted.FINISH):
                    break
                continue
            end = idle.at_zero(policy, written, self._desk.now)
            self._desk.save(policy, end.state, end.stretches, end.says)
            return Done(Kind.FELL, end.says)
        return Done(
            Kind.NOTED, f"{policy.target} changed while it was to go to zero: the next round looks again"
        )

    def _to_zero(self, policy: Policy, seen: Sequence[Workload]) -> None:
        for each in seen:
            if each.replicas:
                self._workloads.scale(each, 0, self._desk.note(policy, "idle, so at zero"))

    def scale(self, policy: Policy, step: IdleStep, wanted: Scale, seen: Sequence[Workload]) -> Done:
        """By a rule. Written first: were it done first and the runner died, the rule would fire again."""
        now = self._desk.now
        priced = with_base(policy, step.state, replicas_of(seen))
        begun = replace(priced, timers=(), last_scaled_at=now, checked_at=now, rule_held="")
        self._desk.save(policy, begun, step.stretches, wanted.says, LogKind.RULE)
        try:
            self._set(policy, wanted.replicas, seen, "by a rule")
        except EbbtideError as error:
            return Done(Kind.NOTED, f"{wanted.says}; left alone: {error}")
        return Done(Kind.SCALED, wanted.says)

    def answer(
        self, policy: Policy, state: IdleState, due: Due, look: Look, look_again: LookAgain
    ) -> Done | None:
        """A schedule that is due. None where it cannot be answered yet: it stays due."""
        said = f"schedule {due.schedule.cron} ({due.schedule.zone})"
        if not due.schedule.sleeps:
            return self._rise(policy, state, due, look, said)
        if state.phase in (Phase.FALLING, Phase.ZERO):
            # Asleep as the schedule wants it: activity that comes later no longer wakes it.
            return self._answered(policy, replace(state, idle_since=None), due, f"{said}: asleep already")
        if why := _scaled_by_another(look):
            return self._answered(policy, state, due, f"{said}: left alone, {why}")
        if must_wait(state, due, look, self._desk.now):
            return None
        asleep = replace(idle.fall(state, look, self._desk.now), idle_since=None, scheduled_until=due.at)
        step = IdleStep(asleep, Wanted.FALL, says=f"{said}: going to zero")
        return self._fall(policy, step, look, look_again)

    def _rise(self, policy: Policy, state: IdleState, due: Due, look: Look, said: str) -> Done | None:
        """A schedule that wakes, or that names a number. A number for several workloads can only come from a
        version that took one: it restores what each had."""
        if state.phase is Phase.WAKING:
            return self._answered(policy, state, due, f"{said}: waking already")
        number = None if due.schedule.wake or len(policy.target.workloads) != 1 else due.schedule.replicas
        if state.phase in AWAKE:
            if look.problem:
                return None
            if why := _scaled_by_another(look):
                return self._answered(policy, state, due, f"{said}: left alone, {why}")
            if number is not None and all(each.replicas for each in look.workloads):
                return self._set_number(policy, state, due, look, said)
        self._waking.wake(policy.id, WakeReason.SCHEDULED, Ordered(number, due.at))
        return Done(Kind.WOKE, f"{said}: woken" if number is None else f"{said}: woken to {number}")

    def _set_number(self, policy: Policy, state: IdleState, due: Due, look: Look, said: str) -> Done:
        now, why = self._desk.now, ""
        have = replicas_of(look.workloads)
        price = price_each(policy, state, have, look.rate)
        for each in look.workloads:
            wanted, why = rules.scale_to(policy, due.schedule.replicas, each, price)
            self._set(policy, wanted, look.workloads, said)
        step = idle.stay_up(policy, with_base(policy, state, have), "", now, now)
        awake = replace(step.state, last_activity_at=now)
        says = "; ".join(filter(None, (f"{said}: {due.schedule.replicas} replicas", why)))
        return self._answered(policy, awake, due, says, step.stretches)

    def _answered(
        self, policy: Policy, state: IdleState, due: Due, says: str, stretches: Sequence[Stretch] = ()
    ) -> Done:
        self._desk.save(policy, replace(state, scheduled_until=due.at), stretches, says)
        return Done(Kind.NOTED, says)

    def _set(self, policy: Policy, wanted: Sequence[Remembered], seen: Sequence[Workload], why: str) -> None:
        of = {each.ref: each for each in seen}
        for one in wanted:
            self._workloads.scale(of[one.ref], one.replicas, self._desk.note(policy, why))


def must_wait(state: IdleState, due: Due, look: Look, now: int) -> str:
    """Why a schedule that is due cannot be answered yet. It stays due, and the policy is looked at as if it
    were not: a wake in progress must end before the schedule can put the target to sleep again."""
    if state.phase not in AWAKE and state.phase is not Phase.WAKING:
        return ""
    if look.problem and state.phase in AWAKE:
        return look.problem
    if not due.schedule.sleeps or _scaled_by_another(look):
        return ""
    return "it is waking" if state.phase is Phase.WAKING else may_not_fall(state, look, now)


def _scaled_by_another(look: Look) -> str:
    scaler = next((each for each in look.workloads if each.autoscaler), None)
    return f"HorizontalPodAutoscaler {scaler.autoscaler} scales {scaler.ref}" if scaler else ""
