"""What a policy does to its target, as a state machine: a schedule that is due, then idleness, then rules.

Its state is one row, and every state that is written obeys the table of phases: a wake is answered before
its target can sleep again. Every step is written before its effects are performed, and every effect can
be performed again, so a runner that dies leaves a state that the next one continues from: FALLING until
everything is at zero, WAKING until the calls of the wake were answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.core.scale_to_zero import idle, rules
from ebbtide.core.scale_to_zero import wake as waking
from ebbtide.core.scale_to_zero.activity import ActivityLook, is_unreadable, may_not_fall, scaled_by_another
from ebbtide.core.scale_to_zero.idle import IdleStep, NextStep
from ebbtide.core.scale_to_zero.rules import Due, price_each, replicas_in, with_base
from ebbtide.model.effect import (
    Breach,
    Broken,
    OutcomeKind,
    Restore,
    SetReplicas,
    Step,
    ToZero,
    WorkloadEffect,
    WorkloadOutcome,
)
from ebbtide.model.idle import (
    NO_WHY,
    IdleState,
    NodeFirst,
    Phase,
    PolicyCause,
    PolicyWhy,
    RuleTimer,
    Stretch,
    WakeReason,
)
from ebbtide.model.log import LogKind
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Policy, Rule, ZeroDefaults

AWAKE = (Phase.ACTIVE, Phase.IDLE)
ALLOWED: dict[Phase, frozenset[Phase]] = {
    Phase.ACTIVE: frozenset({Phase.IDLE, Phase.FALLING, Phase.WAKING}),
    Phase.IDLE: frozenset({Phase.ACTIVE, Phase.FALLING, Phase.WAKING}),
    Phase.FALLING: frozenset({Phase.ZERO, Phase.WAKING}),
    Phase.ZERO: frozenset({Phase.WAKING, Phase.ACTIVE}),
    Phase.WAKING: frozenset({Phase.ACTIVE}),
}


class StepResult(StrEnum):
    """What a step comes to, for the report of a round."""

    FELL = "fell"
    WOKE = "woke"
    SCALED = "scaled"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Observed:
    """What one policy's machine sees."""

    policy: Policy
    look: ActivityLook
    defaults: ZeroDefaults
    due: Due | None = None
    """The schedule to be answered next."""
    timers: tuple[RuleTimer, ...] = ()
    rule: Rule | None = None
    """The rule that fired."""
    node_seconds: float = 0.0
    """How long a wake waited for its node; 0 where it needed none."""
    node_first: NodeFirst | None = None
    """Whether a wake of what sleeps needs a node first; none where that is not known."""


@dataclass(frozen=True, slots=True)
class TargetStep(Step[IdleState, WorkloadEffect]):
    stretches: tuple[Stretch, ...] = ()
    """What ended, for the ledger."""
    why: PolicyWhy = NO_WHY
    """For the log."""
    log: LogKind = LogKind.IDLE
    result: StepResult = StepResult.NOTED
    told: str = ""
    """For the report of the round."""


@dataclass(frozen=True, slots=True)
class WakeOrder:
    """A wake that somebody asks for."""

    reason: WakeReason
    replicas: int | None = None
    """The number of a schedule; none for what each workload had."""
    until: int = 0
    """Up to when it answers schedules."""
    why: PolicyWhy = NO_WHY
    """What is expected, where nobody asked yet."""


def advance(state: IdleState, observed: Observed, now: float) -> TargetStep:
    at, due = int(now), observed.due
    if due is not None and _is_open(state, due, observed.look, at):
        return _answer(state, due, observed, at)
    step = idle.evaluate(observed.policy, state, observed.look, observed.defaults, at)
    match step.wanted:
        case NextStep.FALL:
            return _fall(step, observed)
        case NextStep.FINISH:
            return _noted(step, StepResult.FELL)
        case NextStep.WAKE:
            return replace(wake(step.state, observed, WakeOrder(step.reason), at), told=step.why.says)
        case NextStep.READY:
            return ready(step.state, observed, now)
        case _:
            return _by_rules(state, step, observed, at)


def absorb(
    state: IdleState, outcomes: Sequence[WorkloadOutcome], observed: Observed, now: float
) -> TargetStep:
    """What the effects of a step made of its state. What was not done leaves it, to be done again."""
    at, due = int(now), observed.due
    # A partial success is written as none: the next round repeats every call, and each is safe to repeat.
    if any(outcome.kind is not OutcomeKind.DONE for outcome in outcomes):
        return TargetStep(state)
    if state.phase is Phase.FALLING:
        return _noted(idle.at_zero(observed.policy, state, at), StepResult.FELL)
    if state.phase is Phase.WAKING and not state.last_scaled_at:
        return TargetStep(waking.scaled(state, at))
    if due is not None and _is_open(state, due, observed.look, at):
        return _numbered(state, due, observed, at)[1]
    return TargetStep(state)


def _is_open(state: IdleState, due: Due, look: ActivityLook, now: int) -> bool:
    """Whether the schedule is to be answered now."""
    return due.at > state.scheduled_until and not must_wait(state, due, look, now)


