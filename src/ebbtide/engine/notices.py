"""Spot notices: accepted and answered at once, each under its own lease, independent of the cluster's.

The record is the same, so minimum, maximum and the one owner of a node hold across both; a write that
conflicts with another is repeated on top of it. Before that, a record that another tool or a person left
half written (`scalingInProgress` without an operation, a lock without an end) is reported and corrected:
neither may stop all scaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ebbtide.core.operations import spot
from ebbtide.core.operations.removals import with_time_again
from ebbtide.core.operations.spot import with_spot
from ebbtide.engine.leased import Leased, released
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.record_machine import LeasedRun
from ebbtide.errors import Conflict, EbbtideError, LeaseLost
from ebbtide.model.events import Alarm, AlarmKind, SpotEvent
from ebbtide.model.operation import Spot, SpotNotice, spot_id
from ebbtide.model.record import Record, spot_lease_name
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of
from ebbtide.redact import redact

MAX_TRIES = 10
SHORT_LEASE_SECONDS = 30


def answer_notices(ports: Ports, settings: Settings, owner: str, deadline: float) -> list[str]:
    """What was done about spot notices, new and open ones, in sentences."""
    sentences: list[str] = []
    notices = _receive(ports, sentences)
    record = ports.store.load()
    sentences += heal(ports, record)
    if not notices and not record.spots:
        return sentences
    settings = ports.settings_now(settings)  # a pool that sleeps gets no replacement
    snapshot = observe(ports, settings)
    if not snapshot.problems:
        for notice in notices:
            sentences += _take_in(ports, settings, notice, snapshot)
    for open_spot in ports.store.load().spots:
        try:
            sentences += _advance(ports, settings, owner, deadline, open_spot)
        except Exception as error:  # one that fails, even by a bug, must not keep the others waiting
            detail = redact(f"{open_spot.instance_id}: {type(error).__name__}: {error}")
            fact = Alarm(AlarmKind.SPOT_FAILED, detail, open_spot.id)
            alarm = entry_of(ports.new_id(), int(ports.clock.now()), fact, open_spot.id)
            ports.notifier.notify(alarm)
            sentences.append(alarm.says)
    return sentences


def lease_seconds(settings: Settings) -> int:
    """Of the lease on one notice. It is short, since a runner that dies must not keep it for longer
    than the notice lasts, and renewed while work continues; the configured time is its upper bound."""
    return min(settings.spot_lock_ttl_seconds, max(SHORT_LEASE_SECONDS, 2 * settings.lease_margin_seconds))


def _receive(ports: Ports, sentences: list[str]) -> Sequence[SpotNotice]:
    """A queue that cannot be read must not stop the rest of the tick."""
    try:
        return ports.inbox.receive()
    except EbbtideError as error:
        fact = Alarm(AlarmKind.INBOX_UNREADABLE, str(error))
        alarm = entry_of(ports.new_id(), int(ports.clock.now()), fact)
        ports.notifier.notify(alarm)
        sentences.append(alarm.says)
        return ()


def _take_in(ports: Ports, settings: Settings, notice: SpotNotice, snapshot: Snapshot) -> list[str]:
    for _ in range(MAX_TRIES):
        record = ports.store.load()
        now = int(ports.clock.now())
        # A list that lags must not drop the only notice of an interruption.
        if spot.may_be_ours(notice, snapshot, settings, now):
            return [f"{notice.kind} of {notice.instance_id} waits: the cloud does not list it now"]
        changed, answer = spot.take_in(record, notice, snapshot, settings, now)
        fact = SpotEvent(
            operation_id=spot_id(notice.instance_id),
            instance_id=notice.instance_id,
            notice=notice.kind,
            answer=answer,
            noticed_at=notice.noticed_at,
            deadline=notice.deadline,
            node_name=_node_on(notice.instance_id, snapshot),
        )
        entry = entry_of(ports.new_id(), now, fact, notice.instance_id)
        try:
            if changed == record:
                ports.store.append([entry])
            else:
                ports.store.write(changed, None, [entry])
        except Conflict:
            continue
        started = changed.spot_for(notice.instance_id)
        if started is not None and record.spot_for(notice.instance_id) is None:
            ports.observer.began(started)
        # After the write: a runner that dies in between gets the notice again.
        ports.inbox.acknowledge(notice)
        return [entry.says]
    return [f"{notice.kind} of {notice.instance_id} waits: the record changes too often"]


def _node_on(instance_id: str, snapshot: Snapshot) -> str:
    """People know nodes by name, and by nothing else once the instance is gone."""
    return next((name for name, one in snapshot.instance_of.items() if one.id == instance_id), "")


def _advance(ports: Ports, settings: Settings, owner: str, deadline: float, open_spot: Spot) -> list[str]:
    ttl, asked = lease_seconds(settings), ports.clock.now()
    try:
        lease = ports.store.acquire(spot_lease_name(open_spot.instance_id), owner, ttl)
    except LeaseLost:
        return []
    sentences: list[str] = []
    instance_id = open_spot.instance_id
    leased = Leased(ports.store, ports.clock, lease, ttl, settings.lease_margin_seconds, deadline, asked)

    def left(error: Conflict) -> None:
        sentences.append(f"{open_spot.kind} of {instance_id} left to another runner: {error}")

    with released(leased, left, partial(_forgive, ports, instance_id)):
        run = LeasedRun(ports, settings, leased, ports.store.load(), observe(ports, settings), sentences)
        if _count_run(run, instance_id):
            run.advance_found(lambda record: record.spot_for(instance_id))
            _count_clean(run, instance_id)
    return sentences


def _count_run(run: LeasedRun, instance_id: str) -> bool:
    """Count before running, on whatever another writes meanwhile: an interruption cannot wait for it."""
    for _ in range(MAX_TRIES):
        try:
            return _counted(run, instance_id)
        except LeaseLost:
            raise
        except Conflict:
            run.reload()
    return False


def _counted(run: LeasedRun, instance_id: str) -> bool:
    """Whether it may run; what keeps crashing its runner is given up."""
    current = run.record.spot_for(instance_id)
    if current is None:
        return False
    # Crash table: crashing-operation. A notice that kills every runner must not stop all others.
    if current.unclean_runs >= run.settings.max_unclean_runs:
        about = f"{current.kind} of {current.instance_id}"
        fact = Alarm(AlarmKind.SPOT_CRASHES, about, current.id, runs=current.unclean_runs)
        alarm = run.entry(fact, current.id)
        spots = tuple(other for other in run.record.spots if other.id != current.id)
        run.write(replace(run.record, spots=spots), [alarm])
        run.ports.notifier.notify(alarm)
        run.ports.observer.closed(current, False)
        return False
    counted = replace(current, unclean_runs=current.unclean_runs + 1)
    # Time in which its runner was dead costs no attempt to drain.
    if current.unclean_runs and current.removal is not None:
        again = with_time_again(current.removal, run.settings, run.now)
        counted = replace(counted, removal=again)
    run.write(with_spot(run.record, counted))
    return True


def _forgive(ports: Ports, instance_id: str) -> None:
    """A run stopped by an outside fault does not count against its answer."""
    with suppress(EbbtideError):
        record = ports.store.load()
        current = record.spot_for(instance_id)
        if current is not None and current.unclean_runs:
            ports.store.write(with_spot(record, replace(current, unclean_runs=0)), None)


def _count_clean(run: LeasedRun, instance_id: str) -> None:
    current = run.record.spot_for(instance_id)
    if current is not None and current.unclean_runs:
        run.write(with_spot(run.record, replace(current, unclean_runs=0)))


def heal(ports: Ports, record: Record) -> list[str]:
    """Write what was read of it, with the alarm; another who writes first has read the same."""
    # Crash table: half-written. Another tool may have stopped between two fields.
    if not record.contradictions:
        return []
    now = int(ports.clock.now())
    told = [Alarm(AlarmKind.RECORD_HEALED, says) for says in record.contradictions]
    alarms = [entry_of(ports.new_id(), now, alarm) for alarm in told]
    with suppress(Conflict):
        ports.store.write(replace(record, contradictions=()), None, alarms)
    for alarm in alarms:
        ports.notifier.notify(alarm)
    return [alarm.says for alarm in alarms]
