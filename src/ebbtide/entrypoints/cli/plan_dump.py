"""`ebbtide plan --dump FILE`, as lines and as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import read_config
from ebbtide.entrypoints.cli.writing import QUIET, STRONG, write_json, write_lines
from ebbtide.errors import Usage

if TYPE_CHECKING:
    from ebbtide.adapters.kube.dump import Dump
    from ebbtide.entrypoints.views.dump_plan import DumpPlan

STDIN = "-"
_NAMED = 5
"""Nodes and reasons that are named before the rest is counted."""


def plan_dump(ctx: typer.Context, source: str, config: Path | None, as_json: bool) -> None:
    from ebbtide.config.load import FILE_NAME, FILE_VARIABLE
    from ebbtide.entrypoints.views.dump_plan import plan_of_dump

    dump = _read(source)
    named = config or ctx.find_root().params.get("config") or os.environ.get(FILE_VARIABLE)
    found = read_config(ctx, config)
    settings = found.settings if named or Path(FILE_NAME).exists() else None
    plan = plan_of_dump(dump, settings, found.prices)
    if as_json:
        write_json(_as_data(plan))
    else:
        write_lines(_lines(plan))


def _read(source: str) -> Dump:
    from ebbtide.adapters.kube.dump import ASK, read_dump

    if source == STDIN:
        return read_dump(sys.stdin.buffer.read())
    try:
        return read_dump(Path(source).read_bytes())
    except OSError as cause:
        raise Usage(f"{source}: {cause.strerror}. Make the dump with: {ASK} > {source}") from cause


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