def wake(state: IdleState, observed: Observed, order: WakeOrder, now: int) -> TargetStep:
    """A wake that joins another in progress writes nothing; where nobody answered that one's calls for long,
    it makes them again."""
    policy = observed.policy
    there = observed.look.workloads if state.phase in AWAKE else ()
    # A wake in progress keeps what it answers; the schedule is answered when it ends.
    if order.until and state.phase is not Phase.WAKING:
        state = replace(state, scheduled_until=order.until)
    step = waking.wake(policy, state, order.reason, now, there, order.replicas)
    effects = _restores(policy, step.state, order.replicas is not None) if step.acts else ()
    after = step.state if effects or not step.acts else waking.scaled(step.state, now)
    if step.joined:
        return TargetStep(after, effects, result=StepResult.WOKE)
    says = f"woken ({order.reason})" if step.acts else f"woken while running ({order.reason})"
    why = PolicyWhy(PolicyCause.WOKEN if step.acts else PolicyCause.WOKEN_UP, says, order.reason)
    why = replace(order.why, says=f"{says} {order.why.says}") if order.why else why
    return TargetStep(after, effects, step.stretches, why, LogKind.WAKE, StepResult.WOKE)


def ready(state: IdleState, observed: Observed, now: float) -> TargetStep:
    """All of a target that is waking was seen ready."""
    # Crash table: wake-unanswered.
    if not state.last_scaled_at:
        # It may be up only because a call to zero is still on its way: refuse that first.
        return TargetStep(state, _restores(observed.policy, state))
    end = waking.ready(observed.policy, state, now, observed.node_seconds, observed.defaults)
    return TargetStep(end.state, (), end.stretches, end.why, LogKind.WAKE)


def must_wait(state: IdleState, due: Due, look: ActivityLook, now: int) -> PolicyWhy:
    """Why a schedule that is due cannot be answered yet. It stays due, and the policy is looked at as if it
    were not: a wake in progress must end before the schedule can put the target to sleep again."""
    if state.phase not in AWAKE and state.phase is not Phase.WAKING:
        return NO_WHY
    # A person may have scaled it: without a look at the workloads nothing is changed.
    if look.problem and state.phase in AWAKE:
        return is_unreadable(look)
    if not due.schedule.sleeps or scaled_by_another(look.workloads):
        return NO_WHY
    # Put to sleep half-way up, the caller who woke it would never be served.
    if state.phase is Phase.WAKING:
        return PolicyWhy(PolicyCause.WAKING, "it is waking")
    return may_not_fall(state, look, now)


def _noted(step: IdleStep, result: StepResult = StepResult.NOTED) -> TargetStep:
    return TargetStep(step.state, (), step.stretches, step.why, result=result, told=step.why.says)


def _fall(step: IdleStep, observed: Observed) -> TargetStep:
    up = tuple(each for each in observed.look.workloads if each.replicas)
    policy = observed.policy
    effects = (ToZero(policy, up),) if up or policy.gate is not None else ()
    return replace(_noted(step, StepResult.FELL), effects=effects)


def _restores(policy: Policy, state: IdleState, exact: bool = False) -> tuple[WorkloadEffect, ...]:
    return tuple(Restore(policy, target, exact) for target in waking.targets(policy, state))


def _answer(state: IdleState, due: Due, observed: Observed, now: int) -> TargetStep:
    """A schedule that is due."""
    look, said = observed.look, _said(due)
    if not due.schedule.sleeps:
        return _rise(state, due, observed, now)
    if state.phase in (Phase.FALLING, Phase.ZERO):
        # Asleep as the schedule wants it: activity that comes later no longer wakes it.
        return _answered(replace(state, idle_since=None), due, _of(due, PolicyCause.ASLEEP, "asleep already"))
    if why := scaled_by_another(look.workloads):
        return _answered(state, due, replace(why, says=f"{said}: left alone, {why.says}"))
    asleep = replace(idle.fall(state, look, now), idle_since=None, scheduled_until=due.at)
    return _fall(
        IdleStep(asleep, NextStep.FALL, why=_of(due, PolicyCause.SCHEDULE, "going to zero")), observed
    )


def _rise(state: IdleState, due: Due, observed: Observed, now: int) -> TargetStep:
    """A schedule that wakes, or that names a number. A number for several workloads can only come from a
    version that took one: it restores what each had."""
    policy, look, said = observed.policy, observed.look, _said(due)
    if state.phase is Phase.WAKING:
        return _answered(state, due, _of(due, PolicyCause.WAKING, "waking already"))
    number = None if due.schedule.wake or len(policy.target.workloads) != 1 else due.schedule.replicas
    if state.phase in AWAKE:
        # Two that set replicas would undo each other.
        if why := scaled_by_another(look.workloads):
            return _answered(state, due, replace(why, says=f"{said}: left alone, {why.says}"))
        if number is not None and all(each.replicas for each in look.workloads):
            effects, answered = _numbered(state, due, observed, now)
            # Not written before it is done: until it is answered, the schedule itself is the intent.
            return TargetStep(state, effects) if effects else answered
    woken = wake(state, observed, WakeOrder(WakeReason.SCHEDULED, number, due.at), now)
    return replace(woken, told=f"{said}: woken" if number is None else f"{said}: woken to {number}")


