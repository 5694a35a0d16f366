"""The tick: the same in the daemon, in a Lambda, in `ebbtide once` and in the simulator.

Answer spot notices; take the lease; load the record; observe; add what is expected; let a removal give way to
demand; decide, and begin or extend an operation; advance what is open, launches first; record; perform; say
in a sentence what was done and why; release.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ebbtide import narrate
from ebbtide.collector import collector_paused
from ebbtide.core.nodes.decide import operation_id
from ebbtide.core.nodes.orphans import taken_up_again
from ebbtide.core.nodes.timers import pressing_at
from ebbtide.core.operations import consolidate, facts, machine, scale_down, scale_up
from ebbtide.engine.journal import consolidation_entry, decision_entry
from ebbtide.engine.leased import Leased, released
from ebbtide.engine.notices import answer_notices
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.record_machine import Lane, LeasedRun, clean, open_in, run_lane, with_runs
from ebbtide.engine.rounds import refuse_if_broken
from ebbtide.errors import Conflict, EbbtideError, LeaseLost
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import Alarm, AlarmKind, Inputs
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import ScaleUp
from ebbtide.model.record import CLUSTER_LEASE, Record, changed
from ebbtide.model.settings import Settings


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
    due_at: int | None = None
    """When something that is pending now will be worth a launch: a tick should not come later."""


def tick(
    ports: Ports, settings: Settings, owner: str, deadline: float, keeps_lease: bool = False
) -> TickReport:
    """One round. With `keeps_lease` the lease is not released after success: a runner that ticks again
    soon stays the one who acts."""
    # Before the lease of the cluster: an interruption cannot wait for another runner.
    sentences = answer_notices(ports, settings, owner, deadline)
    ttl, asked = settings.lock_ttl_seconds, ports.clock.now()
    try:
        lease = ports.store.acquire(CLUSTER_LEASE, owner, ttl)
    except LeaseLost as held:
        says = "; ".join([*sentences, f"stood by: {held}"])
        return TickReport(int(ports.clock.now()), says, held=False, quiet=not sentences)
    decision = None
    spots_open = 0
    problems: tuple[str, ...] = ()
    due_at: int | None = None
    leased = Leased(ports.store, ports.clock, lease, ttl, settings.lease_margin_seconds, deadline, asked)

    def left(error: Conflict) -> None:
        sentences.append(f"left the rest to the next tick: {error}")

    with released(leased, left, partial(_forgive, ports), keeps_lease), collector_paused():
        settings, began = ports.settings_now(settings), ports.clock.now()
        record, snapshot = ports.store.load(), observe(ports, settings)
        settings = ports.expecting(settings, snapshot)
        run = LeasedRun(ports, settings, leased, record, snapshot, sentences)
        run.decides_since = began
        decision = _run(run)
        spots_open, problems = len(run.record.spots), run.snapshot.problems
        due_at = pressing_at(run.record, settings, run.now)
        ports.observer.looked(run.snapshot, run.record)
    idle = decision is not None and decision.action is Action.NOTHING
    quiet = idle and len(sentences) == 1
    return TickReport(
        int(ports.clock.now()),
        "; ".join(sentences),
        decision,
        spots_open=spots_open,
        quiet=quiet,
        problems=problems,
        due_at=due_at,
    )


def _run(run: LeasedRun) -> Decision:
    _bring_up_to_date(run)
    open_before = {lane for lane in Lane if open_in(lane, run.record) is not None}
    gives_way = machine.gives_way(run.record.removing, run.situation)
    if gives_way:
        # What is given back now need not be launched: pods may use it before the next tick.
        run_lane(run, Lane.REMOVING)
    decision = _decide(run)
    run_lane(run, Lane.LAUNCHING, counted=Lane.LAUNCHING not in open_before)
    # It ran above, before the decision.
    if not gives_way:
        run_lane(run, Lane.REMOVING, counted=Lane.REMOVING not in open_before)
    # Both lanes came through, so no crash counts against them any more.
    if clean(run.record) != run.record:
        run.write(clean(run.record))
    return decision


def _forgive(ports: Ports) -> None:
    """A run stopped by an outside fault does not count against its operation. The lease may be over by
    now; that the record did not change meanwhile is condition enough for a counter."""
    with suppress(EbbtideError):
        record = ports.store.load()
        # Without an operation the counts mean nothing, and a write would only meet others.
        if record.scaling_in_progress and clean(record) != record:
            ports.store.write(clean(record), None)


def _bring_up_to_date(run: LeasedRun) -> None:
    """Timers and orphans; kept in memory until the next write of this tick."""
    thinking = run.ports.thinking
    run.record, warnings = thinking.track(run.snapshot, run.record, run.settings, run.now)
    for warning in map(str, warnings):
        run.sentences.append(warning)
        run.ports.notifier.notify(run.entry(Alarm(AlarmKind.OBSERVATION, warning)))


def _decide(run: LeasedRun) -> Decision:
    now, before = run.now, run.record
    inputs = Inputs(run.snapshot, before, run.settings, now)
    decision = run.ports.thinking.decide(run.snapshot, before, run.settings, now, run.ports.new_id())
    idle = decision.action is Action.NOTHING
    if not (idle and before.scaling_in_progress):
        run.sentences.append(narrate.tick_of(decision))
    record, entries = before, []
    if _is_news(decision, run):
        entries.append(decision_entry(decision, inputs if run.ports.keeps_inputs else None))
        evaluated = consolidation_entry(run.ports.new_id(), decision, run.settings.consolidation)
        entries += [evaluated] if evaluated is not None else []
        record = changed(record, decision_key=decision.key, decision_logged_at=now)
    record = _begin(decision, record, run)
    if idle and before.scaling_in_progress:
        return decision  # written with the first run of what is open
    entries += _began(decision, before, record, run)
    run.write(_counted(before, record), entries)
    run.ports.observer.decided(decision)
    _tell(before, run.record, run)
    return decision


def _counted(before: Record, after: Record) -> Record:
    """With the first run of what was begun: it follows at once."""
    for lane in Lane:
        if open_in(lane, before) is None and open_in(lane, after) is not None:
            after = with_runs(lane, after, 1)
    return after


def _began(decision: Decision, before: Record, after: Record, run: LeasedRun) -> list[LogEntry]:
    entries = []
    for lane in Lane:
        old, new = open_in(lane, before), open_in(lane, after)
        if old is None and new is not None:
            entries.append(run.entry(facts.started(decision, new), new.id))
        elif old is not None and new is not None and new != old:
            entries += [run.entry(fact, fact.name) for fact in facts.transitions(old, new)]
    return entries


def _tell(before: Record, after: Record, run: LeasedRun) -> None:
    for lane in Lane:
        old, new = open_in(lane, before), open_in(lane, after)
        if old is None and new is not None:
            run.ports.observer.began(new)
        elif old is not None and new is not None and new != old:
            run.ports.observer.advanced(old, new)


def _is_news(decision: Decision, run: LeasedRun) -> bool:
    """Whether it must be logged: something is done, says something new, or was long not said. That nothing
    more is done while an operation is open is none."""
    if decision.action is Action.NOTHING and run.record.scaling_in_progress:
        return False
    if decision.action is not Action.NOTHING or decision.key != run.record.decision_key:
        return True
    return run.now - run.record.decision_logged_at >= run.settings.decision_log_seconds


def _begin(decision: Decision, record: Record, run: LeasedRun) -> Record:
    name = operation_id(decision.at, decision.id)
    match decision.action:
        case Action.SCALE_UP | Action.ADOPT:
            return replace(record, launching=_launching(decision, record, name))
        case Action.SCALE_DOWN | Action.FORGET | Action.REPAIR | Action.REPLACE:
            return replace(record, removing=scale_down.begin(decision, name))
        case Action.RELEASE:
            # Only the operation that signed a cordon may lift it, so one is opened again.
            owner = run.snapshot.cluster.node_named[decision.removals[0].node_name].owner
            same = owner.operation_id if owner else name
            return replace(record, removing=scale_down.begin(decision, same, excused=True))
        case Action.RETRY:
            return taken_up_again(record, decision)
        case Action.CONSOLIDATE:
            return consolidate.start(record, decision, name, run.settings, run.snapshot)
        case Action.NOTHING:
            return record


def _launching(decision: Decision, record: Record, name: str) -> ScaleUp:
    # Crash table: extend-crash. Appended to the open operation, each slot with its own key, so nothing is
    # launched twice.
    if record.launching is None:
        return scale_up.begin(decision, name)
    extended = scale_up.extend(record.launching, decision)
    refuse_if_broken(machine.check_invariants(record.launching, extended))
    return extended
