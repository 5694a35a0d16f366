"""`ebbtide plan`, `explain`, `replay` and `consolidate --dry-run`: what would be done (also `plan --dump
FILE`, for a cluster as kubectl printed it), what was decided and whether that holds, and which nodes
could go.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import (
    AsJson,
    ConfigPath,
    dump_from,
    existing_store,
    looking_only,
    read_config,
    says_simulated,
)
from ebbtide.entrypoints.views.terminal import BAD, GOOD, QUIET, STRONG, console, write_json, write_lines
from ebbtide.errors import Usage
from ebbtide.model.decision import Action
from ebbtide.model.log import LogEntry, LogKind

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.entrypoints.views.dump_plan import DumpPlan
    from ebbtide.model.decision import Decision
    from ebbtide.model.record import Record

_NAMED = 5
"""Nodes and reasons that are named before the rest is counted."""


def plan_dump(ctx: typer.Context, source: str, config: Path | None, as_json: bool) -> None:
    from ebbtide.config.load import FILE_NAME, FILE_VARIABLE
    from ebbtide.entrypoints.views.dump_plan import plan_of_dump

    dump = dump_from(source)
    named = config or ctx.find_root().params.get("config") or os.environ.get(FILE_VARIABLE)
    found = read_config(ctx, config)
    settings = found.settings if named or Path(FILE_NAME).exists() else None
    plan = plan_of_dump(dump, settings, found.prices)
    if as_json:
        write_json(_as_data(plan))
    else:
        write_lines(_lines(plan))


def _lines(plan: DumpPlan) -> Iterator[Text | str]:
    from ebbtide.entrypoints.views.decisions import headroom_text, spoken
    from ebbtide.entrypoints.views.dump_plan import grouped

    yield Text("Plan only, from a dump: only the file was read, and nothing was changed.", QUIET)
    for note in plan.notes:
        yield Text(f"! {note}", "yellow")
    if plan.uncounted:
        yield Text(f"! not counted, because no pool claims them: {_some(plan.uncounted)}", "yellow")
    yield Text.assemble("One tick would do: ", (spoken(plan.decision.action), STRONG))
    yield plan.decision.reason
    if plan.launches:
        yield ""
        later = len(plan.launches) - plan.now
        what = "pending pods and the headroom" if plan.headroom else "pending pods"
        yield Text(f"Nodes that the {what} need: {len(plan.launches)}", STRONG)
        if later:
            yield f"{plan.now} in this tick, {later} in later ones (max_batch_up)"
        for sample, count, pods in grouped(plan.launches):
            price = f"{sample.price} {sample.currency}/h" if sample.price is not None else "price unknown"
            place = f"{sample.zone} ({sample.market}, pool {sample.pool})"
            yield f"  {count:>4} x {sample.type:<16} in {place:<32} {price:>18}  {pods} pods"
        yield _money(plan)
    for one in plan.headroom:
        yield Text.assemble("headroom: ", headroom_text(one))
    if plan.removals:
        yield ""
        yield Text(f"Nodes that would be removed: {', '.join(plan.removals)}", STRONG)
    for reason in plan.unserved[:_NAMED]:
        yield Text(f"not served: {reason}", "yellow")
    if len(plan.unserved) > _NAMED:
        yield Text(f"not served: {len(plan.unserved) - _NAMED} more pods", "yellow")
    yield Text(f"Planned in {plan.seconds:.2f} s.", QUIET)


def _money(plan: DumpPlan) -> str:
    if not plan.cost:
        return "  in all: no price is known"
    if not plan.bound:
        return f"  in all {plan.cost:.4f} {plan.currency}/h"
    over = float(plan.cost) / plan.bound - 1
    return (
        f"  in all {plan.cost:.4f} {plan.currency}/h, {over:.1%} over {plan.bound:.4f}, "
        "which no set of nodes for these pods can cost less than"
    )


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _as_data(plan: DumpPlan) -> dict[str, Any]:
    import msgspec

    return {
        "action": plan.decision.action,
        "reason": plan.decision.reason,
        "launches": [
            {**msgspec.to_builtins(each), "this_tick": number < plan.now}
            for number, each in enumerate(plan.launches)
        ],
        "removals": list(plan.removals),
        "cost_per_hour": str(plan.cost),
        "bound_per_hour": round(plan.bound, 6),
        "currency": plan.currency,
        "headroom": [
            {"says": one.says, "wanted": one.wanted, "there": one.there, "missing": one.missing}
            for one in plan.headroom
        ],
        "not_served": list(plan.unserved),
        "not_counted": list(plan.uncounted),
        "seconds": round(plan.seconds, 3),
        "notes": list(plan.notes),
        "decision": msgspec.to_builtins(plan.decision),
    }


DecisionId = Annotated[str, typer.Argument(metavar="ID", help="Id of a decision, or `last`.")]


DumpPath = Annotated[
    str | None,
    typer.Option(
        "--dump",
        metavar="FILE",
        help="Plan for what `kubectl get nodes,pods,pdb,pv,pvc -A -o json` printed (- for standard input); "
        "nothing else is read.",
    ),
]


def plan(
    ctx: typer.Context, config: ConfigPath = None, dump: DumpPath = None, as_json: AsJson = False
) -> None:
    """Show what the next tick would do, and why it would do nothing else. Writes nothing."""
    if dump is not None:
        plan_dump(ctx, dump, config, as_json)
        return
    found = read_config(ctx, config)
    with looking_only(found) as ports:
        now = ports.clock.now()
        record, decision, warnings = _plan(ports, found)
    if as_json:
        write_json(_plan_json(record, decision, warnings))
        return
    write_lines(_plan_lines(record, decision, warnings, now))


def _plan(ports: Ports, config: Config) -> tuple[Record, Decision, tuple[str, ...]]:
    """As the tick does it, up to the first write."""
    from ebbtide.core.nodes.decide import decide
    from ebbtide.core.nodes.orphans import says_uncounted, track_orphans, uncounted
    from ebbtide.core.nodes.timers import track
    from ebbtide.engine.ports import observe

    snapshot = observe(ports, config.settings)
    now = snapshot.at
    record, warnings = track(snapshot, ports.store.load(), config.settings, now)
    record = track_orphans(snapshot, record, config.settings, now)
    decision = decide(snapshot, record, config.settings, now, "plan")
    told = says_simulated(config)  # nobody can adopt the foreign node of a simulated cluster
    loose = [] if told else [node.name for node in uncounted(snapshot.cluster)]
    told = says_uncounted(loose) if loose else told
    return record, decision, (*snapshot.problems, *warnings, *([told] if told else ()))


def _plan_lines(record: Record, decision: Decision, warnings: tuple[str, ...], now: float) -> Iterator[Text]:
    from ebbtide.entrypoints.views.decisions import by_interest, operation_lines, spoken, verdict_lines

    yield Text("Plan only: nothing was written or changed.", QUIET)
    for warning in warnings:
        yield Text(f"! {warning}", "yellow")
    if record.operations:
        yield Text("The next tick would continue the operations in progress:")
    for operation in record.operations:
        yield from operation_lines(operation, now)
    if record.operations and decision.action is Action.NOTHING:
        yield Text("Nothing else would begin.")
        return
    yield Text.assemble("The next tick would do: ", (spoken(decision.action), "bold"))
    yield Text(decision.reason)
    for verdict in by_interest(decision.verdicts):
        yield Text()
        yield from verdict_lines(verdict)


def _plan_json(record: Record, decision: Decision, warnings: tuple[str, ...]) -> dict[str, Any]:
    import msgspec

    operation = record.operation if decision.action is Action.NOTHING else None
    return {
        "action": "continue" if operation is not None else decision.action,
        "reason": operation.reason if operation is not None else decision.reason,
        "operation": msgspec.to_builtins(record.operation),
        "launching": msgspec.to_builtins(record.launching),
        "removing": msgspec.to_builtins(record.removing),
        "decision": msgspec.to_builtins(decision),
        "warnings": list(warnings),
    }


def explain(ctx: typer.Context, id: DecisionId, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show a decision: every precondition with both values, and the nodes that were skipped."""
    from ebbtide.engine.journal import read_decision

    decision = read_decision(_find(read_config(ctx, config), id))
    if as_json:
        import msgspec

        write_json(msgspec.to_builtins(decision))
        return
    from ebbtide.entrypoints.views.decisions import decision_lines

    write_lines(decision_lines(decision))


