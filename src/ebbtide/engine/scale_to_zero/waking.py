"""Waking a policy's target: run its machine from the requested wake to its end; and how long until it is
ready. Callers who ask for the same at the same time share one answer.

The write raises the wake count, so a runner that was about to scale to zero is refused; the call to the
cluster changes each workload's version, so a call to zero that is still on its way is refused too. Only the
caller whose write moved the policy into WAKING makes the calls; others join it. Where that caller dies, the
next round, or a later caller, finds the wake without its answer and makes the calls again.

Many callers, one call: callers that request the same thing at the same time share one answer. A caller that
asks while a call is in progress does not get its answer, since it may have begun earlier; they share the
next one. So an answer is always about something that happened after it was asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from ebbtide.core.scale_to_zero import machine
from ebbtide.core.scale_to_zero import wake as core
from ebbtide.core.scale_to_zero.activity import ActivityLook
from ebbtide.core.scale_to_zero.eta import LearnedEta, NodeTime, eta, node_times, remaining
from ebbtide.core.scale_to_zero.machine import Observed, TargetStep, WakeOrder
from ebbtide.core.scale_to_zero.node_first import ready_nodes
from ebbtide.core.scale_to_zero.rules import replicas_in
from ebbtide.engine.rounds import advance_work
from ebbtide.engine.scale_to_zero.context import MOST_TRIES, PolicyContext
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.policy_machine import Advance, Observe, PolicyMachine
from ebbtide.errors import Conflict, EbbtideError, KeyUsed, NotFound
from ebbtide.model.effect import OutcomeKind, WorkloadOutcome
from ebbtide.model.events import PartKind, Transition
from ebbtide.model.idle import NO_WHY, IdleState, Once, Phase, PolicyWhy, WakeReason, wake_id
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Policy
from ebbtide.narrate import fact_in

T = TypeVar("T")


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: T | None = None
        self.error: BaseException | None = None


class _Key(Generic[T]):
    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.gathering: _Flight[T] | None = None
        self.users = 0


class SingleFlight(Generic[T]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, _Key[T]] = {}

    def do(self, key: str, call: Callable[[], T]) -> T:
        with self._lock:
            place = self._keys.setdefault(key, _Key())
            place.users += 1
            flight, leads = place.gathering, False
            if flight is None:
                flight, leads = _Flight(), True
                place.gathering = flight
        try:
            if leads:
                self._lead(place, flight, call)
            else:
                flight.done.wait()
        finally:
            with self._lock:
                place.users -= 1
                if not place.users:
                    self._keys.pop(key, None)
        if flight.error is not None:
            raise flight.error
        return flight.answer  # type: ignore[return-value]  # set wherever there is no error

    def _lead(self, place: _Key[T], flight: _Flight[T], call: Callable[[], T]) -> None:
        with place.turn:
            with self._lock:
                place.gathering = None
            try:
                flight.answer = call()
            except BaseException as error:
                flight.error = error
            finally:
                flight.done.set()


STEPS = 400
"""How many transitions of the log are looked through for nodes that were launched."""
KNOWN_SECONDS = 30.0
"""For how long what the log said of nodes counts: launches take longer."""
ASLEEP = (Phase.FALLING, Phase.ZERO, Phase.WAKING)


class Estimating:
    def __init__(self, context: PolicyContext) -> None:
        self._context = context
        self._nodes: tuple[NodeTime, ...] = ()
        self._read_at: float | None = None

    def eta(self, state: IdleState) -> LearnedEta:
        """From now: of a wake in progress what is left of it; else of one that begins now."""
        first = state.node_first if state.phase in ASLEEP else None
        whole = eta(state.wakes, first, self._node_times(), self._context.now)
        if state.phase is not Phase.WAKING:
            return whole
        return remaining(whole, self._context.now - (state.last_wake_at or 0))

    def _node_times(self) -> tuple[NodeTime, ...]:
        """Where the log cannot be read, what was known before: an estimate is no reason to fail."""
        now = self._context.ports.clock.now()
        if self._read_at is None or not 0 <= now - self._read_at < KNOWN_SECONDS:
            try:
                entries = self._context.ports.store.read_log([LogKind.TRANSITION], limit=STEPS)
            except EbbtideError:
                return self._nodes
            facts = ((entry.at, fact_in(entry, Transition)) for entry in entries)
            self._nodes = node_times((at, fact) for at, fact in facts if fact is not None)
            self._read_at = now
        return self._nodes


NODE_STEPS = (SlotState.LAUNCHED, SlotState.JOINED, SlotState.READY)
SETTLED_LOOKS = 50
"""How many transitions of the log are looked through for the node that a wake waited for."""


@dataclass(frozen=True, slots=True)
class Woken:
    policy_id: str
    previous_replicas: int
    target_replicas: int
    """Over all workloads of a group; for a pool, its nodes."""
    wake_reason: WakeReason
    status: Literal["waking", "already_running"]
    message: str
    estimated_ready_seconds: int
    wake_id: str
    ready: bool = False
    node_wait: bool = False
    """Whether it is thought to wait, or has waited, for a node."""
    eta_says: str = ""
    """The estimate in words: what of it is for a node, and what it was learned from."""
    late: bool = False
    """The wake takes longer than expected."""


class Waking:
    def __init__(self, context: PolicyContext, gating: Gating, estimating: Estimating) -> None:
        self._context = context
        self._gating = gating
        self._estimating = estimating
        self._ports = context.ports
        self._wakes: SingleFlight[Woken] = SingleFlight()
        self._ends: SingleFlight[IdleState] = SingleFlight()

    def wake(self, policy_id: str, reason: WakeReason, why: PolicyWhy = NO_WHY) -> Woken:
        return self._wakes.do(policy_id, lambda: self._wake(policy_id, WakeOrder(reason, why=why)))

    def wake_once(self, policy_id: str, reason: WakeReason, once: Once) -> Woken:
        """As `wake`, and uses up the key in the same write. Not shared with callers who have no such key."""
        return self._wake(policy_id, WakeOrder(reason), once)

    def _wake(self, policy_id: str, order: WakeOrder, once: Once | None = None) -> Woken:
        def ordered(state: IdleState, observed: Observed, now: float) -> TargetStep:
            # Crash table: webhook-unwritten. A wake that is joined writes nothing, so the id is used up here.
            if once is not None and state.phase is Phase.WAKING:
                self._use_up(once)
            return machine.wake(state, observed, order, int(now))

        run = self._machine(policy_id, ordered, self._observe)
        run.once = once
        if not advance_work(run):
            raise Conflict(
                f"policy {policy_id} was written by others {MOST_TRIES} times in a row: wake it again"
            )
        policy, state, step = run.policy, run.state, run.step
        if state.phase is not Phase.WAKING:
            return self._running(policy, state, run.observed.look.workloads)
        if step is None or not (step.effects or step.why):
            return self._answer(policy, state, (), "Wake already in progress")
        self.follow(policy, state)
        done = all(outcome.kind is OutcomeKind.DONE for outcome in run.outcomes)
        told = "; ".join(run.problems)
        message = "Wake initiated" if done else f"Wake recorded; the next round carries it out: {told}"
        return self._answer(policy, state, run.outcomes, f"{message}; {told}" if done and told else message)

    def _machine(self, policy_id: str, step_from: Advance, observe: Observe) -> PolicyMachine:
        policy, state = self._context.find(policy_id)
        return PolicyMachine(self._context, self._gating, state, observe(policy, state), observe, step_from)

    def _observe(self, policy: Policy, state: IdleState) -> Observed:
        """Only of what counts as awake it matters what is there. What cannot be read counts as running."""
        there = (self.workloads_of(policy) or ()) if state.phase in machine.AWAKE else ()
        return Observed(policy, ActivityLook(workloads=tuple(there)), self._context.defaults)

    def _observe_end(self, policy: Policy, state: IdleState) -> Observed:
        return Observed(policy, ActivityLook(), self._context.defaults, node_seconds=self.node_seconds(state))

    def _use_up(self, once: Once) -> None:
        """Of a wake that joins one that is written already."""
        policies = self._ports.policies
        if policies.keep_once(once.key, once.value, once.expires_at, once.now) != once.value:
            raise KeyUsed(f"{once.key} was used before; nothing was changed")

    def finish(self, policy_id: str, wake_count: int) -> IdleState:
        """The target is ready: write it, and what the wake took, once, however many saw it."""
        return self._ends.do(policy_id, lambda: self._finish(policy_id, wake_count))

    def _finish(self, policy_id: str, wake_count: int) -> IdleState:
        def ended(state: IdleState, observed: Observed, now: float) -> TargetStep:
            if state.phase is not Phase.WAKING or state.wake_count != wake_count:
                return TargetStep(state)
            return machine.ready(state, observed, now)

        run = self._machine(policy_id, ended, self._observe_end)
        advance_work(run)
        if run.outcomes:
            # The calls of the wake were still to be made: now it may be over.
            advance_work(run)
        return run.state

    def wait_ready(self, policy_id: str, id_of_wake: str, until: float) -> Woken:
        policy, state = self._context.find(policy_id)
        count = state.wake_count
        prefix, _, number = id_of_wake.rpartition("-")
        if wake_id(policy_id, 0) != f"{prefix}-0" or not number.isdecimal() or int(number) > count:
            raise NotFound(f"policy {policy_id} has no wake {id_of_wake}; wake it again")
        ready = (
            self._pool_ready(policy, until) if policy.target.pool else self._all_ready(policy, state, until)
        )
        if ready:
            state = self.finish(policy_id, count)
        message = "Ready" if ready else "Not ready in time; the wake continues"
        answer = self._answer(policy, state, (), message)
        waited = bool(
            state.wakes and state.wakes[-1].at == state.last_wake_at and state.wakes[-1].node_seconds
        )
        return replace(
            answer, wake_id=id_of_wake, ready=ready, node_wait=waited if ready else answer.node_wait
        )

    def _all_ready(self, policy: Policy, state: IdleState, until: float) -> bool:
        waking = [target.ref for target in core.targets(policy, state)]
        if state.phase is not Phase.WAKING:
            # What somebody put to zero after the wake is not waited for.
            there = self.workloads_of(policy) or ()
            waking = [each.ref for each in there if each.replicas] or list(policy.target.workloads)
        return all(self._ports.workloads.wait_ready(ref, until).ready for ref in waking)

    def _pool_ready(self, policy: Policy, until: float) -> bool:
        """A pool takes minutes; nobody watches it for the moment."""
        while self._ports.cluster is not None:
            if ready_nodes(self._ports.cluster.read(), policy.target.pool):
                return True
            if self._ports.clock.now() >= until:
                return False
            self._ports.clock.sleep(min(1.0, max(0.0, until - self._ports.clock.now())))
        return False

    def follow(self, policy: Policy, state: IdleState) -> None:
        """Until it is ready, where this process stays."""
        if not self._ports.follows:
            return
        seconds = core.cold_start_timeout(policy, self._context.defaults)
        until = self._ports.clock.now() + seconds
        wanted = wake_id(policy.id, state.wake_count)

        def follow() -> None:
            with suppress(EbbtideError):  # the next round looks in any case
                self.wait_ready(policy.id, wanted, until)

        threading.Thread(target=follow, name=f"follow {policy.name}", daemon=True).start()

    def workloads_of(self, policy: Policy) -> Sequence[Workload] | None:
        """The workloads that are there; nothing where they cannot be read: then it counts as running."""
        found = []
        for ref in policy.target.workloads:
            try:
                found.append(self._ports.workloads.read(ref))
            except NotFound:
                continue
            except EbbtideError:
                return None
        return found

    def node_seconds(self, state: IdleState) -> float:
        """How long after the wake the last step of a node was seen that came while it waited."""
        since, at = state.last_wake_at or 0, self._ports.clock.now()
        entries = self._ports.store.read_log([LogKind.TRANSITION], limit=SETTLED_LOOKS)
        came = [entry.at for entry in entries if since <= entry.at <= at and _is_node_step(entry)]
        return float(max(1, max(came) - since)) if came else 0.0

    def _running(self, policy: Policy, state: IdleState, up: Sequence[Workload]) -> Woken:
        count = replicas_in(up) if policy.target.workloads else max(1, policy.min_replicas)
        return Woken(
            policy.id,
            previous_replicas=count,
            target_replicas=count,
            wake_reason=state.wake_reason or WakeReason.MANUAL,
            status="already_running",
            message="Already running",
            estimated_ready_seconds=0,
            wake_id=wake_id(policy.id, state.wake_count),
            ready=bool(up) and all(each.ready for each in up if each.replicas),
        )

    def _answer(
        self, policy: Policy, state: IdleState, outcomes: Sequence[WorkloadOutcome], message: str
    ) -> Woken:
        target = sum(one.replicas for one in core.targets(policy, state))
        estimate = self._estimating.eta(state)
        return Woken(
            policy.id,
            previous_replicas=sum(outcome.previous for outcome in outcomes),
            target_replicas=target if policy.target.workloads else max(1, policy.min_replicas),
            wake_reason=state.wake_reason or WakeReason.MANUAL,
            status="waking",
            message=message,
            estimated_ready_seconds=estimate.seconds,
            wake_id=wake_id(policy.id, state.wake_count),
            node_wait=estimate.first is not None and estimate.node is not None,
            eta_says=estimate.says,
            late=estimate.late,
        )


def _is_node_step(entry: LogEntry) -> bool:
    fact = fact_in(entry, Transition)
    return fact is not None and fact.part is PartKind.LAUNCH and fact.after in NODE_STEPS
