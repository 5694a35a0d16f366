"""What was seen of a policy's target, and what that says: active, quiet or not known; and what stands in the
way of going to zero although it is quiet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from ebbtide.core.words import time_of_day
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyCause, PolicyWhy, Rate
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import Policy, Signal, SignalKind, ZeroDefaults
from ebbtide.model.snapshot import Reading

NOT_READ = Reading(problem="it was not read")


@dataclass(frozen=True, slots=True)
class ActivityLook:
    """What was seen for one policy in one round."""

    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By PromQL query."""
    workloads: tuple[Workload, ...] = ()
    missing: tuple[WorkloadRef, ...] = ()
    problem: str = ""
    """Why the workloads could not be read; then nothing is known about them."""
    rate: Rate | None = None
    held: str = ""
    """Why nothing at all goes to zero now: the pause switch."""
    gap_seconds: int = 300
    """A longer silence is not idle time."""
    gate: PolicyWhy = NO_WHY
    """Why its Services cannot be taken over; then it stays up, where it can be reached."""
    ready_nodes: int | None = None
    """Of the pool that is the target; none if it is not a pool, or the nodes could not be seen."""


class ActivityVerdict(StrEnum):
    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"


def listen(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> tuple[ActivityVerdict, PolicyWhy]:
    """What the signals say together, and the one that decides."""
    unknown: PolicyWhy | None = None
    for signal in policy.signals:
        if signal.kind is SignalKind.REPORTED:
            if now - state.last_activity_at < max(1, defaults.check_interval_seconds):
                return ActivityVerdict.ACTIVE, PolicyWhy(PolicyCause.REPORTED, "activity was reported")
            continue
        reading = look.readings.get(signal.query, NOT_READ)
        if reading.value is None or not isfinite(reading.value):
            unknown = unknown or _not_known(signal, reading)
        elif reading.value > signal.threshold:
            return ActivityVerdict.ACTIVE, _above(signal, reading.value)
    if unknown is not None:
        return ActivityVerdict.UNKNOWN, unknown
    return ActivityVerdict.QUIET, PolicyWhy(PolicyCause.QUIET, "no signal shows activity")


def _not_known(signal: Signal, reading: Reading) -> PolicyWhy:
    cause = PolicyCause.SIGNAL_FAILING if reading.failed else PolicyCause.SIGNAL_UNKNOWN
    says = f"{signal.kind} is {'failing' if reading.failed else 'unknown'}: {reading.problem}"
    return PolicyWhy(cause, says, signal.kind)


def _above(signal: Signal, value: float) -> PolicyWhy:
    says = f"{signal.kind} is {value:g}, above {signal.threshold:g}"
    return PolicyWhy(PolicyCause.ACTIVITY, says, signal.kind, value, signal.threshold)


def not_watched(policy: Policy) -> PolicyWhy:
    """Why idleness is not watched; nothing where it is. What idleness put to sleep must then be woken, since
    nobody would notice that it is used."""
    if not policy.enabled:
        return PolicyWhy(PolicyCause.DISABLED, "the policy is not enabled")
    if not policy.scale_to_zero:
        return PolicyWhy(PolicyCause.ZERO_OFF, "scale_to_zero is off")
    if not policy.signals:
        return PolicyWhy(PolicyCause.NO_SIGNALS, "it has no signals, so idleness is not watched")
    return NO_WHY


def needs_workloads(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> bool:
    """Whether the next step depends on what the cluster shows; a busy target is not asked about."""
    if not policy.target.workloads:
        return False
    if state.phase is not Phase.ACTIVE:
        return True
    return not not_watched(policy) and listen(policy, state, look, defaults, now)[0] is ActivityVerdict.QUIET


def idle_threshold(policy: Policy, defaults: ZeroDefaults) -> int:
    own = policy.idle_threshold_seconds
    return defaults.idle_threshold_seconds if own is None else own


def counts_from(policy: Policy, state: IdleState, look: ActivityLook) -> int:
    """The latest creation, deployment or wake: idleness counts from then at the earliest."""
    started = [policy.created_at, state.last_wake_at or 0]
    for each in look.workloads:
        started += (each.created_at, each.deployed_at)
    return max(started)


def may_not_fall(state: IdleState, look: ActivityLook, now: int) -> PolicyWhy:
    """Why not, although it is idle; nothing where it may."""
    if state.paused:
        return PolicyWhy(PolicyCause.PAUSED, "the policy is paused")
    if look.held:
        return PolicyWhy(PolicyCause.REMOVALS_PAUSED, look.held)
    if state.keep_up_until > now:
        says = f"it is kept up until {time_of_day(state.keep_up_until)}"
        return PolicyWhy(PolicyCause.KEPT_UP, says, found=now, limit=state.keep_up_until)
    return is_missing(look) or scaled_by_another(look.workloads) or look.gate


def is_missing(look: ActivityLook) -> PolicyWhy:
    for ref in look.missing:
        return PolicyWhy(PolicyCause.MISSING, f"there is no {ref}", str(ref))
    return NO_WHY


def scaled_by_another(workloads: Iterable[Workload]) -> PolicyWhy:
    for each in workloads:
        if each.autoscaler:
            says = f"HorizontalPodAutoscaler {each.autoscaler} scales {each.ref}"
            return PolicyWhy(PolicyCause.AUTOSCALER, says, each.autoscaler)
    return NO_WHY


def is_unreadable(look: ActivityLook) -> PolicyWhy:
    return PolicyWhy(PolicyCause.UNREADABLE, look.problem) if look.problem else NO_WHY


def zero_by_hand(policy: Policy, look: ActivityLook) -> PolicyWhy:
    """Nobody here put it to zero, so it is left there until somebody scales it up or wakes it."""
    if not look.workloads or look.missing or any(each.replicas for each in look.workloads):
        return NO_WHY
    return PolicyWhy(PolicyCause.DOWN_BY_HAND, f"somebody scaled {policy.target} to 0")
