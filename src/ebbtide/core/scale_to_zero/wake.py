"""Waking: how a wake changes a policy's state, what it restores, and when it is over; and takeovers of
Services.

A wake always wins. It is written first, with a higher `wake_count`, and only then carried out, so
a runner that was about to scale to zero finds its write refused. `last_scaled_at` is 0 from the moment a wake
is written until its calls have been answered: while it is 0, a runner must still make them.

A Service is pointed at the gates before its workloads go to zero, and back at its pods after they are ready.
So at any moment it has pods, or gates that wake.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from ebbtide.core.scale_to_zero.rules import most_allowed, price_each, with_base, within_cap
from ebbtide.core.scale_to_zero.savings import open_stretch
from ebbtide.core.words import a_measured_while, a_while
from ebbtide.model.idle import (
    NO_WHY,
    IdleState,
    Phase,
    PolicyCause,
    PolicyWhy,
    Remembered,
    Stretch,
    WakeReason,
    WakeTime,
)
from ebbtide.model.pod import Workload
from ebbtide.model.policy import GatePort, Policy, Service, ServiceRef, Takeover, ZeroDefaults

KEPT_WAKES = 20
DAY_SECONDS = 86_400
LEAST_EXTRA_SECONDS = 60
REDO_SECONDS = 10
"""A wake whose calls were not answered for so long is carried out again by the runner that finds it."""


@dataclass(frozen=True, slots=True)
class WakeStep:
    state: IdleState
    acts: bool = False
    """Whether this caller, once the state is written, must scale."""
    joined: bool = False
    """Another wake is in progress: nothing is written, its answer is ours."""
    stretches: tuple[Stretch, ...] = ()


def wake(
    policy: Policy,
    state: IdleState,
    reason: WakeReason,
    now: int,
    there: Sequence[Workload] = (),
    ordered: int | None = None,
) -> WakeStep:
    """`there` is what was observed of a target that counts as awake: a member of it at zero is brought up,
    whatever put it there. A group that was half awake could otherwise never be woken. `ordered` is the number
    of a schedule, instead of what was there before."""
    # Crash table: wake-while-falling. A second caller joins the wake instead of starting another.
    if state.phase is Phase.WAKING:
        stale = state.last_scaled_at == 0 and now - (state.last_wake_at or 0) >= REDO_SECONDS
        return WakeStep(state, acts=stale, joined=True)
    asleep = state.phase in (Phase.FALLING, Phase.ZERO) or any(not each.replicas for each in there)
    ended = open_stretch(policy, state, now, wakes=1 if asleep else 0)
    woken = replace(
        with_base(policy, state, sum(one.replicas for one in state.remembered)),
        phase=Phase.WAKING if asleep else Phase.ACTIVE,
        last_activity_at=max(state.last_activity_at, now),
        idle_since=None,
        last_wake_at=now,
        wake_reason=reason,
        wake_count=state.wake_count + 1,
        last_scaled_at=0 if asleep else state.last_scaled_at,
        checked_at=now,
        stretch_since=now,
        remembered=_restored(policy, state, there, ordered) if asleep else (),
        left_alone="",
        left_alone_cause=PolicyCause.NONE,
    )
    return WakeStep(woken, acts=asleep, stretches=(ended,) if ended else ())


def _restored(
    policy: Policy, state: IdleState, there: Sequence[Workload], ordered: int | None
) -> tuple[Remembered, ...]:
    """What each workload is brought back to: what it had, or the number of a schedule, as far as
    `max_hourly_cost` allows. What is up keeps what it has."""
    known = {one.ref: one.replicas for one in state.remembered}
    base = sum(known.values())
    price = price_each(policy, state, base, state.rate)
    known |= {each.ref: each.replicas for each in there if each.replicas}
    if ordered is not None:
        number = most_allowed(policy, price, base, target_of(policy, min(ordered, policy.max_replicas)))
        known = dict.fromkeys(policy.target.workloads, number)
    wanted = [Remembered(ref, target_of(policy, known.get(ref))) for ref in policy.target.workloads]
    return within_cap(policy, price, wanted)


def targets(policy: Policy, state: IdleState) -> tuple[Remembered, ...]:
    """What each workload is to be brought to by the wake that was written: every one."""
    known = {one.ref: one.replicas for one in state.remembered}
    return tuple(Remembered(ref, target_of(policy, known.get(ref))) for ref in policy.target.workloads)


def target_of(policy: Policy, remembered: int | None) -> int:
    """What it had, and at least max(1, `min_replicas`). Where somebody went beyond `max_replicas`, a wake
    takes nothing away (row 39): the limit is for what rules and schedules add."""
    return max(1, policy.min_replicas, remembered or 0)


def scaled(state: IdleState, now: int) -> IdleState:
    """The calls of this wake have been answered."""
    return replace(state, last_scaled_at=max(now, 1))


@dataclass(frozen=True, slots=True)
class Ready:
    state: IdleState
    stretches: tuple[Stretch, ...]
    why: PolicyWhy


def ready(policy: Policy, state: IdleState, at: float, node_seconds: float, defaults: ZeroDefaults) -> Ready:
    """The wake is over: what it took is learned, and the flap guard weighs it against the sleep."""
    since = state.last_wake_at or 0
    took = max(0.0, at - since)
    slept = float(max(0, since - state.scaled_to_zero_at)) if state.scaled_to_zero_at else 0.0
    reason = state.wake_reason or WakeReason.MANUAL
    timed = WakeTime(since, round(took, 3), round(min(max(node_seconds, 0.0), took), 3), reason, slept)
    wakes = (*state.wakes, timed)[-KEPT_WAKES:]
    extra, why = guard(policy, replace(state, wakes=wakes), defaults, int(at))
    ended = open_stretch(policy, state, int(at))
    awake = replace(
        state,
        phase=Phase.ACTIVE,
        wakes=wakes,
        scaled_to_zero_at=None,
        remembered=(),
        node_first=None,
        extra_keep_alive_seconds=extra,
        last_activity_at=max(state.last_activity_at, int(at)),
        checked_at=int(at),
        stretch_since=int(at),
        left_alone="",
        left_alone_cause=PolicyCause.NONE,
    )
    says = f"ready after {a_measured_while(took)}" + (
        f", including {a_measured_while(timed.node_seconds)} for a node" * (timed.node_seconds > 0)
    )
    told = PolicyWhy(PolicyCause.READY, f"{says}; {why.says}" if why else says, found=timed.seconds)
    return Ready(awake, (ended,) if ended else (), told)


def guard(policy: Policy, state: IdleState, defaults: ZeroDefaults, now: int) -> tuple[int, PolicyWhy]:
    """The flap guard: seconds to add to the keep-alive window, and why, where they change.

    The time that the wakes of the last day took is paid for and of no use; the time at zero before them
    was saved, at the same price. Where the first is not less than the second, the window doubles; where
    it is, what was added halves; after a day without a wake nothing is added.
    """
    base = keep_alive(policy, defaults)
    before = state.extra_keep_alive_seconds
    recent = [one for one in state.wakes if one.at > now - DAY_SECONDS]
    if not recent:
        says = "no wake for a day: the keep-alive window is as configured again"
        return 0, PolicyWhy(PolicyCause.WINDOW_RESET, says) if before else NO_WHY
    cost = sum(one.seconds for one in recent)
    saved = sum(one.slept_seconds for one in recent)
    # Waking so often costs at least what sleeping saves.
    if cost >= saved:
        most = max(defaults.max_keep_alive_seconds, base)
        extra = min(max(2 * (base + before), LEAST_EXTRA_SECONDS), most) - base
        if extra > before:
            says = f"waking cost {a_while(round(cost))} in a day and sleeping saved {a_while(round(saved))}: "
            says += f"the keep-alive window grows to {a_while(base + extra)}"
            return extra, PolicyWhy(PolicyCause.WINDOW_GROWS, says, found=cost, limit=saved)
        return before, NO_WHY
    extra = before // 2 if before >= 2 * LEAST_EXTRA_SECONDS else 0
    if not before:
        return extra, NO_WHY
    says = f"sleeping pays again: the keep-alive window shrinks to {a_while(base + extra)}"
    return extra, PolicyWhy(PolicyCause.WINDOW_SHRINKS, says, found=cost, limit=saved)


def keep_alive(policy: Policy, defaults: ZeroDefaults) -> int:
    own = policy.keep_alive_window_seconds
    return defaults.keep_alive_window_seconds if own is None else own


def cold_start_timeout(policy: Policy, defaults: ZeroDefaults) -> int:
    own = policy.cold_start_timeout_seconds
    return defaults.cold_start_timeout_seconds if own is None else own


ASLEEP = (Phase.FALLING, Phase.ZERO)


def may_not_take_over(service: Service, gates: Collection[str]) -> PolicyWhy:
    """Why not; nothing where it may be."""
    ref = service.ref
    if service.external:
        says = f"{ref} is an ExternalName: it has no endpoints that a gate could stand in for"
        return PolicyWhy(PolicyCause.EXTERNAL_SERVICE, says, str(ref))
    if service.headless:
        says = f"{ref} is headless: its clients ask DNS for pods and connect to them directly"
        return PolicyWhy(PolicyCause.HEADLESS_SERVICE, says, str(ref))
    if not service.selects:
        says = f"{ref} has no selector: its endpoints are written by hand"
        return PolicyWhy(PolicyCause.NO_SELECTOR, says, str(ref))
    if not service.ports:
        return PolicyWhy(PolicyCause.NO_PORT, f"{ref} has no TCP port", str(ref))
    if not gates:
        return PolicyWhy(PolicyCause.NO_GATE, f"no gate is ready to stand in for {ref}", str(ref))
    return NO_WHY


def may_not_release(service: Service, state: IdleState) -> PolicyWhy:
    """Why not; nothing where it may be. `state` must have been read after the takeover was seen: who falls
    asleep later writes the takeover again, and the release of the version that was seen is refused."""
    if state.phase in ASLEEP:
        return PolicyWhy(PolicyCause.ASLEEP, f"its policy is {state.phase}", state.phase)
    if state.phase is Phase.WAKING and not state.last_scaled_at:
        # A call to zero may still be on its way: the calls of the wake refuse it, and are not answered yet.
        return PolicyWhy(PolicyCause.WAKING, "the calls of its wake are not answered yet")
    if not service.ready:
        return PolicyWhy(
            PolicyCause.NO_POD_READY, f"{service.ref} has no pod that is ready", str(service.ref)
        )
    return NO_WHY


def is_as_wanted(takeover: Takeover | None, ports: Sequence[GatePort], gates: Sequence[str]) -> bool:
    """Gates that are all gone are left as they are: an empty list would help nobody."""
    if takeover is None:
        return False
    return set(takeover.ports) == set(ports) and (not gates or tuple(gates) == takeover.gates)


def first_choice(service: ServiceRef, port_name: str, ports: int) -> int:
    """Which of so many gate ports is tried first: the same each time."""
    return crc32(f"{service.namespace}/{service.name}/{port_name}".encode()) % ports
