"""Waking a policy's target: write the wake, then scale, then say that it was done.

The write raises the wake count, so a runner that was about to scale to zero is refused; the call to the
cluster changes each workload's version, so a call to zero that is still on its way is refused too. Only the
caller whose write moved the policy into WAKING makes the calls; others join it. Where that caller dies, the
next round, or a later caller, finds the wake without its answer and makes the calls again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from ebbtide.core.scale_to_zero import wake as core
from ebbtide.core.scale_to_zero.policy_overrides import ready_nodes
from ebbtide.engine.scale_to_zero.context import PolicyContext, replicas_of
from ebbtide.engine.scale_to_zero.estimating import Estimating
from ebbtide.engine.single_flight import SingleFlight
from ebbtide.errors import Conflict, EbbtideError, KeyUsed, NotFound, Unanswered
from ebbtide.model.events import PartKind, Transition
from ebbtide.model.idle import IdleState, Once, Phase, Remembered, WakeReason, wake_id
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import SlotState
from ebbtide.model.policy import Policy
from ebbtide.model.workload import Workload
from ebbtide.narrate import fact_in

MOST_TRIES = 100
"""A write or call that is refused because something changed is made again this often."""
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


@dataclass(frozen=True, slots=True)
class Ordered:
    """What a schedule adds to a wake: the replicas to wake to (none: what each had), and up to when schedules
    are answered."""

    replicas: int | None
    until: int


@dataclass(frozen=True, slots=True)
class _Carried:
    """How the calls of a wake went."""

    previous: int = 0
    problem: str = ""
    done: bool = True


class Waking:
    def __init__(self, desk: PolicyContext, estimating: Estimating) -> None:
        self._desk = desk
        self._estimating = estimating
        self._ports = desk.ports
        self._wakes: SingleFlight[Woken] = SingleFlight()
        self._ends: SingleFlight[IdleState] = SingleFlight()

    def wake(self, policy_id: str, reason: WakeReason, ordered: Ordered | None = None) -> Woken:
        return self._wakes.do(policy_id, lambda: self._wake(policy_id, reason, ordered))

    def wake_once(self, policy_id: str, reason: WakeReason, once: Once) -> Woken:
        """As `wake`, and uses up the key in the same write. Not shared with callers who have no such key."""
        return self._wake(policy_id, reason, None, once)

    def _wake(
        self, policy_id: str, reason: WakeReason, ordered: Ordered | None, once: Once | None = None
    ) -> Woken:
        for _ in range(MOST_TRIES):
            policy, state = self._desk.find(policy_id)
            up = self._look(policy) if state.phase in (Phase.ACTIVE, Phase.IDLE) else None
            number = ordered.replicas if ordered is not None else None
            if ordered is not None and state.phase is not Phase.WAKING:
                state = replace(state, scheduled_until=ordered.until)
            step = core.wake(policy, state, reason, self._desk.now, up or (), number)
            # Crash table: webhook-unwritten.
            if step.joined and once is not None:
                self._use_up(once)
            if step.joined and not step.acts:
                return self._answer(policy, state, _Carried(), "Wake already in progress")
            written = state
            if not step.joined:
                says = f"woken ({reason})" if step.acts else f"woken while running ({reason})"
                try:
                    written = self._desk.save(policy, step.state, step.stretches, says, LogKind.WAKE, once)
                except Conflict:
                    continue
            if not step.acts:
                return self._running(policy, written, up or ())
            return self._act(policy, written, exact=number is not None)
        raise Conflict(f"policy {policy_id} was written by others {MOST_TRIES} times in a row: wake it again")

    def _use_up(self, once: Once) -> None:
        """Of a wake that joins one that is written already."""
        policies = self._ports.policies
        if policies.keep_once(once.key, once.value, once.expires_at, once.now) != once.value:
            raise KeyUsed(f"{once.key} was used before; nothing was changed")

    def _act(self, policy: Policy, state: IdleState, exact: bool = False) -> Woken:
        carried = self.carry_out(policy, state, exact)
        if self._ports.follows:
            self._follow(policy, state)
        message = (
            "Wake initiated" if carried.done else f"Wake recorded; the next round goes on: {carried.problem}"
        )
        if carried.done and carried.problem:
            message = f"Wake initiated; {carried.problem}"
        return self._answer(policy, state, carried, message)

    def carry_out(self, policy: Policy, state: IdleState, exact: bool = False) -> _Carried:
        """Scale every workload up that is at zero (`exact`: also what is up, to the number of a schedule) and
        write that it was answered. Never raises: what did not work is left to the next round."""
        previous, problems, done = 0, [], True
        for target in core.targets(policy, state):
            try:
                before = self._scale_up(policy, target, exact)
            except NotFound as error:
                problems.append(str(error))
            except EbbtideError as error:
                problems.append(str(error))
                done = False
            else:
                previous += before
        if done:
            try:
                self._confirm(policy.id, state.wake_count)
            except EbbtideError as error:
                problems.append(str(error))
        return _Carried(previous, "; ".join(problems), done)

    def _scale_up(self, policy: Policy, target: Remembered, exact: bool) -> int:
        """The replicas before. The call is made also where nothing is to change:
        it changes the version, and with it refuses a call to zero that is still on its way."""
        note, before = self._desk.note(policy, "woken"), None
        for _ in range(MOST_TRIES):
            seen = self._ports.workloads.read(target.ref)
            before = seen.replicas if before is None else before
            with suppress(Conflict, Unanswered):
                least = target.replicas if exact or not seen.replicas else 0
                self._ports.workloads.scale(seen, max(seen.replicas, least), note)
                return before
        raise Conflict(f"{target.ref} changed {MOST_TRIES} times while it was to be scaled up")

    def _confirm(self, policy_id: str, wake_count: int) -> None:
        for _ in range(MOST_TRIES):
            policy, state = self._desk.find(policy_id)
            if state.phase is not Phase.WAKING or state.wake_count != wake_count or state.last_scaled_at:
                return
            with suppress(Conflict):
                self._desk.save(policy, core.scaled(state, self._desk.now))
                return

    def finish(self, policy_id: str, wake_count: int) -> IdleState:
        """The target is ready: write it, and what the wake took, once, however many saw it."""
        return self._ends.do(policy_id, lambda: self._finish(policy_id, wake_count))

    def _finish(self, policy_id: str, wake_count: int) -> IdleState:
        for _ in range(MOST_TRIES):
            policy, state = self._desk.find(policy_id)
            if state.phase is not Phase.WAKING or state.wake_count != wake_count:
                return state
            # Crash table: wake-unanswered.
            if not state.last_scaled_at:
                # It may be up only because a call to zero is still on its way: refuse that first.
                if not self.carry_out(policy, state).done:
                    return state
                continue
            at = self._ports.clock.now()
            end = core.ready(policy, state, at, self._node_seconds(state, at), self._desk.defaults)
            with suppress(Conflict):
                return self._desk.save(policy, end.state, end.stretches, end.says, LogKind.WAKE)
        return state

    def wait_ready(self, policy_id: str, id_of_wake: str, until: float) -> Woken:
        policy, state = self._desk.find(policy_id)
        count = state.wake_count
        prefix, _, number = id_of_wake.rpartition("-")
        if wake_id(policy_id, 0) != f"{prefix}-0" or not number.isdecimal() or int(number) > count:
            raise NotFound(f"policy {policy_id} has no wake {id_of_wake}; wake it again")
        ready = (
            self._pool_ready(policy, until) if policy.target.pool else self._all_ready(policy, state, until)
        )
        if ready:
            state = self.finish(policy_id, count)
        message = "Ready" if ready else "Not ready in time; the wake goes on"
        answer = self._answer(policy, state, _Carried(), message)
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
            there = self._look(policy) or ()
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

    def _follow(self, policy: Policy, state: IdleState) -> None:
        seconds = core.cold_start_timeout(policy, self._desk.defaults)
        until = self._ports.clock.now() + seconds
        wanted = wake_id(policy.id, state.wake_count)

        def follow() -> None:
            with suppress(EbbtideError):  # the next round looks in any case
                self.wait_ready(policy.id, wanted, until)

        threading.Thread(target=follow, name=f"follow {policy.name}", daemon=True).start()

    def _look(self, policy: Policy) -> Sequence[Workload] | None:
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

    def _node_seconds(self, state: IdleState, at: float) -> float:
        """How long after the wake the last step of a node was seen that came while it waited."""
        since = state.last_wake_at or 0
        entries = self._ports.store.read_log([LogKind.TRANSITION], limit=SETTLED_LOOKS)
        came = [entry.at for entry in entries if since <= entry.at <= at and _is_node_step(entry)]
        return float(max(1, max(came) - since)) if came else 0.0

    def _running(self, policy: Policy, state: IdleState, up: Sequence[Workload]) -> Woken:
        count = replicas_of(up) if policy.target.workloads else max(1, policy.min_replicas)
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

    def _answer(self, policy: Policy, state: IdleState, carried: _Carried, message: str) -> Woken:
        target = sum(one.replicas for one in core.targets(policy, state))
        estimate = self._estimating.eta(state)
        return Woken(
            policy.id,
            previous_replicas=carried.previous,
            target_replicas=target if policy.target.workloads else max(1, policy.min_replicas),
            wake_reason=state.wake_reason or WakeReason.MANUAL,
            status="waking",
            message=message,
            estimated_ready_seconds=estimate.seconds,
            wake_id=wake_id(policy.id, state.wake_count),
            node_wait=estimate.first is not None and estimate.node is not None,
            eta_says=estimate.says,
        )


def _is_node_step(entry: LogEntry) -> bool:
    fact = fact_in(entry, Transition)
    return fact is not None and fact.part is PartKind.LAUNCH and fact.after in NODE_STEPS