def _numbered(
    state: IdleState, due: Due, observed: Observed, now: int
) -> tuple[tuple[WorkloadEffect, ...], TargetStep]:
    """What a schedule of a number does to what is up, and the answer to it once that is done."""
    policy, look, said = observed.policy, observed.look, _said(due)
    have, why = replicas_in(look.workloads), NO_WHY
    price = price_each(policy, state, have, look.rate)
    effects: list[WorkloadEffect] = []
    for each in look.workloads:
        wanted, why = rules.scale_to(policy, due.schedule.replicas, each, price)
        effects += [SetReplicas(policy, each, one.replicas, said) for one in wanted]
    step = idle.stay_up(policy, with_base(policy, state, have), NO_WHY, now, now)
    says = "; ".join(filter(None, (f"{said}: {due.schedule.replicas} replicas", why.says)))
    told = replace(why or _of(due, PolicyCause.SCHEDULE, ""), says=says)
    answered = _answered(replace(step.state, last_activity_at=now), due, told)
    return tuple(effects), replace(answered, stretches=step.stretches)


def _answered(state: IdleState, due: Due, why: PolicyWhy) -> TargetStep:
    return TargetStep(replace(state, scheduled_until=due.at), why=why, told=why.says)


def _said(due: Due) -> str:
    return f"schedule {due.schedule.cron} ({due.schedule.zone})"


def _of(due: Due, cause: PolicyCause, says: str) -> PolicyWhy:
    return PolicyWhy(cause, f"{_said(due)}: {says}", due.schedule.cron)


def _by_rules(before: IdleState, step: IdleStep, observed: Observed, now: int) -> TargetStep:
    """Nothing else is wanted: a rule that fired may scale, or say why it does not."""
    policy, look = observed.policy, observed.look
    if observed.rule is not None:
        scale = rules.scale_for(policy, step.state, observed.rule, look.workloads, look.rate, now)
        if scale.replicas:
            # Written first: were it done first and the runner died, the rule would fire again.
            priced = with_base(policy, step.state, replicas_in(look.workloads))
            state = replace(priced, timers=(), last_scaled_at=now, checked_at=now)
            effects = _moves(policy, scale, look.workloads)
            return TargetStep(
                _held(state, NO_WHY),
                effects,
                step.stretches,
                scale.why,
                LogKind.RULE,
                StepResult.SCALED,
                scale.why.says,
            )
        step = _not_moved(step, scale.why)
    elif before.rule_held:
        step = replace(step, state=_held(step.state, NO_WHY))
    return _noted(_with_node_first(_with_timers(step, observed, now) if policy.rules else step, observed))


def _with_node_first(step: IdleStep, observed: Observed) -> IdleStep:
    """Whether its wake will need a node: noted while it sleeps, since a gate sees no nodes."""
    # What is up already has its nodes.
    if step.state.phase is not Phase.ZERO or observed.node_first is None:
        return step
    return replace(step, state=replace(step.state, node_first=observed.node_first))


def _moves(policy: Policy, scale: rules.Scale, seen: Sequence[Workload]) -> tuple[WorkloadEffect, ...]:
    of = {each.ref: each for each in seen}
    return tuple(SetReplicas(policy, of[one.ref], one.replicas, "by a rule") for one in scale.replicas)


def _not_moved(step: IdleStep, why: PolicyWhy) -> IdleStep:
    """A rule that fired and moved nothing: said once, and again when the reason changes."""
    if why.brief == step.state.why_rule_held:
        return step
    told = replace(step.why or why, says="; ".join(filter(None, (step.why.says, why.says))))
    return replace(step, state=_held(step.state, why), why=told)


def _held(state: IdleState, why: PolicyWhy) -> IdleState:
    return replace(state, rule_held=why.says, rule_held_cause=why.cause)


def _with_timers(step: IdleStep, observed: Observed, now: int) -> IdleStep:
    """Rules that began or ceased to hold; a clock that runs is looked at often enough to be believed."""
    if step.state.phase not in AWAKE:
        return step
    # A timer that nobody looked at for too long counts as a gap, and starts again.
    old = 2 * (now - step.state.checked_at) >= observed.look.gap_seconds
    if observed.timers == step.state.timers and not (observed.timers and old):
        return step
    return replace(step, state=replace(step.state, timers=observed.timers, checked_at=now))


def check_invariants(before: IdleState, after: IdleState) -> tuple[Broken, ...]:
    broken: tuple[Broken, ...] = ()
    if after.phase is not before.phase and after.phase not in ALLOWED[before.phase]:
        broken += (
            Broken(
                Breach.STATE,
                before.policy_id,
                f"policy {before.policy_id} went from {before.phase} to {after.phase}",
            ),
        )
    # Crash table: wake-while-falling. A wake that was counted is never forgotten by a later write.
    if after.wake_count < before.wake_count:
        broken += (
            Broken(
                Breach.TAKEN_BACK,
                before.policy_id,
                f"policy {before.policy_id} forgot {before.wake_count - after.wake_count} wakes",
            ),
        )
    return broken
