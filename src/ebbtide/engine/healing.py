"""A record that others left half written: told aloud, and put right by the next write.

Another tool of the same table, or a person, may leave `scalingInProgress` without an operation, or a lock
without an end. Neither may stop all scaling.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ebbtide.engine.ports import Ports
from ebbtide.errors import Conflict
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.record import Record
from ebbtide.narrate import entry_of


def heal(ports: Ports, record: Record) -> list[str]:
    """Write what was read of it, with the alarm; another who writes first has read the same."""
    # Crash table: half-written.
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
