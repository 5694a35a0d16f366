"""The loop of a daemon, for one cluster or several, and the single run of a Lambda or `ebbtide once`.

The runner that acts keeps and renews the lease between ticks, so one replica acts and the others stand by.
The lease is short, so another replica takes over soon after a crash, and it is released at the end. A tick
that fails raises an alarm and does not end the loop. Between ticks the inbox is checked often, since a
spot notice cannot wait. A pod that fits no node, a node that became Ready or a policy that wakes starts a
tick at once; the interval is only a heartbeat.

The holder of the lease deletes old log entries once a day, and after each restart.

A single run continues until its deadline while the cloud is about to reclaim a machine: the next run may
come a minute later, half of the time that a spot notice gives. A run that could not read the cluster or
the cloud raises its alarm and then fails, so monitoring of failed runs shows it.

With several clusters, each has its own thread and lease. Processes on the same store do not talk to each
other. The more clusters a process holds, the less often it tries to take another. From time to time it
releases an idle one and does not take it again for a while, so processes with fewer clusters get it first.
If there is no other process, it takes the cluster again.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport, tick
from ebbtide.errors import EbbtideError, LeaseLost, Retryable
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.operation import SpotKind
from ebbtide.model.record import CLUSTER_LEASE
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of
from ebbtide.redact import redact

DAY_SECONDS = 24 * 3600


class Pruning:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._days = settings.log_retention_days
        self._due = 0.0

    def after(self, report: TickReport) -> None:
        """Never raises: a log that stays long is an alarm, not the end of a daemon; tried again a day on."""
        now = self._ports.clock.now()
        if not self._days or not report.held or now < self._due:
            return
        self._due = now + DAY_SECONDS
        try:
            self._ports.store.prune_log(int(now) - self._days * DAY_SECONDS)
        except Exception as error:  # whatever it is, it must not end the daemon
            fact = Alarm(AlarmKind.LOG_NOT_PRUNED, str(error))
            self._ports.notifier.notify(entry_of(self._ports.new_id(), int(now), fact))


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
    """Give the lease back. Acquiring it first returns its token; if another runner has it, there is nothing
    to do."""
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


AGAIN_SECONDS = 5.0
"""From one look to the next while an interruption is being answered."""


def run_once(ports: Ports, settings: Settings, owner: str, deadline: float) -> TickReport:
    """A tick, and further ones for as long as an interruption is open and there is time."""
    report = tick(ports, settings, owner, deadline)
    while ports.clock.now() + AGAIN_SECONDS < deadline and _interrupted(ports):
        ports.clock.sleep(AGAIN_SECONDS)
        report = _joined(report, tick(ports, settings, owner, deadline))
    return report


def _interrupted(ports: Ports) -> bool:
    """Whether the cloud is about to reclaim a machine, whichever runner answers the notice."""
    return any(spot.kind is SpotKind.INTERRUPTION for spot in ports.store.load().spots)


def _joined(first: TickReport, then: TickReport) -> TickReport:
    """Both in one; what a later tick repeats, or did not find to do, is not said again."""
    told = [first.says] if then.quiet else [first.says, then.says]
    says = "; ".join(dict.fromkeys(told))
    held, decision = first.held or then.held, first.decision or then.decision
    return replace(then, says=says, decision=decision, held=held, quiet=first.quiet and then.quiet)


def fail_if_blind(ports: Ports, report: TickReport) -> None:
    """Raise the alarm and fail, where this run could not see what it is to look after."""
    if says := alarm_if_blind(ports, report):
        raise Retryable(says)


def alarm_if_blind(ports: Ports, report: TickReport) -> str:
    """Why this run is to fail, once the alarm is written and told; empty where it saw all."""
    if not report.problems:
        return ""
    says = f"{'; '.join(report.problems)}: nothing was decided and nothing removed in this run"
    alarm = entry_of(ports.new_id(), report.at, Alarm(AlarmKind.OBSERVATION, says))
    with suppress(EbbtideError):
        ports.store.append([alarm])
    ports.notifier.notify(alarm)
    return f"{says}; the next run tries again, see `ebbtide doctor` if that does not help"


TICKS_BETWEEN_OFFERS = 20
"""How many ticks a replica keeps a cluster before it offers it to the others, if it holds several."""

OnClusterReport = Callable[[str, TickReport], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One cluster of the fleet."""

    ports: Ports
    settings: Settings
    interval_seconds: float


class Fleet:
    def __init__(
        self, members: Sequence[Member], owner: str, stop: threading.Event, on_report: OnClusterReport
    ) -> None:
        self._members = members
        self._owner = owner
        self._stop = stop
        self._on_report = on_report
        self._lock = threading.Lock()
        self._ticks_held: Counter[str] = Counter()

    def run(self) -> None:
        threads = [threading.Thread(target=self._follow, args=(member,)) for member in self._members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def held(self) -> int:
        with self._lock:
            return len(self._ticks_held)

    def _follow(self, member: Member) -> None:
        settings = for_a_daemon(member.settings)
        ttl = settings.lock_ttl_seconds
        pruning = Pruning(member.ports, settings)
        while not self._stop.is_set():
            nudge = Nudge(member.ports)
            report = guarded_tick(member.ports, settings, self._owner, member.interval_seconds, True)
            self._on_report(settings.cluster, report)
            pruning.after(report)
            self.note(settings.cluster, report.held)
            if report.held and self.offers(member, settings.cluster):
                self.note(settings.cluster, False)
                step_down(member.ports, self._owner, ttl)
            reach = 1 if self._holds(settings.cluster) else 1 + self.held
            keeps = ttl if self._holds(settings.cluster) else 0
            wait = sooner(member.interval_seconds * reach, report, member.ports.clock.now())
            wait_for_next(nudge, self._owner, wait, self._stop, keeps)
        step_down(member.ports, self._owner, ttl)

    def note(self, cluster: str, held: bool) -> None:
        with self._lock:
            if held:
                self._ticks_held[cluster] += 1
            else:
                self._ticks_held.pop(cluster, None)

    def _holds(self, cluster: str) -> bool:
        with self._lock:
            return cluster in self._ticks_held

    def offers(self, member: Member, cluster: str) -> bool:
        """Whether to give this one back: several are held, it was held long enough, and nothing is open."""
        with self._lock:
            due = len(self._ticks_held) > 1 and self._ticks_held[cluster] >= TICKS_BETWEEN_OFFERS
        if not due:
            return False
        with suppress(EbbtideError):
            record = member.ports.store.load()
            return not record.scaling_in_progress and not record.spots
        return False
