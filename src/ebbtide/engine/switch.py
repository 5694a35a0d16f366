"""One switch for all removals, kept in the record, set by people at a terminal, by the API or on the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ebbtide.errors import Conflict
from ebbtide.model.events import SwitchedBy, SwitchSet
from ebbtide.model.record import Record
from ebbtide.narrate import entry_of
from ebbtide.ports import Clock, Store

ATTEMPTS = 20
PATIENCE_SECONDS = 0.1


def set_switch(
    store: Store, clock: Clock, new_id: Callable[[], str], by: SwitchedBy, paused: bool, reason: str = ""
) -> Record:
    """Write the switch whatever else is being written; returns the record as it was before."""
    for attempt in range(1, ATTEMPTS + 1):
        before, now = store.load(), int(clock.now())
        after = replace(before, paused=paused, pause_reason=reason)
        entry = entry_of(new_id(), now, SwitchSet(paused, by, reason))
        try:
            store.write(after if paused else taken_up(after, now), None, [entry])
        except Conflict:
            if attempt == ATTEMPTS:
                raise
            clock.sleep(PATIENCE_SECONDS)
        else:
            break
    return before


def taken_up(record: Record, now: int) -> Record:
    """An operation that was set aside is open again, with all its time before it, unless another is open:
    then it waits."""
    if record.set_aside is None or record.operation is not None:
        return record
    operation = replace(record.set_aside, started_at=now)
    return replace(record, operation=operation, set_aside=None, unclean_runs=0)


def resumed(before: Record) -> str:
    """What resuming did to the record as it was."""
    aside, under_way = before.set_aside, before.operation
    if aside is not None and under_way is not None:
        return (
            f"Operation {aside.id} stays set aside, and removals wait, until {under_way.id} is done: "
            "run `ebbtide resume` again then."
        )
    if aside is not None:
        return f"Operation {aside.id}, which had been set aside, is taken up again. Removals may go on."
    return "Removals may go on." if before.paused else "Removals were not paused."
