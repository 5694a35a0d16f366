"""Whether a policy's target is idle, and what follows: stay, go to zero, come back.

    ACTIVE ──quiet──> IDLE ──threshold, then keep-alive──> FALLING ──> ZERO ──activity──> WAKING ──> ACTIVE

Any signal active is activity. Any signal that is not known is not idleness: the idle clock starts again, and
the time for which nothing was known is in no ledger. So is a silence of the loop itself. What a person or a
HorizontalPodAutoscaler does to the replicas is noticed and left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ebbtide.core.scale_to_zero.activity import (
    ActivityLook,
    ActivityVerdict,
    counts_from,
    idle_threshold,
    is_missing,
    is_unreadable,
    listen,
    may_not_fall,
    not_watched,
    zero_by_hand,
)
from ebbtide.core.scale_to_zero.savings import DAY_SECONDS, open_stretch
from ebbtide.core.scale_to_zero.wake import REDO_SECONDS, keep_alive
from ebbtide.core.words import a_while
from ebbtide.model.idle import (
    NO_WHY,
    IdleState,
    Phase,
    PolicyCause,
    PolicyWhy,
    Rate,
    Remembered,
    Stretch,
    WakeReason,
)
from ebbtide.model.policy import Policy, ZeroDefaults

REALISED_SECONDS = 900
"""What is really not paid changes with every node that comes or goes; it is taken in this often at most."""
ACTIVITY_SAVED_SECONDS = 900
"""How old the last activity of a busy target may be in the store."""


STAMPS = (
    "last_activity_at",
    "idle_since",
    "scaled_to_zero_at",
    "last_wake_at",
    "last_scaled_at",
    "checked_at",
    "stretch_since",
)


class NextStep(StrEnum):
    NOTHING = "nothing"
    FALL = "fall"
    """Scale to zero: the state says FALLING and must be written first."""
    FINISH = "finish"
    """It is at zero: the state says ZERO."""
    WAKE = "wake"
    """Wake it (again); the state does not record it yet."""
    READY = "ready"
    """A wake is over; the state does not record it yet."""


@dataclass(frozen=True, slots=True)
class IdleStep:
    state: IdleState
    wanted: NextStep = NextStep.NOTHING
    stretches: tuple[Stretch, ...] = ()
    why: PolicyWhy = NO_WHY
    """Worth telling: a change of phase, or of why there is none."""
    reason: WakeReason = WakeReason.API_REQUEST
    """Of the wake that is wanted."""


def evaluate(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> IdleStep:
    state = not_from_the_future(state, now)
    match state.phase:
        case Phase.ACTIVE | Phase.IDLE:
            return _awake(policy, state, look, defaults, now)
        case Phase.FALLING:
            return _falling(policy, state, look, defaults, now)
        case Phase.ZERO:
            return _asleep(policy, state, look, defaults, now)
        case _:
            return _waking(policy, state, look, now)


def not_from_the_future(state: IdleState, now: int) -> IdleState:
    """A clock that went back must not stop everything until it has caught up."""
    latest = max(
        state.last_activity_at,
        state.idle_since or 0,
        state.scaled_to_zero_at or 0,
        state.last_wake_at or 0,
        state.last_scaled_at,
        state.checked_at,
        state.stretch_since,
    )
    # Crash table: future-stamps. A clock that was ahead must not keep the target awake for hours.
    if latest <= now:
        return state
    late: dict[str, Any] = {name: now for name in STAMPS if (getattr(state, name) or 0) > now}
    return replace(state, **late)


def _awake(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> IdleStep:
    if not_watched(policy):
        return stay_up(policy, state, NO_WHY, now, now)
    verdict, why = listen(policy, state, look, defaults, now)
    if verdict is ActivityVerdict.ACTIVE:
        return stay_up(policy, replace(state, last_activity_at=_activity(state, now)), NO_WHY, now, now)
    if verdict is ActivityVerdict.UNKNOWN:
        return stay_up(policy, state, why, now, min(state.checked_at, now))
    # Without the workloads nobody knows what would be restored later.
    if unreadable := is_unreadable(look):
        return stay_up(policy, state, unreadable, now, min(state.checked_at, now))
    # A deleted workload has no replicas to remember, and must not be counted as savings.
    if missing := is_missing(look):
        return stay_up(policy, state, missing, now, now)
    if by_hand := zero_by_hand(policy, look):
        return stay_up(policy, state, by_hand, now, now)
    newest = counts_from(policy, state, look)
    if newest > (now if state.phase is Phase.ACTIVE else state.idle_since or now):
        return stay_up(policy, state, NO_WHY, now, min(newest, now))
    if state.phase is Phase.ACTIVE:
        started = replace(
            state,
            phase=Phase.IDLE,
            idle_since=now,
            checked_at=now,
            stretch_since=now,
            rate=look.rate,
        )
        return IdleStep(noted(started, NO_WHY))
    return _idle(policy, state, look, defaults, now)


def _idle(policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int) -> IdleStep:
    since = state.idle_since or now
    # Between the two looks it may have been in use.
    if now - state.checked_at > look.gap_seconds:
        ended = open_stretch(policy, state, state.checked_at)
        restarted = replace(state, idle_since=now, checked_at=now, stretch_since=now, rate=look.rate)
        silence = now - state.checked_at
        says = f"nobody looked for {a_while(silence)}: that does not count as idle"
        why = PolicyWhy(PolicyCause.NOT_LOOKED, says, found=silence, limit=look.gap_seconds)
        return IdleStep(restarted, stretches=_some(ended), why=why)
    state, stretches = _roll(policy, state, look.rate, now)
    if _a_day_without_wake(state, now):
        state = replace(state, extra_keep_alive_seconds=0)
    threshold, quiet = (
        idle_threshold(policy, defaults),
        keep_alive(policy, defaults) + state.extra_keep_alive_seconds,
    )
    graced = counts_from(policy, state, look) + policy.grace_seconds
    # A deployment or a wake may take a while before its first use.
    if now - since < threshold + quiet or now < graced:
        return _keep(state, look, now, stretches)
    if why := may_not_fall(state, look, now):
        known = why.brief == state.why_left_alone
        told = replace(why, says=f"idle for {a_while(now - since)} but kept up: {why.says}")
        return _keep(noted(state, why), look, now, stretches, NO_WHY if known else told)
    says = f"idle for {a_while(threshold)} and quiet for {a_while(quiet)} more: scaling to zero"
    idle = PolicyWhy(PolicyCause.IDLE, says, found=now - since, limit=threshold + quiet)
    return IdleStep(fall(state, look, now), NextStep.FALL, stretches, idle)


def fall(state: IdleState, look: ActivityLook, now: int) -> IdleState:
    """The state to write before anything is scaled to zero. `idle_since` tells an idle target, which new
    activity brings back, from one that a schedule put to sleep."""
    known = {one.ref: one.replicas for one in state.remembered}
    remembered = tuple(
        Remembered(each.ref, each.replicas or known.get(each.ref, 0)) for each in look.workloads
    )
    awake = state.phase is Phase.ACTIVE
    falling = replace(
        state,
        phase=Phase.FALLING,
        remembered=remembered,
        node_first=None,
        checked_at=now,
        rate=look.rate if awake else state.rate,
        stretch_since=now if awake else state.stretch_since,
    )
    return noted(falling, NO_WHY)


def at_zero(policy: Policy, state: IdleState, now: int) -> IdleStep:
    """The step that commits to ZERO once everything is scaled."""
    ended = open_stretch(policy, state, now)
    zero = replace(
        state, phase=Phase.ZERO, scaled_to_zero_at=now, last_scaled_at=now, checked_at=now, stretch_since=now
    )
    why = PolicyWhy(PolicyCause.AT_ZERO, f"{policy.target} is at zero")
    return IdleStep(zero, NextStep.FINISH, _some(ended), why)


def _falling(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> IdleStep:
    if look.problem:
        return IdleStep(state)
    why = may_not_fall(state, look, now) or _no_reason_to_sleep(policy, state)
    if not why and not _by_schedule(policy, state):
        verdict, said = listen(policy, state, look, defaults, now)
        why = NO_WHY if verdict is ActivityVerdict.QUIET else said
    if why:
        given_up = replace(why, says=f"scaling to zero was cancelled: {why.says}")
        return IdleStep(state, NextStep.WAKE, why=given_up)
    # The runner may have died half-way, or a controller may have brought some back.
    if any(each.replicas for each in look.workloads):
        continues = PolicyWhy(PolicyCause.CONTINUES, "scaling to zero continues")
        return IdleStep(fall(state, look, now), NextStep.FALL, why=continues)
    return at_zero(policy, state, now)


def _asleep(
    policy: Policy, state: IdleState, look: ActivityLook, defaults: ZeroDefaults, now: int
) -> IdleStep:
    if look.problem:
        return IdleStep(state)
    if not look.workloads and (missing := is_missing(look)):
        return stay_up(policy, state, missing, now, now)
    # A person who scales it up by hand wants it awake: it is not put to sleep again at once.
    if up := next((each for each in look.workloads if each.replicas), None):
        ended = open_stretch(policy, state, now, wakes=1)
        awake = replace(
            state,
            phase=Phase.ACTIVE,
            last_activity_at=now,
            idle_since=None,
            scaled_to_zero_at=None,
            last_wake_at=now,
            wake_reason=WakeReason.MANUAL,
            wake_count=state.wake_count + 1,
            remembered=tuple(one for one in state.remembered if one.ref != up.ref),
            checked_at=now,
            stretch_since=now,
        )
        says = f"somebody scaled {up.ref} to {up.replicas}: it is awake"
        by_hand = PolicyWhy(PolicyCause.UP_BY_HAND, says, str(up.ref), up.replicas)
        return IdleStep(awake, stretches=_some(ended), why=by_hand)
    if not policy.enabled:
        return IdleStep(state)
    # Nothing would ever wake it again.
    if why := _no_reason_to_sleep(policy, state):
        why = replace(why, says=f"{why.says}: waking")
        return IdleStep(state, NextStep.WAKE, why=why, reason=WakeReason.MANUAL)
    if state.keep_up_until > now:
        kept = PolicyWhy(PolicyCause.KEPT_UP, "it must stay up: waking")
        return IdleStep(state, NextStep.WAKE, why=kept, reason=WakeReason.MANUAL)
    if not _by_schedule(policy, state):
        verdict, why = listen(policy, state, look, defaults, now)
        if verdict is ActivityVerdict.ACTIVE:
            why = replace(why, says=f"activity while at zero: {why.says}")
            return IdleStep(state, NextStep.WAKE, why=why)
    state, stretches = _roll(policy, state, look.rate, now)
    return IdleStep(state, stretches=stretches)


def _no_reason_to_sleep(policy: Policy, state: IdleState) -> PolicyWhy:
    """Why a target that sleeps should not: the policy no longer says what put it to sleep. Nothing else would
    wake it, since idleness is no longer watched, or no schedule is left."""
    return NO_WHY if policy.enabled and _by_schedule(policy, state) else not_watched(policy)


def _by_schedule(policy: Policy, state: IdleState) -> bool:
    """A schedule put it to sleep, and still says so: no signal wakes it."""
    return state.idle_since is None and any(schedule.sleeps for schedule in policy.schedules)


def _waking(policy: Policy, state: IdleState, look: ActivityLook, now: int) -> IdleStep:
    if look.problem:
        return IdleStep(state)
    if state.last_scaled_at == 0:
        # The calls of its runner may still be on their way.
        if now - (state.last_wake_at or 0) < REDO_SECONDS:
            return IdleStep(state)
        reason = state.wake_reason or WakeReason.MANUAL
        again = PolicyWhy(PolicyCause.UNANSWERED, "a wake that did not finish is repeated")
        return IdleStep(state, NextStep.WAKE, why=again, reason=reason)
    there = [each for each in look.workloads if each.replicas]
    if by_hand := zero_by_hand(policy, look):
        return stay_up(policy, state, by_hand, now, now)
    # A pool has no workloads to be ready: without a node of it nothing is awake.
    nodes = not policy.target.pool or bool(look.ready_nodes)
    if nodes and all(each.ready for each in there):
        return IdleStep(state, NextStep.READY)
    state, stretches = _roll(policy, state, state.rate, now)
    return IdleStep(state, stretches=stretches)


def stay_up(policy: Policy, state: IdleState, why: PolicyWhy, now: int, until: int) -> IdleStep:
    """ACTIVE from now on; the stretch before it ended at `until`, the last moment that is known of."""
    if state.phase is Phase.ACTIVE:
        return IdleStep(noted(state, why))
    ended = open_stretch(policy, state, until)
    active = replace(state, phase=Phase.ACTIVE, idle_since=None, checked_at=now, stretch_since=now)
    known = why.brief == state.why_left_alone
    return IdleStep(noted(active, why), stretches=_some(ended), why=NO_WHY if known else why)


def noted(state: IdleState, why: PolicyWhy) -> IdleState:
    """The state with why its target is left alone."""
    return replace(state, left_alone=why.says, left_alone_cause=why.cause)


def _activity(state: IdleState, now: int) -> int:
    """Activity that continues is not worth a write each time."""
    fresh = state.phase is Phase.ACTIVE and now - state.last_activity_at < ACTIVITY_SAVED_SECONDS
    return state.last_activity_at if fresh else now


def _a_day_without_wake(state: IdleState, now: int) -> bool:
    newest = state.wakes[-1].at if state.wakes else 0
    return state.extra_keep_alive_seconds > 0 and now - newest >= DAY_SECONDS


def _keep(
    state: IdleState, look: ActivityLook, now: int, stretches: tuple[Stretch, ...], why: PolicyWhy = NO_WHY
) -> IdleStep:
    """Still idle. That it was looked at is written often enough that no silence is mistaken for a look,
    and no more often."""
    if stretches or why or 2 * (now - state.checked_at) >= look.gap_seconds:
        state = replace(state, checked_at=now)
    return IdleStep(state, stretches=stretches, why=why)


def _roll(
    policy: Policy, state: IdleState, rate: Rate | None, now: int
) -> tuple[IdleState, tuple[Stretch, ...]]:
    """Close the current stretch where its price changed or a day is over; it continues as another."""
    length = now - state.stretch_since
    if length < DAY_SECONDS and not _repriced(state.rate, rate, length):
        return state, ()
    ended = open_stretch(policy, state, now)
    return replace(state, rate=rate, stretch_since=now), _some(ended)


def _repriced(before: Rate | None, after: Rate | None, seconds: int) -> bool:
    if before == after:
        return False
    if before is None or after is None:
        return True
    same = replace(after, realised_per_hour=before.realised_per_hour) == before
    return not same or seconds >= REALISED_SECONDS


def _some(stretch: Stretch | None) -> tuple[Stretch, ...]:
    return () if stretch is None else (stretch,)
