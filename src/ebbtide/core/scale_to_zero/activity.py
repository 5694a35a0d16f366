"""What was seen of a policy's target, and what that says: active, quiet or not known; and what stands in the
way of going to zero although it is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite

from ebbtide.core.words import a_while
from ebbtide.model.idle import IdleState, Phase, Rate
from ebbtide.model.policy import Policy, SignalKind, ZeroDefaults
from ebbtide.model.snapshot import Reading
from ebbtide.model.workload import Workload, WorkloadRef

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
    gate: str = ""
    """Why its Services cannot be taken over; then it stays up, where it can be reached."""
    ready_nodes: int | None = None
    """Of the pool that is the target; none where it is no pool, or the nodes could not be seen."""


class ActivityVerdict(StrEnum):
    ACTIVE = "active"
    QUIET = "quiet"
    UNKNOWN = "unknown"


def listen(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> tuple[ActivityVerdict, str]:
    """What the signals say together, and the one that decides."""
    unknown = ""
    for signal in policy.signals:
        if signal.kind is SignalKind.REPORTED:
            if now - state.last_activity_at < max(1, defaults.check_interval_seconds):
                return ActivityVerdict.ACTIVE, "activity was reported"
            continue
        reading = look.readings.get(signal.query, NOT_READ)
        if reading.value is None or not isfinite(reading.value):
            unknown = (
                unknown or f"{signal.kind} is {'failing' if reading.failed else 'unknown'}: {reading.problem}"
            )
        elif reading.value > signal.threshold:
            return ActivityVerdict.ACTIVE, f"{signal.kind} is {reading.value:g}, above {signal.threshold:g}"
    return (
        (ActivityVerdict.UNKNOWN, unknown) if unknown else (ActivityVerdict.QUIET, "no signal shows activity")
    )


def not_watched(policy: Policy) -> str:
    """Why idleness is not watched; nothing where it is. What idleness put to sleep must then be woken, since
    nobody would notice that it is used."""
    if not policy.enabled:
        return "the policy is not enabled"
    if not policy.scale_to_zero:
        return "scale_to_zero is off"
    return "" if policy.signals else "it has no signals, so idleness is not watched"


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


def may_not_fall(state: IdleState, look: ActivityLook, now: int) -> str:
    """Why not, although it is idle; nothing where it may."""
    if state.paused:
        return "the policy is paused"
    if look.held:
        return look.held
    if state.keep_up_until > now:
        return f"it is to be kept up for another {a_while(state.keep_up_until - now)}"
    if look.missing:
        return f"there is no {look.missing[0]}"
    if scaler := next((each for each in look.workloads if each.autoscaler), None):
        return f"HorizontalPodAutoscaler {scaler.autoscaler} scales {scaler.ref}"
    return look.gate


def zero_by_hand(policy: Policy, look: ActivityLook) -> str:
    """Nobody here put it to zero, so it is left there until somebody scales it up or wakes it."""
    if not look.workloads or look.missing or any(each.replicas for each in look.workloads):
        return ""
    return f"somebody scaled {policy.target} to 0"
