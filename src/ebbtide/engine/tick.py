"""The tick: the same in the daemon, in a Lambda, in `ebbtide once` and in the simulator.

Answer spot notices; take the lease; load the record; observe; advance the open operation, or decide
and begin one; record; perform; say in a sentence what was done and why; release.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from ebbtide import narrate
from ebbtide.core.decide import decide, operation_id
from ebbtide.core.leaving import track_leaving
from ebbtide.core.operations import consolidate, facts, scale_down, scale_up
from ebbtide.core.orphans import track_orphans
from ebbtide.core.track import track
from ebbtide.engine.journal import consolidation_entry, decision_entry
from ebbtide.engine.notices import answer_notices
from ebbtide.engine.observe import observe
from ebbtide.engine.outside import Outside
from ebbtide.engine.rounds import Hold, InvariantBroken, advance_work
from ebbtide.errors import Conflict, EbbtideError, LeaseLost
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import Alarm, AlarmKind, Inputs
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import Operation
from ebbtide.model.record import CLUSTER_LEASE, Record
from ebbtide.model.settings import Settings

ENDLESS = 4
"""After so many times the longest that an operation may take, it can only be waiting for a person: an
instance that cannot be terminated, say. Launches must not wait with it."""


@dataclass(frozen=True, slots=True)
class TickReport:
    at: int
    says: str
    decision: Decision | None = None
    held: bool = True
    """Whether this runner had the cluster's lease."""
    spots_open: int = 0
    """Spot notices that are still being answered: the next tick must not be long in coming."""
    quiet: bool = False
    """Whether it only found nothing to do, or stood by."""
    problems: tuple[str, ...] = ()
    """Why the cluster or the cloud could not be seen whole, at its last look."""


def tick(
    outside: Outside, settings: Settings, owner: str, deadline: float, keeps_lease: bool = False
) -> TickReport:
    """One round. With `keeps_lease` the lease is not given back after a good end: whoever ticks again
    soon stays the one who acts."""
    sentences = answer_notices(outside, settings, owner, deadline)
    try:
        lease = outside.store.acquire(CLUSTER_LEASE, owner, settings.lock_ttl_seconds)
    except LeaseLost as held:
        says = "; ".join([*sentences, f"stood by: {held}"])
        return TickReport(int(outside.clock.now()), says, held=False, quiet=not sentences)
    decision = None
    spots_open = 0
    problems: tuple[str, ...] = ()
    try:
        settings = outside.settings_now(settings)
        record, snapshot = outside.store.load(), observe(outside, settings)
        ttl = settings.lock_ttl_seconds
        hold = Hold(outside, settings, lease, deadline, record, snapshot, ttl, sentences)
        decision = _run(hold)
        spots_open, problems = len(hold.record.spots), hold.snapshot.problems
        outside.observer.looked(hold.snapshot, hold.record)
    except Conflict as error:
        _forgive(outside)
        sentences.append(f"left the rest to the next tick: {error}")
    except Exception as error:
        if isinstance(error, EbbtideError) and not isinstance(error, InvariantBroken):
            _forgive(outside)
        with suppress(EbbtideError):
            outside.store.release(lease)
        raise
    if not keeps_lease:
        outside.store.release(lease)
    idle = decision is not None and decision.action is Action.NOTHING
    quiet = idle and len(sentences) == 1
    return TickReport(
        int(outside.clock.now()),
        "; ".join(sentences),
        decision,
        spots_open=spots_open,
        quiet=quiet,
        problems=problems,
    )


def _run(hold: Hold) -> Decision | None:
    _bring_up_to_date(hold)
    decision = None
    if hold.record.operation is None:
        decision = _decide(hold)
    else:
        _count_run(hold)
    if hold.record.operation is not None:
        said = len(hold.sentences)
        advance_work(hold, lambda record: record.operation)
        if hold.record.operation is not None and len(hold.sentences) == said:
            hold.sentences.append(narrate.goes_on(hold.record.operation))
    if hold.record.unclean_runs:
        hold.write(replace(hold.record, unclean_runs=0))
    return decision


