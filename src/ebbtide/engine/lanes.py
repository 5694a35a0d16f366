"""The two lanes of a tick: one operation that adds nodes, one that takes them away.

Each lane counts its own runs, before it runs: what crashes its runner in one lane is set aside without
taking the other along. The lanes run one after the other, under one lease, and write the one record.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from functools import partial

from ebbtide import narrate
from ebbtide.engine.record_machine import LeasedRun
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import Operation, ScaleUp
from ebbtide.model.record import Record

ENDLESS = 4
"""After so many times the longest that an operation may take, it can only wait for a person. What the cloud
refuses to terminate does not come this far: it is set aside alone."""


class Lane(Enum):
    LAUNCHING = auto()
    REMOVING = auto()


def open_in(lane: Lane, record: Record) -> Operation | None:
    return record.launching if lane is Lane.LAUNCHING else record.removing


def runs_in(lane: Lane, record: Record) -> int:
    return record.unclean_runs if lane is Lane.LAUNCHING else record.unclean_removal_runs


def with_runs(lane: Lane, record: Record, runs: int) -> Record:
    if lane is Lane.LAUNCHING:
        return replace(record, unclean_runs=runs)
    return replace(record, unclean_removal_runs=runs)


def clean(record: Record) -> Record:
    """The record without a run that counts against an operation."""
    if not record.unclean_runs and not record.unclean_removal_runs:
        return record
    return replace(record, unclean_runs=0, unclean_removal_runs=0)


def run_lane(run: LeasedRun, lane: Lane, counted: bool = False) -> None:
    """Advance what is open in this lane; `counted` where this run was written down as it began."""
    if open_in(lane, run.record) is None:
        return
    if not counted:
        _count_run(run, lane)
    said = len(run.sentences)
    run.advance_found(partial(open_in, lane))
    left = open_in(lane, run.record)
    if left is not None and len(run.sentences) == said:
        run.sentences.append(narrate.goes_on(left))


def _count_run(run: LeasedRun, lane: Lane) -> None:
    """Count before running; what keeps crashing its runner, or never ends, is set aside. A lane that ran
    before in this tick ended well."""
    record = run.record
    others = with_runs(lane, clean(record), runs_in(lane, record))
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
    # Crash table: crashing-operation.
    if runs >= settings.max_unclean_runs:
        return Alarm(AlarmKind.OPERATION_CRASHES, operation_id=operation.id, runs=runs)
    # A launch that is extended begins again.
    since = operation.asked_at if isinstance(operation, ScaleUp) else operation.started_at
    limit = ENDLESS * max(settings.stuck_seconds, settings.join_timeout_seconds)
    if run.now - since < limit:
        return None
    return Alarm(AlarmKind.OPERATION_ENDLESS, operation_id=operation.id, seconds=limit)
