"""What all parts of scale-to-zero share: the ports, and one way to write a state with its log entry and
ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from ebbtide import typed
from ebbtide.core.scale_to_zero.machine import TargetStep
from ebbtide.core.scale_to_zero.savings import fold
from ebbtide.engine.leased import Leased
from ebbtide.errors import Conflict, NotFound
from ebbtide.model.events import PolicyStep, StretchClosed
from ebbtide.model.idle import IdleState, Once, Phase, PolicyWhy, Stretch, WakeReason, wake_id
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of
from ebbtide.ports import (
    Clock,
    Cluster,
    Declarations,
    Notifier,
    PolicyStore,
    Services,
    Signals,
    Store,
    Workloads,
)

PAGE = 1000
MOST_TRIES = 100
"""A write or call that is refused because something changed is made again this often."""
LEASE = "policies"
"""Of the idle loop, and of any other writer that must be the only one."""


@dataclass(frozen=True, slots=True)
class ScalingPorts:
    store: Store
    policies: PolicyStore
    workloads: Workloads
    signals: Signals
    notifier: Notifier
    clock: Clock
    new_id: Callable[[], str]
    """Ids that are unique and grow with time."""
    cluster: Cluster | None = None
    """For prices, and to tell whether a wake needs a node; without it both are less exact."""
    threads: int = 1
    """How many calls to the cluster may be in progress at once."""
    services: Services | None = None
    """For wake on request; without it, Services are left as they are."""
    gate_ports: range = range(0)
    """The ports of the gates."""
    declarations: Declarations | None = None
    """For policies that objects of the cluster declare; without it, what they say is not looked at."""
    follows: bool = False
    """Whether a wake is followed, in a thread of its own, until it is ready: for a process that stays."""
    looks_ahead: bool = False
    """Whether what sleeps is woken ahead of expected use: for a process that stays, too."""


class PolicyContext:
    def __init__(self, ports: ScalingPorts, defaults: ZeroDefaults, settings: Settings) -> None:
        self.ports = ports
        self.defaults = defaults
        self.settings = settings
        self._woken: dict[str, int] = {}
        """Of each policy, the count of the last wake that was seen here."""
        self.wakes = 0
        """Grows with every wake that is seen here first, by any process: it may need a node at once."""

    @property
    def now(self) -> int:
        return int(self.ports.clock.now())

    def note_wakes(self, states: Iterable[IdleState]) -> None:
        """Two threads that see a wake at once may both count it: the tick that follows is the same."""
        for state in states:
            if state.phase is Phase.WAKING and state.wake_count != self._woken.get(state.policy_id):
                self._woken[state.policy_id] = state.wake_count
                self.wakes += 1

    def all_policies(self) -> Iterator[Policy]:
        after = ""
        while page := self.ports.policies.list_policies(after, PAGE):
            yield from page
            after = page[-1].name
            if len(page) < PAGE:
                return

    def leased(self, owner: str, deadline: float = inf) -> Leased:
        """The lease of the idle loop; `LeaseLost` while another runner has it."""
        ports, settings = self.ports, self.settings
        ttl, asked = settings.lock_ttl_seconds, ports.clock.now()
        lease = ports.store.acquire(LEASE, owner, ttl)
        return Leased(ports.store, ports.clock, lease, ttl, settings.lease_margin_seconds, deadline, asked)

    def find(self, policy_id: str) -> tuple[Policy, IdleState]:
        # Crash table: target-changes. The state first: a change of target raises its rev, so a write for the
        # old target is refused.
        state = self.ports.policies.find_state(policy_id)
        policy = self.ports.policies.find_policy(policy_id) if state is not None else None
        if policy is None or state is None:
            raise NotFound(
                f"there is no policy {policy_id}; nothing was changed. `ebbtide policy list` shows all"
            )
        return policy, state

    def save(self, policy: Policy, step: TargetStep, once: Once | None = None) -> IdleState:
        """Write the state with the stretches that ended, in the ledger and in the log, all or nothing."""
        kept = step.stretches if self.defaults.cost_tracking else ()
        entries = [self.stretch_entry(stretch) for stretch in kept]
        fact = step_of(policy, step.state, step.log, step.why)
        told = [self.entry(step.log, policy, fact)] if step.why else []
        written = self.ports.policies.write_state(step.state, fold(kept), [*entries, *told], once)
        self.note_wakes((written,))
        for entry in told:
            self.ports.notifier.notify(entry)
        return written

    def change(self, policy_id: str, changed: Callable[[Policy, IdleState], TargetStep | None]) -> IdleState:
        """Write what `changed` makes of the state, on whatever others write meanwhile; none is no change."""
        for _ in range(MOST_TRIES):
            policy, state = self.find(policy_id)
            step = changed(policy, state)
            if step is None:
                return state
            with suppress(Conflict):
                return self.save(policy, step)
        raise Conflict(f"policy {policy_id} was written by others {MOST_TRIES} times in a row: try again")

    def entry(self, kind: LogKind, policy: Policy, fact: PolicyStep) -> LogEntry:
        return entry_of(self.ports.new_id(), self.now, fact, policy.id, kind)

    def stretch_entry(self, stretch: Stretch) -> LogEntry:
        return entry_of(self.ports.new_id(), self.now, StretchClosed(stretch), stretch.policy_id)

    def note(self, policy: Policy, says: str) -> str:
        """What is noted at a workload that is scaled."""
        return f"policy {policy.name}: {says}"


def step_of(policy: Policy, state: IdleState, kind: LogKind, why: PolicyWhy) -> PolicyStep:
    """What metrics and notifications need to know of a change of state."""
    step = PolicyStep(
        policy.name,
        state.phase,
        why.says,
        cause=why.cause or None,
        about=why.about or None,
        found=why.found,
        limit=why.limit,
    )
    if kind is not LogKind.WAKE:
        return step
    last = state.wakes[-1] if state.wakes else None
    timed = (
        last if state.phase is Phase.ACTIVE and last is not None and last.at == state.last_wake_at else None
    )
    return replace(
        step,
        wake_reason=state.wake_reason or WakeReason.MANUAL,
        wake_id=wake_id(policy.id, state.wake_count),
        seconds=timed.seconds if timed else None,
        node_seconds=timed.node_seconds if timed else None,
    )


def read_stretch(entry: LogEntry) -> Stretch:
    return typed.convert(entry.data["stretch"], Stretch)
