"""`ebbtide status` and `ebbtide log`: what the record and the log say; and `ebbtide pause` and `resume`: one
switch for all removals, kept in the record.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, existing_store, open_store, read_config
from ebbtide.entrypoints.views.inputs import why_not_plain
from ebbtide.entrypoints.views.terminal import QUIET, STRONG, moment, rows, write_json, write_lines
from ebbtide.errors import Usage
from ebbtide.model.log import LogEntry, LogKind

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.model.record import Record
    from ebbtide.ports import Store


def status(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show the record: which runner is active, what is in progress, and what was decided last."""
    found = read_config(ctx, config)
    store = existing_store(found)
    if store is None:
        _write_nothing_yet(found, as_json)
        return
    try:
        record = store.load()
        last = next(iter(store.read_log([LogKind.DECISION], limit=1, brief=True)), None)
        alarm = next(iter(store.read_log([LogKind.ALARM], limit=1, brief=True)), None)
        asleep = _asleep(found, store)
    finally:
        store.close()
    if as_json:
        write_json({**_as_json(found, record, last, alarm), "asleep": asleep})
        return
    from ebbtide.entrypoints import prices
    from ebbtide.entrypoints.views import decisions
    from ebbtide.entrypoints.views.decisions import budget_text, record_lines

    now = time.time()
    lines = [_title(found), *record_lines(record, found.settings, now), Text()]
    held = decisions.budget_lines(found.settings, record, int(now))
    known = prices.in_short(prices.rows_of(found.settings.pools, found.prices))
    lines += rows([*(("budget", budget_text(line, now)) for line in held), ("prices", known)])
    if asleep:
        lines += [Text(), *rows((f"{each['phase']} {each['policy']}", each["says"]) for each in asleep)]
    if record.last_said:
        title = Text.assemble(("last tick ", QUIET), moment(record.ticked_at))
        lines += [Text(), title, Text(record.last_said)]
    if last is not None:
        lines += [Text(), Text.assemble(("last decision ", QUIET), last.subject or last.id), Text(last.says)]
    if alarm is not None:
        lines += [Text(), Text.assemble(("last alarm ", QUIET), moment(alarm.at)), Text(alarm.says, "red")]
    write_lines(lines)


def _asleep(config: Config, store: Store) -> list[dict[str, Any]]:
    """Policies that sleep or wake, and how long it takes until they are ready. A store that was made before
    there were policies has none."""
    from ebbtide.entrypoints.cli.policies import scaling_of
    from ebbtide.entrypoints.views.policies import told
    from ebbtide.errors import StoreUnusable

    try:
        shapes = told(scaling_of(config, store))
    except StoreUnusable:
        return []
    return [
        {
            "policy": shape.name,
            "phase": shape.state.phase,
            "estimated_ready_seconds": eta.seconds,
            "node_first": eta.node_first,
            "says": f"a wake takes {eta.says}" if shape.state.is_scaled_to_zero else eta.says,
        }
        for shape in shapes
        if (eta := shape.state.eta) is not None
    ]


def _title(config: Config) -> Text:
    return Text.assemble((config.settings.cluster, STRONG), (f"  ({config.cluster_kind})", QUIET))


def _write_nothing_yet(config: Config, as_json: bool) -> None:
    if as_json:
        write_json({"cluster": config.settings.cluster, "kind": config.cluster_kind, "record": None})
        return
    write_lines(
        [_title(config), "No record yet: nothing has run here. Begin with `ebbtide once` or `ebbtide run`."]
    )


def _as_json(config: Config, record: Record, last: LogEntry | None, alarm: LogEntry | None) -> dict[str, Any]:
    from ebbtide.adapters.stores.codec.record import to_item
    from ebbtide.entrypoints import prices
    from ebbtide.entrypoints.views import decisions

    held = decisions.budget_lines(config.settings, record, int(time.time()))
    return {
        "cluster": config.settings.cluster,
        "kind": config.cluster_kind,
        "record": to_item(record),
        "budgets": [decisions.as_data(line) for line in held],
        "headroom": [
            {"says": one.says, "wanted": one.wanted, "there": one.there, "missing": one.missing}
            for one in record.headroom
        ],
        "prices": prices.as_data(prices.rows_of(config.settings.pools, config.prices)),
        "lastDecision": None if last is None else _entry_json(last),
        "lastAlarm": None if alarm is None else _entry_json(alarm),
    }


def _entry_json(entry: LogEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "at": entry.at,
        "kind": entry.kind,
        "subject": entry.subject,
        "says": entry.says,
        "data": dict(entry.data),
    }


def log(
    ctx: typer.Context,
    kind: Annotated[list[LogKind] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    subject: Annotated[str, typer.Option(help="Only about this decision, operation or node.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many entries to show.")] = 50,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show the newest entries of the log, the latest last."""
    found = read_config(ctx, config)
    store = existing_store(found)
    entries: list[LogEntry] = []
    if store is not None:
        try:
            entries = list(store.read_log(kind or (), subject, limit, brief=True))
        finally:
            store.close()
    if as_json:
        write_json([_entry_json(entry) for entry in reversed(entries)])
        return
    width = max((len(entry.kind) for entry in entries), default=0)
    lines = [
        Text.assemble((f"{moment(entry.at)}  {entry.kind:<{width}}  ", QUIET), entry.says, _id(entry))
        for entry in reversed(entries)
    ]
    write_lines(lines or ["The log is empty."])


def _id(entry: LogEntry) -> tuple[str, str]:
    return (f"  [{entry.id}]" if entry.kind is LogKind.DECISION else "", QUIET)


def pause(
    ctx: typer.Context,
    reason: Annotated[str, typer.Option(help="Why. Shown with every removal that is refused.")] = "",
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
    from ebbtide.model.record import Record

    found = read_config(ctx, config)
    store = existing_store(found)
    before = Record() if store is None else with_switch(store, paused=False)
    write_lines([resumed(before)])


def with_switch(store: Store, paused: bool, reason: str = "") -> Record:
    from ebbtide.bootstrap import SystemClock, TimeOrderedIds
    from ebbtide.engine.switch import set_switch
    from ebbtide.model.events import SwitchedBy

    try:
        return set_switch(store, SystemClock(), TimeOrderedIds(), SwitchedBy.PERSON, paused, reason)
    finally:
        store.close()
