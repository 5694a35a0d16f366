"""The daemon's loop: a tick every so often, with jitter, until asked to stop.

The runner that acts keeps the lease between two ticks and renews it, so of several replicas one acts and
the others stand by; the lease is short, so another takes over soon when it dies, and is given back at the
end. A tick that fails raises an alarm but does not end the loop: the next one starts from the record.
Between two ticks the inbox is checked often, since a spot notice cannot wait. A pod that fits no node, a
node that became Ready or a policy that wakes starts a tick at once; the interval is only a heartbeat.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import inf

from ebbtide.engine.ports import Ports
from ebbtide.engine.pruning import Pruning
from ebbtide.engine.tick import TickReport, tick
from ebbtide.errors import EbbtideError, LeaseLost
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.record import CLUSTER_LEASE
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of
from ebbtide.redact import redact

JITTER = 0.1
LOOK_SECONDS = 2.0
NUDGE_SECONDS = 0.25
"""How often it is asked whether anything is urgent."""
BATCH_SECONDS, BATCH_MOST_SECONDS = 1.0, 10.0
"""A tick for something urgent waits until nothing more came for so long, and no longer than this in all."""
RENEWALS_IN_A_LEASE = 3
URGENT_SECONDS = 5.0
"""The longest wait for the next tick while an interruption is being answered."""
UNEXPECTED = "Unexpected"
"""The kind of an error that is none of ours: a bug."""

OnReport = Callable[[TickReport], None]


def run_loop(
    ports: Ports,
    settings: Settings,
    owner: str,
    interval_seconds: float,
    stop: threading.Event,
    on_report: OnReport,
) -> None:
    settings = for_a_daemon(settings)
    ttl = settings.lock_ttl_seconds
    chance = random.Random(owner)  # spreads replicas over time; the owner id is fresh for each process
    pruning = Pruning(ports, settings)
    while not stop.is_set():
        nudge = Nudge(ports)
        report = guarded_tick(ports, settings, owner, interval_seconds, keeps_lease=True)
        on_report(report)
        pruning.after(report)
        wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))
        wait_for_next(nudge, owner, sooner(wait, report, ports.clock.now()), stop, ttl if report.held else 0)
    step_down(ports, owner, ttl)


def sooner(wait: float, report: TickReport, now: float) -> float:
    """At most `wait`; less while an interruption is being answered, or where something is due before."""
    if report.spots_open:
        wait = min(wait, URGENT_SECONDS)
    if report.due_at is not None:
        wait = min(wait, max(report.due_at - now, 0.0))
    return wait


def for_a_daemon(settings: Settings) -> Settings:
    """With the short leases of a process that stays."""
    ttl = settings.daemon_lock_ttl_seconds
    return replace(
        settings, lock_ttl_seconds=ttl, spot_lock_ttl_seconds=min(ttl, settings.spot_lock_ttl_seconds)
    )


class Nudge:
    """Whether something came up since before the last tick that should not wait for the next."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._heard = ports.urgencies()
        self._made_at = ports.clock.now()
        self._first_at = 0.0

    def due(self) -> bool:
        return self.ports.clock.now() >= self.due_at()

    def due_at(self) -> float:
        """When the tick is due by what has come up so far; infinitely late where nothing has. After a pod,
        more are waited for a little: they often come in bursts. A node that becomes Ready holds nobody up,
        and what came during a tick has waited for its end already."""
        now = self.ports.clock.now()
        if not self._first_at and self.ports.urgencies() != self._heard:
            self._first_at = self._arrived_at() or now
        if not self._first_at:
            return inf
        last_at = max(self._first_at, self._arrived_at())
        return min(last_at + BATCH_SECONDS, self._first_at + BATCH_MOST_SECONDS)

    def _arrived_at(self) -> float:
        """When the last pod came since this was made; 0 where none did."""
        arrived = self.ports.arrived_at()
        return min(arrived, self.ports.clock.now()) if arrived > self._made_at else 0.0


def wait_for_next(nudge: Nudge, owner: str, seconds: float, stop: threading.Event, ttl: int) -> None:
    """Until the next tick is due, something is urgent, a notice waits, or the lease (where `ttl` is not 0)
    was lost. Who does not hold the lease leaves what is urgent to the one who does."""
    ports = nudge.ports
    until = ports.clock.now() + seconds
    renew_at = ports.clock.now() + ttl / RENEWALS_IN_A_LEASE
    look_at = ports.clock.now() + LOOK_SECONDS
    while not stop.is_set() and ports.clock.now() < until:
        # Not a moment later than the tick is due by what is known now: a pod is pending for it.
        wake_at = min(until, nudge.due_at()) if ttl else until
        stop.wait(min(NUDGE_SECONDS, max(0.0, wake_at - ports.clock.now())))
        if ttl and nudge.due():
            return
        if ports.clock.now() < look_at:
            continue
        look_at = ports.clock.now() + LOOK_SECONDS
        if _mail_waits(ports):
            return
        if ttl and ports.clock.now() >= renew_at:
            try:
                ports.store.acquire(CLUSTER_LEASE, owner, ttl)
            except LeaseLost:
                return
            except EbbtideError:
                continue  # there is time for further tries before the lease is over
            renew_at = ports.clock.now() + ttl / RENEWALS_IN_A_LEASE


def step_down(ports: Ports, owner: str, ttl: int) -> None:
    """Give the lease back. Taking it first tells its token; while another has it there is nothing to do."""
    with suppress(EbbtideError):
        ports.store.release(ports.store.acquire(CLUSTER_LEASE, owner, ttl))


def _mail_waits(ports: Ports) -> bool:
    """An inbox that cannot be read is the next tick's alarm, not this loop's end."""
    try:
        return bool(ports.inbox.receive())
    except Exception:  # whatever it is, it must not end the daemon
        return False


def guarded_tick(
    ports: Ports, settings: Settings, owner: str, budget_seconds: float, keeps_lease: bool = False
) -> TickReport:
    """A tick that turns any error into an alarm."""
    start = ports.clock.now()
    deadline = start + max(budget_seconds, settings.request_timeout_seconds)
    try:
        report = tick(ports, settings, owner, deadline, keeps_lease)
    except EbbtideError as error:
        kind, alarm = type(error).__name__, Alarm(AlarmKind.TICK_FAILED, str(error))
    except Exception as error:  # a daemon must outlive a bug in one tick; the operation's runs are counted
        kind = UNEXPECTED
        detail = redact(f"{type(error).__name__}: {error}")
        alarm = Alarm(AlarmKind.TICK_FAILED, detail, unexpected=True)
    else:
        ports.observer.ticked(ports.clock.now() - start, report.held, "")
        return report
    ports.observer.ticked(ports.clock.now() - start, False, kind)
    entry = entry_of(ports.new_id(), int(start), alarm)
    ports.notifier.notify(entry)
    return TickReport(int(start), entry.says, held=False)
