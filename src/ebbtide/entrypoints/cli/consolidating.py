"""`ebbtide consolidate --dry-run`: which nodes could go, which pods would move, and what that saves."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, looking_only, read_config
from ebbtide.entrypoints.cli.writing import console, write_json, write_lines
from ebbtide.errors import Usage


def consolidate(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look; there is no other way.")] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show each node with its fate, each move, the savings and the proven bound. Writes nothing."""
    if not dry_run:
        raise Usage(
            "`ebbtide consolidate` only looks: add --dry-run. To have it done, set consolidation.enabled and "
            "let `ebbtide run` or `ebbtide once` begin it."
        )
    from ebbtide.core.consolidation.evaluate import explore
    from ebbtide.core.nodes.question import Question
    from ebbtide.core.nodes.timers import track
    from ebbtide.engine.observe import observe
    from ebbtide.entrypoints.views.consolidation import as_data, node_table, said

    found = read_config(ctx, config)
    with looking_only(found) as ports:
        snapshot = observe(ports, found.settings)
        record, warnings = track(snapshot, ports.store.load(), found.settings, snapshot.at)
    question = Question(snapshot, record, found.settings, snapshot.at, "dry-run")
    report = explore(question, dict(snapshot.players), time.perf_counter)
    if as_json:
        write_json(as_data(report, found.settings.consolidation) | {"warnings": list(warnings)})
        return
    write_lines(f"! {warning}" for warning in (*snapshot.problems, *warnings))
    console().print(node_table(report))
    write_lines(said(report))
