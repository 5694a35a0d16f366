"""Advance one piece of work for as long as it moves and there is time.

A round: ask the machine, check its invariants, write the new value (or renew the lease where nothing
changed), perform the effects, take in how they went, look again. A conflict with another writer means:
read the record again and start the round again. Whatever does not fit stays in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from textwrap import shorten

from ebbtide.core.operations import facts, machine
from ebbtide.core.operations.machine import Work
from ebbtide.core.operations.situation import Situation
from ebbtide.engine.observe import observe
from ebbtide.engine.perform import perform
from ebbtide.engine.ports import Ports
from ebbtide.errors import Conflict, EbbtideError, LeaseLost
from ebbtide.model.effect import Effect, Outcome, OutcomeKind
from ebbtide.model.events import Event
from ebbtide.model.log import LogEntry
from ebbtide.model.record import Lease, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of

MAX_ROUNDS = 40
SAID_AT_MOST = 600
"""Characters of what a tick said that the record keeps."""


class InvariantBroken(EbbtideError):
    """A machine asked for what it must never do: nothing was written, nothing done."""


@dataclass(slots=True)
class LeasedRun:
    """One runner's hold on one lease, with what it knows."""

    ports: Ports
    settings: Settings
    lease: Lease
    deadline: float
    record: Record
    snapshot: Snapshot
    ttl_seconds: int
    sentences: list[str] = field(default_factory=list)
    asked: set[Effect] = field(default_factory=set)
    """Effects asked for in this tick: none is asked for twice, however slowly the world shows it."""

    @property
    def now(self) -> int:
        return int(self.ports.clock.now())

    @property
    def situation(self) -> Situation:
        until = ceil(self.last_moment)
        return Situation(self.snapshot, self.record, self.settings, self.lease, self.now, until)

    @property
    def last_moment(self) -> float:
        """When the last effect may be started: in this tick, and well within the lease."""
        return min(self.deadline, self.lease.until - self.settings.lease_margin_seconds)

    def entry(self, fact: Event, subject: str = "") -> LogEntry:
        return entry_of(self.ports.new_id(), self.now, fact, subject)

    def write(self, record: Record, entries: Sequence[LogEntry] = ()) -> None:
        said = "; ".join(self.sentences)
        if len(said) > SAID_AT_MOST:
            said = shorten(said, SAID_AT_MOST, placeholder=" …")
        record = replace(record, last_said=said or record.last_said)
        self.record = self.ports.store.write(record, self.lease, entries)

    def renew(self) -> None:
        self.lease = self.ports.store.renew(self.lease, self.ttl_seconds)
        self.record = self.ports.store.load()

    def stay(self) -> None:
        """Renew a lease that is half over, so a long tick does not outlive it."""
        if self.lease.until - self.ports.clock.now() < self.ttl_seconds / 2:
            self.renew()

    def look(self) -> None:
        self.snapshot = observe(self.ports, self.settings)

    def has_time(self) -> bool:
        return self.ports.clock.now() < self.last_moment


Find = Callable[[Record], Work | None]


def advance_work(hold: LeasedRun, find: Find) -> None:
    for _ in range(MAX_ROUNDS):
        try:
            hold.stay()
            work = find(hold.record)
            if work is None or not hold.has_time():
                return
            if not _round(hold, work, find):
                return
        except LeaseLost:
            raise
        except Conflict:
            hold.record = hold.ports.store.load()
            hold.look()


def _round(hold: LeasedRun, work: Work, find: Find) -> bool:
    """One step; whether another may follow at once."""
    last_moment = hold.last_moment
    step = machine.advance(work, hold.situation)
    effects = tuple(effect for effect in step.effects if effect not in hold.asked)
    refuse_if_broken(work, step.operation)
    if machine.is_settled(step.operation):
        _close(hold, work, step.operation)
        return False
    if step.operation != work:
        _write_work(hold, work, step.operation)
    elif effects:
        # Nothing new to write, but the token must be known to be ours before anything is done.
        hold.renew()
        if find(hold.record) != work:
            hold.look()
            return True
    else:
        return False
    if not effects:
        hold.look()
        return True
    outcomes = perform(effects, hold.ports, hold.settings, hold.lease, last_moment)
    _take_in(hold, step.operation, outcomes)
    hold.asked.update(effects)
    hold.look()
    # What was put off, or got no answer, is not asked again in the same breath.
    return any(o.kind in (OutcomeKind.DONE, OutcomeKind.NO_CAPACITY, OutcomeKind.REFUSED) for o in outcomes)


def refuse_if_broken(before: Work, after: Work) -> None:
    broken = machine.check_invariants(before, after)
    if broken:
        raise InvariantBroken(f"{broken[0]}: nothing was written and nothing done; please report this")


def _write_work(hold: LeasedRun, before: Work, after: Work) -> None:
    entries = [hold.entry(fact, fact.name) for fact in facts.transitions(before, after)]
    hold.sentences.extend(entry.says for entry in entries)
    hold.write(machine.written(hold.record, after), entries)
    hold.ports.observer.advanced(before, after)


def _take_in(hold: LeasedRun, work: Work, outcomes: Sequence[Outcome]) -> None:
    """Write what the effects taught, and log each of them."""
    entries = [
        hold.entry(fact, fact.name)
        for fact in (facts.effect_done(outcome, work) for outcome in outcomes)
        if fact.outcome is not OutcomeKind.SKIPPED
    ]
    hold.sentences.extend(entry.says for entry in entries)
    hold.ports.observer.performed(outcomes)
    after = machine.absorb(work, outcomes, hold.situation)
    refuse_if_broken(work, after)
    if after == work:
        hold.ports.store.append(entries)
        return
    moved = [hold.entry(fact, fact.name) for fact in facts.transitions(work, after)]
    raised = [hold.entry(alarm, subject) for subject, alarm in facts.alarms(work, after)]
    try:
        hold.write(machine.written(hold.record, after), [*entries, *moved, *raised])
    except Conflict:
        hold.ports.store.append(entries)  # the effects happened, whichever runner writes the record
        raise
    for alarm in raised:
        hold.ports.notifier.notify(alarm)
    hold.ports.observer.advanced(work, after)


def _close(hold: LeasedRun, before: Work, after: Work) -> None:
    closed = machine.close(after, hold.situation)
    entries = [hold.entry(fact, fact.name) for fact in facts.transitions(before, after)]
    end = hold.entry(facts.closed(after, closed.succeeded, closed.reason), after.id)
    hold.sentences.append(end.says)
    hold.write(closed.record, [*entries, end])
    hold.ports.observer.advanced(before, after)
    hold.ports.observer.closed(after, closed.succeeded)
