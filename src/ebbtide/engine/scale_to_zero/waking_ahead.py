"""Wakes what sleeps ahead of expected use, once each quarter of an hour, after a round.

It is a wake like any other: written first, then carried out, and joined by anyone who comes meanwhile. Only
what idleness put to sleep is woken, never what a schedule keeps asleep. If nobody comes, it sleeps again.
All of it comes from the stretches in the log, so another runner comes to the same answer.
"""

from __future__ import annotations

from ebbtide.core.scale_to_zero.activity import idle_threshold, not_watched
from ebbtide.core.scale_to_zero.eta import KEPT_WEEKS, WEEK, used_steps, why_wake
from ebbtide.core.scale_to_zero.wake import keep_alive
from ebbtide.engine.scale_to_zero.context import PolicyContext
from ebbtide.engine.scale_to_zero.waking import Waking
from ebbtide.errors import EbbtideError
from ebbtide.model.events import StretchClosed
from ebbtide.model.idle import IdleState, Phase, Stretch, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy
from ebbtide.model.settings import STEP_SECONDS
from ebbtide.narrate import facts_in

PAGE = 500


class WakingAhead:
    def __init__(self, context: PolicyContext, waking: Waking) -> None:
        self._context = context
        self._waking = waking
        self._step = -1

    def run(self) -> list[str]:
        """What was woken and why, or what could not be asked."""
        step = self._context.now // STEP_SECONDS
        if not self._context.ports.looks_ahead or step == self._step:
            return []
        self._step = step
        try:
            states = [state for state in self._context.ports.policies.list_states() if _may_wake(state)]
            return [says for state in states if (says := self._wake(state))]
        except EbbtideError as error:
            return [f"nothing was woken ahead of use: {error}"]

    def _wake(self, state: IdleState) -> str:
        policy = self._context.ports.policies.find_policy(state.policy_id)
        if policy is None or not_watched(policy):
            return ""
        defaults = self._context.defaults
        hold = (
            idle_threshold(policy, defaults) + keep_alive(policy, defaults) + state.extra_keep_alive_seconds
        )
        why = why_wake(used_steps(self._stretches(policy, state), self._context.now), hold, self._context.now)
        if not why:
            return ""
        self._waking.wake(policy.id, WakeReason.SCHEDULED, why)
        return f"{policy.name}: woken {why.says}"

    def _stretches(self, policy: Policy, state: IdleState) -> list[Stretch]:
        """Those of the last weeks, and the sleep in progress."""
        oldest = self._context.now - KEPT_WEEKS * WEEK * STEP_SECONDS
        found, before = list[Stretch](), ""
        while True:
            page = self._context.ports.store.read_log([LogKind.STRETCH], policy.id, PAGE, before)
            found += [fact.stretch for fact in facts_in(page, StretchClosed)]
            if len(page) < PAGE or page[-1].at < oldest:
                break
            before = page[-1].id
        return [*found, Stretch(policy.id, policy.zone, state.phase, state.stretch_since, self._context.now)]


def _may_wake(state: IdleState) -> bool:
    return state.phase is Phase.ZERO and state.idle_since is not None and not state.paused
