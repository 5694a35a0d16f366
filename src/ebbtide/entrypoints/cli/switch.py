"""`ebbtide pause` and `ebbtide resume`: one switch for all removals, kept in the record."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import ConfigPath, open_store, read_config
from ebbtide.entrypoints.cli.writing import write_lines
from ebbtide.errors import Conflict

if TYPE_CHECKING:
    from ebbtide.model.record import Record
    from ebbtide.ports import Store

ATTEMPTS = 20
PATIENCE_SECONDS = 0.1


def pause(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why; shown wherever a removal is refused.")] = "",
    config: ConfigPath = None,
) -> None:
    """Stop all removals. Launches go on, and so does what can no longer be taken back."""
    found = read_config(ctx, config)
    why = f" ({reason})" if reason else ""
    with_switch(open_store(found), f"removals paused by a person{why}", paused=True, reason=reason)
    write_lines([f"Removals are paused{why}. `ebbtide resume` lets them go on."])


def resume(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Let removals go on, and take up again what was set aside."""
    found = read_config(ctx, config)
    before = with_switch(open_store(found), "removals resumed by a person", paused=False)
    write_lines([resumed(before)])


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


def with_switch(store: Store, says: str, paused: bool, reason: str = "") -> Record:
    """Write the switch whatever else is being written; returns the record as it was before."""
    from ebbtide.bootstrap import TimeOrderedIds
    from ebbtide.model.log import LogEntry, LogKind

    new_id = TimeOrderedIds()
    try:
        for attempt in range(ATTEMPTS):
            before = store.load()
            after = replace(before, paused=paused, pause_reason=reason)
            entry = LogEntry(new_id(), int(time.time()), LogKind.SWITCH, says)
            try:
                store.write(after if paused else taken_up(after, int(time.time())), None, [entry])
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
                time.sleep(PATIENCE_SECONDS)
            else:
                return before
        raise AssertionError("unreachable")
    finally:
        store.close()


def taken_up(record: Record, now: int) -> Record:
    """An operation that was set aside is open again, with all its time before it, unless another is open:
    then it waits."""
    if record.set_aside is None or record.operation is not None:
        return record
    operation = replace(record.set_aside, started_at=now)
    return replace(record, operation=operation, set_aside=None, unclean_runs=0)
