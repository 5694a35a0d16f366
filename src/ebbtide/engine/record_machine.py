"""Runs the state machines of the record: operations of the two lanes, one that adds nodes and one that
removes them, and answers to spot notices.

Each lane counts its own runs, before it runs: an operation that crashes its runner is set aside without
affecting the other lane. The lanes run one after the other, under one lease, and write the one record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from math import ceil, inf
from textwrap import shorten

from ebbtide import narrate
from ebbtide.core.operations import facts, machine
from ebbtide.core.operations.machine import Work
from ebbtide.core.operations.situation import Situation
from ebbtide.engine.leased import Leased
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.rounds import StateMachine, advance_work, perform, refuse_if_broken
from ebbtide.errors import Conflict
from ebbtide.model.effect import Broken, Effect, Outcome, OutcomeKind, Step
from ebbtide.model.events import Alarm, AlarmKind, Event
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import Operation, ScaleUp
from ebbtide.model.record import Lease, Record, changed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of

MAX_ROUNDS = 40
SAID_AT_MOST = 600
"""Characters of what a tick said that the record keeps."""
Find = Callable[[Record], Work | None]
ENDLESS = 4
"""After so many times the longest that an operation may take, it can only wait for a person. What the cloud
refuses to terminate does not come this far: it is set aside alone."""


@dataclass(slots=True)
class LeasedRun:
    """One runner's run under one lease, with what it knows of the record and the cluster."""

    ports: Ports
    settings: Settings
    leased: Leased
    record: Record
    snapshot: Snapshot
    sentences: list[str] = field(default_factory=list)
    asked: set[Effect] = field(default_factory=set)
    """Effects asked for in this tick: none is asked for twice, however slowly the world shows it."""
    decides_since: float = inf
    """When it last looked for something to decide."""
    ended: set[Lane] = field(default_factory=set)
    """The lanes that ran to their end in this tick."""

    @property
    def now(self) -> int:
        return int(self.ports.clock.now())

    @property
    def lease(self) -> Lease:
        return self.leased.lease

    @property
    def situation(self) -> Situation:
        until = ceil(self.leased.last_moment)
        return Situation(self.snapshot, self.record, self.settings, self.lease, self.now, until)

    def entry(self, fact: Event, subject: str = "") -> LogEntry:
        return entry_of(self.ports.new_id(), self.now, fact, subject)

    def write(self, record: Record, entries: Sequence[LogEntry] = ()) -> None:
        said = "; ".join(self.sentences)
        if len(said) > SAID_AT_MOST:
            said = shorten(said, SAID_AT_MOST, placeholder=" …")
        record = changed(record, last_said=said or record.last_said)
        self.record = self.ports.store.write(record, self.lease, entries)

    def renew(self) -> None:
        self.leased.renew()
        self.record = self.ports.store.load()

    def look(self) -> None:
        self.snapshot = observe(self.ports, self.settings)

    def reload(self) -> None:
        self.record = self.ports.store.load()
        self.look()

    def is_waited_for(self) -> bool:
        """Whether a pod came meanwhile that no node takes. Only the next tick decides for it; while nodes
        join one after the other, this one could follow them for a long time."""
        return self.ports.arrived_at() > self.decides_since

    def advance_found(self, find: Find) -> None:
        """What `find` names, for as long as it moves and there is time."""
        found: StateMachine[Work, Step[Work, Effect], Outcome] = RecordMachine(self, find)
        advance_work(found)