def _forgive(outside: Outside) -> None:
    """A run that was stopped by a fault outside is not held against its operation. The lease may be over by
    now; that the record did not change meanwhile is condition enough for a counter."""
    with suppress(EbbtideError):
        record = outside.store.load()
        if record.operation is not None and record.unclean_runs:
            outside.store.write(replace(record, unclean_runs=0), None)


def _bring_up_to_date(hold: Hold) -> None:
    """Timers and orphans; kept in memory until the next write of this tick."""
    record, warnings = track(hold.snapshot, hold.record, hold.settings, hold.now)
    record = track_leaving(hold.snapshot, record, hold.now)
    hold.record = track_orphans(hold.snapshot, record, hold.settings, hold.now)
    hold.sentences.extend(warnings)
    for warning in warnings:
        hold.outside.notifier.notify(hold.entry(Alarm(AlarmKind.OBSERVATION, warning)))


def _decide(hold: Hold) -> Decision:
    now = hold.now
    inputs = Inputs(hold.snapshot, hold.record, hold.settings, now)
    decision = decide(hold.snapshot, hold.record, hold.settings, now, hold.outside.new_id())
    hold.sentences.append(narrate.tick_of(decision))
    record, entries = hold.record, []
    if _is_news(decision, hold):
        entries.append(decision_entry(decision, inputs if hold.outside.keeps_inputs else None))
        evaluated = consolidation_entry(hold.outside.new_id(), decision, hold.settings.consolidation)
        entries += [evaluated] if evaluated is not None else []
        record = replace(record, decision_key=decision.key, decision_logged_at=now)
    record = _begin(decision, record, hold)
    operation = record.operation
    if operation is not None:
        record = replace(record, unclean_runs=1)
        entries.append(hold.entry(facts.begun(decision, operation), operation.id))
    hold.write(record, entries)
    hold.outside.observer.decided(decision)
    if operation is not None:
        hold.outside.observer.began(operation)
    return decision


def _is_news(decision: Decision, hold: Hold) -> bool:
    """Whether it must be logged: something is done, says something new, or was long not said."""
    if decision.action is not Action.NOTHING or decision.key != hold.record.decision_key:
        return True
    return hold.now - hold.record.decision_logged_at >= hold.settings.decision_log_seconds


def _begin(decision: Decision, record: Record, hold: Hold) -> Record:
    name = operation_id(decision.at, decision.id)
    match decision.action:
        case Action.SCALE_UP | Action.ADOPT:
            return replace(record, operation=scale_up.begin(decision, name))
        case Action.SCALE_DOWN | Action.FORGET:
            return replace(record, operation=scale_down.begin(decision, name))
        case Action.RELEASE:
            # Only the operation that signed a cordon may lift it, so that one is opened again.
            owner = hold.snapshot.cluster.node_named[decision.removals[0].node_name].owner
            same = owner.operation_id if owner else name
            return replace(record, operation=scale_down.begin(decision, same))
        case Action.CONSOLIDATE:
            return consolidate.begun(record, decision, name, hold.settings)
        case Action.NOTHING:
            return record


def _count_run(hold: Hold) -> None:
    """Count before running; what keeps crashing its runner, or never ends, is set aside."""
    record = hold.record
    why = _why_set_aside(record.operation, hold) if record.operation is not None else None
    if why is None or record.operation is None:
        hold.write(replace(record, unclean_runs=record.unclean_runs + 1))
        return
    # What is already set aside is not forgotten for this one; its instances are found as orphans.
    aside = record.operation if record.set_aside is None else record.set_aside
    alarm: LogEntry = hold.entry(why, record.operation.id)
    hold.write(replace(record, operation=None, set_aside=aside, unclean_runs=0), [alarm])
    hold.outside.notifier.notify(alarm)
    hold.sentences.append(alarm.says)


def _why_set_aside(operation: Operation, hold: Hold) -> Alarm | None:
    record, settings = hold.record, hold.settings
    if record.unclean_runs >= settings.max_unclean_runs:
        return Alarm(AlarmKind.OPERATION_CRASHES, operation_id=operation.id, runs=record.unclean_runs)
    limit = ENDLESS * max(settings.stuck_seconds, settings.join_timeout_seconds)
    if hold.now - operation.started_at < limit:
        return None
    return Alarm(AlarmKind.OPERATION_ENDLESS, operation_id=operation.id, seconds=limit)
