"""`ebbtide pause` and `ebbtide resume`: one switch for all removals, kept in the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import ConfigPath, open_store, read_config
from ebbtide.entrypoints.cli.writing import write_lines
from ebbtide.entrypoints.views.texts import why_not_plain
from ebbtide.errors import Usage

if TYPE_CHECKING:
    from ebbtide.model.record import Record
    from ebbtide.ports import Store


def pause(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why; shown wherever a removal is refused.")] = "",
    config: ConfigPath = None,
) -> None:
    """Stop all removals. Launches continue, and so do removals that can no longer be undone."""
    if wrong := why_not_plain(reason):
        raise Usage(f"--reason {wrong}; nothing was changed. Write it in plain words.")
    found = read_config(ctx, config)
    why = f" ({reason})" if reason else ""
    with_switch(open_store(found), paused=True, reason=reason)
    write_lines([f"Removals are paused{why}. `ebbtide resume` ends the pause."])


def resume(ctx: typer.Context, config: ConfigPath = None) -> None:
    """End the pause, and resume the operations that were set aside."""
    from ebbtide.engine.switch import resumed

    found = read_config(ctx, config)
    before = with_switch(open_store(found), paused=False)
    write_lines([resumed(before)])


def with_switch(store: Store, paused: bool, reason: str = "") -> Record:
    from ebbtide.bootstrap import SystemClock, TimeOrderedIds
    from ebbtide.engine.switch import set_switch
    from ebbtide.model.events import SwitchedBy

    try:
        return set_switch(store, SystemClock(), TimeOrderedIds(), SwitchedBy.PERSON, paused, reason)
    finally:
        store.close()
