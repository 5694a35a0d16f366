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
    """An operation that was set aside is open again, with all its time before it, unless another is open in
    its lane: then it waits. What the cloud refused to terminate is asked for again at once."""
    launching, removing = record.launching_aside, record.removing_aside
    if launching is not None and record.launching is None:
        reopened = replace(launching, started_at=now)
        record = replace(record, launching=reopened, launching_aside=None, unclean_runs=0)
    if removing is not None and record.removing is None:
        again = replace(removing, started_at=now)
        record = replace(record, removing=again, removing_aside=None, unclean_removal_runs=0)
    return replace(record, refused=tuple(replace(one, retry_at=now) for one in record.refused))


def resumed(before: Record) -> str:
    """What resuming did to the record as it was."""
    waits = [
        (aside, in_progress)
        for aside, in_progress in (
            (before.removing_aside, before.removing),
            (before.launching_aside, before.launching),
        )
        if aside is not None and in_progress is not None
    ]
    if waits:
        (aside, in_progress), *_ = waits
        return (
            f"Operation {aside.id} stays set aside, and removals wait, until {in_progress.id} is done: "
            "run `ebbtide resume` again then."
        )
    if before.all_set_aside:
        names = ", ".join(one.id for one in before.all_set_aside)
        return f"Operation {names}, which had been set aside, continues. Removals are allowed again."
    return "Removals are allowed again." if before.paused else "Removals were not paused."