@dataclass(slots=True)
class RecordMachine:
    run: LeasedRun
    find_in: Find
    last_moment: float = 0.0
    """For the effects of this round, as given to its machine."""
    most_rounds: int = MAX_ROUNDS

    def has_time(self) -> bool:
        if self.run.leased.half_over():
            self.run.renew()
        return self.run.leased.has_time()

    def find(self) -> Work | None:
        return self.find_in(self.run.record)

    def advance(self, state: Work) -> Step[Work, Effect]:
        self.last_moment = self.run.leased.last_moment
        step = machine.advance(state, self.run.situation)
        # What is closed with this write has no one left to absorb the outcome.
        if machine.is_settled(step.state):
            return Step(step.state)
        return Step(step.state, tuple(effect for effect in step.effects if effect not in self.run.asked))

    def broken(self, before: Work, after: Work) -> Sequence[Broken]:
        return machine.check_invariants(before, after)

    def write(self, before: Work, step: Step[Work, Effect]) -> Work | None:
        run, after = self.run, step.state
        if machine.is_settled(after):
            self._close(before, after)
            return after
        if after == before:
            return None
        entries = self._moved(before, after)
        run.sentences.extend(entry.says for entry in entries)
        run.write(machine.written(run.record, after), entries)
        run.ports.observer.advanced(before, after)
        return after

    def _close(self, before: Work, after: Work) -> None:
        run = self.run
        closed = machine.close(after, run.situation)
        entries = self._moved(before, after)
        end = run.entry(facts.closed(after, closed.succeeded, closed.reason), after.id)
        run.sentences.append(end.says)
        run.write(closed.record, [*entries, end])
        run.ports.observer.advanced(before, after)
        run.ports.observer.closed(after, closed.succeeded)

    def is_ours(self, state: Work) -> bool:
        # The token must be known to be ours before anything is done.
        self.run.renew()
        if self.find() == state:
            return True
        self.run.look()
        return False

    def perform(self, step: Step[Work, Effect]) -> tuple[Outcome, ...]:
        run = self.run
        return perform(step.effects, run.ports, run.settings, run.lease, self.last_moment)

    def absorb(self, state: Work, outcomes: Sequence[Outcome]) -> None:
        """Write what the effects taught, and log each of them."""
        run = self.run
        entries = [
            run.entry(fact, fact.name)
            for fact in (facts.effect_done(outcome, state) for outcome in outcomes)
            if fact.outcome is not OutcomeKind.SKIPPED
        ]
        run.sentences.extend(entry.says for entry in entries)
        run.ports.observer.performed(outcomes)
        after = machine.absorb(state, outcomes, run.situation)
        refuse_if_broken(machine.check_invariants(state, after))
        # No write to put them into; what was done is logged all the same.
        if after == state:
            run.ports.store.append(entries)
        else:
            self._write_absorbed(state, after, entries)
        run.asked.update(outcome.effect for outcome in outcomes)

    def _write_absorbed(self, state: Work, after: Work, entries: list[LogEntry]) -> None:
        run = self.run
        moved = self._moved(state, after)
        raised = [run.entry(alarm, subject) for subject, alarm in facts.alarms(state, after)]
        try:
            run.write(machine.written(run.record, after), [*entries, *moved, *raised])
        except Conflict:
            run.ports.store.append(entries)  # the effects happened, whichever runner writes the record
            raise
        for alarm in raised:
            run.ports.notifier.notify(alarm)
        run.ports.observer.advanced(state, after)

    def goes_on(self, state: Work, outcomes: Sequence[Outcome]) -> bool:
        if machine.is_settled(state):
            return False
        if self.run.is_waited_for():
            return False  # the next tick looks by itself: a pod would wait for one more list of the cloud
        self.run.look()
        # A call that was postponed, or got no answer, is not repeated in the same round.
        answers = (OutcomeKind.DONE, OutcomeKind.NO_CAPACITY, OutcomeKind.REFUSED)
        return not outcomes or any(outcome.kind in answers for outcome in outcomes)

    def reload(self) -> None:
        self.run.reload()

    def _moved(self, before: Work, after: Work) -> list[LogEntry]:
        return [self.run.entry(fact, fact.name) for fact in facts.transitions(before, after)]


class Lane(Enum):
    LAUNCHING = auto()
    REMOVING = auto()


def open_in(lane: Lane, record: Record) -> Operation | None:
    return record.launching if lane is Lane.LAUNCHING else record.removing


def runs_in(lane: Lane, record: Record) -> int:
    return record.unclean_runs if lane is Lane.LAUNCHING else record.unclean_removal_runs


def with_runs(lane: Lane, record: Record, runs: int) -> Record:
    if lane is Lane.LAUNCHING:
        return changed(record, unclean_runs=runs)
    return changed(record, unclean_removal_runs=runs)


def clean(record: Record) -> Record:
    """The record without a run that counts against an operation."""
    if not record.unclean_runs and not record.unclean_removal_runs:
        return record
    return changed(record, unclean_runs=0, unclean_removal_runs=0)


def run_lane(run: LeasedRun, lane: Lane, counted: bool = False) -> None:
    """Advance what is open in this lane; `counted` where this run was written down as it began."""
    if open_in(lane, run.record) is None:
        return
    # Written before it runs: a process that dies can count nothing.
    if not counted:
        _count_run(run, lane)
    said = len(run.sentences)
    run.advance_found(partial(open_in, lane))
    run.ended.add(lane)
    left = open_in(lane, run.record)
    if left is not None and len(run.sentences) == said:
        run.sentences.append(narrate.goes_on(left))


def _count_run(run: LeasedRun, lane: Lane) -> None:
    """Count before running; what keeps crashing its runner, or never ends, is set aside. A lane that ran
    before in this tick ended well. One that is still to run keeps its count: else a removal that crashes its
    runner would never be set aside while a launch is open."""
    record = others = run.record
    for ended in run.ended:
        others = with_runs(ended, others, 0)
    operation = open_in(lane, record)
    why = None if operation is None else _why_set_aside(operation, runs_in(lane, record), run)
    if why is None:
        run.write(with_runs(lane, others, runs_in(lane, record) + 1))
        return
    alarm: LogEntry = run.entry(why, why.operation_id)
    run.write(_put_aside(lane, others), [alarm])
    run.ports.notifier.notify(alarm)
    run.sentences.append(alarm.says)


def _put_aside(lane: Lane, record: Record) -> Record:
    """What is already set aside in this lane is not forgotten for another; its instances are found as
    orphans."""
    if lane is Lane.LAUNCHING:
        aside = record.launching_aside or record.launching
        return replace(record, launching=None, launching_aside=aside, unclean_runs=0)
    kept = record.removing_aside or record.removing
    return replace(record, removing=None, removing_aside=kept, unclean_removal_runs=0)


def _why_set_aside(operation: Operation, runs: int, run: LeasedRun) -> Alarm | None:
    settings = run.settings
    # Crash table: crashing-operation. An operation that kills every runner must not stop all others.
    if runs >= settings.max_unclean_runs:
        return Alarm(AlarmKind.OPERATION_CRASHES, operation_id=operation.id, runs=runs)
    # A launch that is extended begins again.
    since = operation.asked_at if isinstance(operation, ScaleUp) else operation.started_at
    limit = ENDLESS * max(settings.stuck_seconds, settings.join_timeout_seconds)
    if run.now - since < limit:
        return None
    return Alarm(AlarmKind.OPERATION_ENDLESS, operation_id=operation.id, seconds=limit)
