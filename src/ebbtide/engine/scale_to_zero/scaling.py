"""Scale to zero and back: everything that the API, the command line and the loop do with active policies;
and the idle loop of a daemon: a round at a regular interval, next to the ticks, until it is stopped.

`PolicyStore` writes policies; this module acts on their targets. Safe to use from
many threads, and from many processes over one store. The loop is one of its own, since a slow metric must
not delay a node, nor a slow cloud a wake.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ebbtide.core.scale_to_zero.eta import LearnedEta
from ebbtide.core.scale_to_zero.idle import stay_up
from ebbtide.core.scale_to_zero.machine import TargetStep
from ebbtide.core.scale_to_zero.savings import SavingsReport
from ebbtide.core.words import a_while
from ebbtide.engine.scale_to_zero.context import PolicyContext, ScalingPorts
from ebbtide.engine.scale_to_zero.gating import GateEntry, Gating
from ebbtide.engine.scale_to_zero.ledger import Ledger, Rebuilt, Summary
from ebbtide.engine.scale_to_zero.round import IdleRounds, RoundReport, with_sentences
from ebbtide.engine.scale_to_zero.waking import Estimating, Waking, Woken
from ebbtide.engine.scale_to_zero.waking_ahead import WakingAhead
from ebbtide.errors import EbbtideError, Usage
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.idle import NO_WHY, IdleState, Once, Phase, PolicyCause, PolicyWhy, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of
from ebbtide.redact import redact

__all__ = ["RoundReport", "Scaling", "ScalingPorts", "Summary", "Woken"]

ASLEEP = (Phase.FALLING, Phase.ZERO)
NOT_UP = (*ASLEEP, Phase.WAKING)
SKEW_SECONDS = 5
"""How far ahead of ours the clock of somebody who reports activity may be."""
REPORTED_SECONDS = 10
"""Activity that continues is written this often at most."""
YEAR_SECONDS = 31_536_000
NO_TIME_LEFT = 0.001
"""Of a wake that takes longer than expected: it is not over, and no new promise is made."""
JITTER = 0.1
LEAST_BUDGET_SECONDS = 30.0

OnRound = Callable[[RoundReport], None]


class Scaling:
    def __init__(self, ports: ScalingPorts, defaults: ZeroDefaults, settings: Settings) -> None:
        self.ports = ports
        self.defaults = defaults
        self._context = PolicyContext(ports, defaults, settings)
        self._estimating = Estimating(self._context)
        self._gating = Gating(self._context)
        self._waking = Waking(self._context, self._gating, self._estimating)
        self._rounds = IdleRounds(self._context, self._waking, self._gating)
        self._ahead = WakingAhead(self._context, self._waking)
        self._ledger = Ledger(self._context)

    def wake(self, policy_id: str, reason: WakeReason) -> Woken:
        """Written, then scaled; it does not wait. `NotFound` where there is no such policy. Where the cluster
        does not answer, the wake is recorded, and its message says so."""
        return self._waking.wake(policy_id, reason)

    def wake_once(self, policy_id: str, reason: WakeReason, once: Once) -> Woken:
        """As `wake`; `KeyUsed` where this key has woken it before. The key is used up in the write of the
        wake, so a wake that could not be written leaves it unused."""
        return self._waking.wake_once(policy_id, reason, once)

    def wait_ready(self, policy_id: str, wake_id: str, until: float) -> Woken:
        """Returns the moment the target is ready, or at `until` with `ready` false and the wake going on."""
        return self._waking.wait_ready(policy_id, wake_id, until)

    def wake_all(self, policy_ids: Sequence[str] | None, reason: WakeReason) -> Sequence[Woken]:
        """Exactly those named, or all that are at zero where none is. One that is not there: `NotFound`, and
        none is woken."""
        if policy_ids is None:
            states = self.ports.policies.list_states()
            wanted = sorted(state.policy_id for state in states if state.phase in ASLEEP)
        else:
            wanted = list(dict.fromkeys(policy_ids))
            for policy_id in wanted:
                self._context.find(policy_id)
        threads = min(self.ports.threads, len(wanted))
        if threads <= 1:
            return [self.wake(policy_id, reason) for policy_id in wanted]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda policy_id: self.wake(policy_id, reason), wanted))

    def report_activity(self, policy_id: str, at: int | None = None, count: int = 1) -> IdleState:
        """Somebody used the target: it is not idle, and where it is asleep, it is woken."""
        now = self._context.now
        if at is not None and at > now + SKEW_SECONDS:
            raise Usage(
                f"the activity is {a_while(at - now)} in the future; nothing was changed. "
                "Report it when it happened, or correct the clock of the caller."
            )
        if count < 0:
            raise Usage(f"{count} requests cannot have happened; nothing was changed. Give 0 or more.")
        moment = now if at is None else min(at, now)

        def used(policy: Policy, state: IdleState) -> TargetStep | None:
            recent = moment - state.last_activity_at < (REPORTED_SECONDS if _busy(state) else 1)
            wakes = state.phase in ASLEEP and moment >= _asleep_since(state)
            return None if not count or wakes or recent else _used(policy, state, moment, now)

        state = self._context.change(policy_id, used)
        if count and state.phase in ASLEEP and moment >= _asleep_since(state):
            self.wake(policy_id, WakeReason.API_REQUEST)
            return self._context.find(policy_id)[1]
        return state

    def arrive(self, policy_id: str) -> float:
        """A connection for it came to a gate: what sleeps, or is about to, is woken; what is up is in use. A
        wake whose calls were not answered is carried out again. Seconds until it is ready, 0 where it is up,
        and next to nothing where it takes longer than expected."""
        woken = self.arrival(policy_id)
        if woken is None:
            return 0
        return NO_TIME_LEFT if woken.late else woken.estimated_ready_seconds

    def arrival(self, policy_id: str) -> Woken | None:
        """As `arrive`; the wake that was begun or joined, None where it is up."""
        state = self.report_activity(policy_id)
        if state.phase in (Phase.ACTIVE, Phase.IDLE):
            return None
        return self.wake(policy_id, WakeReason.API_REQUEST)

    def eta(self, policy_id: str) -> LearnedEta:
        """As `eta_of`, by the id. `NotFound` where there is no such policy."""
        return self._estimating.eta(self._context.find(policy_id)[1])

    def eta_of(self, state: IdleState) -> LearnedEta:
        """How long until it is ready, from now, and what that was learned from: what is left of a wake in
        progress, else all of a wake that began now."""
        return self._estimating.eta(state)

    def etas(self) -> dict[str, LearnedEta]:
        """Of all policies that sleep or wake, by id: for a gate, which is asked before it may ask."""
        states = self.ports.policies.list_states()
        return {state.policy_id: self.eta_of(state) for state in states if state.phase in NOT_UP}

    def reconcile_gates(self) -> list[str]:
        """Every Service with pods or with gates, as its policy's state says; what was done, in sentences."""
        return self._gating.reconcile()

    def gate_entries(self) -> Sequence[GateEntry]:
        """What each port of the gates stands for."""
        return self._gating.entries()

    def keep_up(self, policy_id: str, seconds: int) -> IdleState:
        """Not to zero for so long; 0 ends that. What is asleep is woken."""
        if not 0 <= seconds <= YEAR_SECONDS:
            raise Usage(
                f"{seconds} s is not a valid duration; nothing was changed. Give 0 to {YEAR_SECONDS}."
            )
        until = self._context.now + seconds if seconds else 0
        why = PolicyWhy(PolicyCause.RELEASED, "no longer kept up")
        if seconds:
            why = PolicyWhy(PolicyCause.KEPT_UP, f"kept up for {a_while(seconds)}", limit=until)
        state = self._change(policy_id, why, keep_up_until=until)
        if seconds and state.phase in ASLEEP:
            self.wake(policy_id, WakeReason.MANUAL)
            return self._context.find(policy_id)[1]
        return state

    def pause(self, policy_id: str, paused: bool) -> IdleState:
        """A paused policy is not put to zero, nor scaled by rules or schedules; it can be woken."""
        why = PolicyWhy(PolicyCause.RELEASED, "resumed")
        if paused:
            why = PolicyWhy(PolicyCause.PAUSED, "paused")
        return self._change(policy_id, why, paused=paused)

    def round(self, owner: str, deadline: float) -> RoundReport:
        """One round of the idle loop over all policies; then what is expected to be used is woken."""
        report = self._rounds.run(owner, deadline)
        return with_sentences(report, self._ahead.run()) if report.held else report

    def wakes(self) -> int:
        """Grows with every wake, so a daemon can tick at once: the wake of another process is seen with the
        next round."""
        return self._context.wakes

    def settings_now(self, settings: Settings) -> Settings:
        """For the next tick: a pool that sleeps may be empty, and a wake does not wait for its node. Where
        the policies cannot be read, the settings are as configured."""
        try:
            return self._rounds.settings_now(settings)
        except EbbtideError:
            return settings

    def savings(self, policy_id: str, first: str, last: str) -> SavingsReport:
        """Both days included; an empty one is no bound. `NotFound` where nothing is known of the policy."""
        return self._ledger.savings(policy_id, first, last)

    def summary(self, first: str, last: str) -> Summary:
        return self._ledger.summary(first, last)

    def rebuild(self, policy_id: str = "") -> Sequence[Rebuilt]:
        """The ledger again from the log; of all policies where none is named."""
        return self._ledger.rebuild(policy_id)

    def _change(self, policy_id: str, why: PolicyWhy, **changes: object) -> IdleState:
        def changed(_: Policy, state: IdleState) -> TargetStep | None:
            after = replace(state, **changes)  # type: ignore[arg-type]  # named fields of this module alone
            return None if after == state else TargetStep(after, why=why, log=LogKind.POLICY)

        return self._context.change(policy_id, changed)