def replay(ctx: typer.Context, id: DecisionId, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Compute a stored decision again from its stored inputs. Exit code 1 when it differs."""
    from ebbtide.engine.journal import decide_again
    from ebbtide.entrypoints.views.decisions import decision_lines

    stored, again = decide_again(_find(read_config(ctx, config), id))
    if as_json:
        import msgspec

        both = {"stored": msgspec.to_builtins(stored), "again": msgspec.to_builtins(again)}
        write_json({"equal": again == stored, **both})
        if again != stored:
            raise typer.Exit(1)
        return
    if again == stored:
        asked = sum(len(verdict.checks) for verdict in stored.verdicts)
        write_lines(
            [
                Text.assemble(
                    ("equal", GOOD), f": decision {stored.id} gives the same result ({asked} checks)."
                ),
                f"{stored.action}: {stored.reason}",
            ]
        )
        return
    write_lines(
        [
            Text.assemble(("different", BAD), f": decision {stored.id} gives a different result."),
            Text("Stored:", "bold"),
            *decision_lines(stored),
            Text(),
            Text("Computed again:", "bold"),
            *decision_lines(again),
        ]
    )
    raise typer.Exit(1)


def _find(config: Config, wanted: str) -> LogEntry:
    store = existing_store(config)
    if store is None:
        raise Usage("there is no decision yet: nothing has run here. Begin with `ebbtide once`.")
    try:
        if wanted == "last":
            entry = next(iter(store.read_log([LogKind.DECISION], limit=1)), None)
        else:
            entry = store.find_entry(wanted)
    finally:
        store.close()
    if entry is None:
        missing = "there is no decision yet" if wanted == "last" else f"there is no decision {wanted!r}"
        raise Usage(
            f"{missing}; nothing was touched. `ebbtide log --kind decision` lists the stored ones. One that "
            "repeats the last is stored only after decision_log_sec."
        )
    return entry


def consolidate(
    ctx: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan without acting on it. Required: this is the only mode."
        ),
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Show what would happen to each node, each move, the savings and the proven bound. Writes nothing."""
    if not dry_run:
        raise Usage(
            "`ebbtide consolidate` only shows a plan: add --dry-run. To act on plans, set "
            "consolidation.enabled and start `ebbtide run` or `ebbtide once`."
        )
    from ebbtide.core.consolidation.evaluate import explore
    from ebbtide.core.nodes.question import Question
    from ebbtide.core.nodes.timers import track
    from ebbtide.engine.ports import observe
    from ebbtide.entrypoints.views.decisions import consolidation_data, node_table, said

    found = read_config(ctx, config)
    with looking_only(found) as ports:
        snapshot = observe(ports, found.settings)
        record, warnings = track(snapshot, ports.store.load(), found.settings, snapshot.at)
    question = Question(snapshot, record, found.settings, snapshot.at, "dry-run")
    report = explore(question, dict(snapshot.players), time.perf_counter)
    if as_json:
        write_json(consolidation_data(report, found.settings.consolidation) | {"warnings": list(warnings)})
        return
    write_lines(f"! {warning}" for warning in (*snapshot.problems, *warnings))
    console().print(node_table(report))
    write_lines(said(report))