def _busy(state: IdleState) -> bool:
    return state.phase in (Phase.ACTIVE, Phase.WAKING)


def _asleep_since(state: IdleState) -> int:
    """From when activity speaks against the sleep: an idle target should have had none since it was idle,
    one that a schedule put to sleep may have had some until then."""
    if state.idle_since is not None:
        return state.idle_since
    return state.scaled_to_zero_at or state.checked_at


def _used(policy: Policy, state: IdleState, at: int, now: int) -> TargetStep:
    """Idleness ends with the activity, unless that was before it began."""
    if state.phase is Phase.IDLE and at >= (state.idle_since or 0):
        step = stay_up(policy, state, NO_WHY, now, at)
        return TargetStep(replace(step.state, last_activity_at=at), stretches=step.stretches)
    return TargetStep(replace(state, last_activity_at=max(at, state.last_activity_at)))


def guarded_round(scaling: Scaling, owner: str) -> RoundReport:
    """A round that turns any error into an alarm; the next one starts from the states."""
    ports = scaling.ports
    now = ports.clock.now()
    deadline = now + max(scaling.defaults.check_interval_seconds, LEAST_BUDGET_SECONDS)
    try:
        return scaling.round(owner, deadline)
    except EbbtideError as error:
        alarm = Alarm(AlarmKind.ROUND_FAILED, str(error))
    except Exception as error:  # a daemon must outlive a bug in one round
        detail = redact(f"{type(error).__name__}: {error}")
        alarm = Alarm(AlarmKind.ROUND_FAILED, detail, unexpected=True)
    entry = entry_of(ports.new_id(), int(now), alarm)
    ports.notifier.notify(entry)
    return RoundReport(int(now), entry.says, held=False)


def run_rounds(scaling: Scaling, owner: str, stop: threading.Event, on_round: OnRound) -> None:
    chance = random.Random(owner)
    while not stop.is_set():
        on_round(guarded_round(scaling, owner))
        stop.wait(scaling.defaults.check_interval_seconds * (1 + JITTER * chance.uniform(-1, 1)))
