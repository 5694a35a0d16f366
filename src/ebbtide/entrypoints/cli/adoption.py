"""`ebbtide adopt`: existing nodes become workers of a pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.cli.writing import BAD, GOOD, QUIET, write_json, write_lines
from ebbtide.errors import EbbtideError, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.entrypoints.setup.adopting import Case


def adopt(
    ctx: typer.Context,
    pool: Annotated[
        str, typer.Option(help="Add them to this pool only. Default: the first pool that fits.")
    ] = "",
    node: Annotated[list[str] | None, typer.Option(help="Only this node; may be repeated.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; change nothing.")
    ] = False,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """Add existing nodes to a pool: tag their machines and label the nodes. Safe to repeat."""
    found = read_config(ctx, config)
    if found.cluster_kind != "kubernetes":
        raise Usage(
            "the configured cluster is simulated; nothing was changed. `ebbtide adopt` is for a cluster of "
            "kind kubernetes: `ebbtide init` writes a configuration."
        )
    cases: list[Case] = []
    try:
        cases.extend(_cases(found, pool, tuple(node or ()), dry_run))
    except EbbtideError:
        # What was done before the error stays done, and a person must know of it.
        write_lines(_lines(cases, dry_run) if cases else ())
        raise
    if as_json:
        write_json([_as_data(case) for case in cases])
    else:
        write_lines(_lines(cases, dry_run))
    if node and any(case.why for case in cases):
        raise typer.Exit(1)


def _cases(config: Config, pool: str, nodes: Sequence[str], dry_run: bool) -> Iterator[Case]:
    from ebbtide.adapters.kube.cluster import KubeCluster
    from ebbtide.bootstrap.kubernetes import connect_kubernetes, open_adopter
    from ebbtide.entrypoints.setup import adopting

    connection = connect_kubernetes(config)
    try:
        cluster, adopter = KubeCluster(connection), open_adopter(config)
        wish = adopting.Wish(config.settings.cluster, config.settings.pools, pool, nodes)
        cases = adopting.look(cluster.read(), adopter, wish)
        if dry_run:
            yield from cases
            return
        yield from (case for case in cases if case.state is not adopting.State.WANTED)
        yield from adopting.adopt(cases, adopter, cluster, config.settings.cluster)
    finally:
        connection.close()


def _lines(cases: Sequence[Case], dry_run: bool) -> Iterator[Text]:
    from ebbtide.core.words import count_of
    from ebbtide.entrypoints.setup.adopting import State

    if dry_run:
        yield Text("Dry run: nothing was changed.", QUIET)
    colours = {State.DONE: GOOD, State.WANTED: "bold", State.REFUSED: BAD}
    for case in sorted(cases, key=lambda one: (one.state is State.REFUSED, one.node.name)):
        says = f"  {case.node.name}" + (f" -> {case.pool}" if case.pool else "")
        yield Text.assemble(
            (f"{case.state.value:<11}", colours[case.state]), says, f": {case.why}" if case.why else ""
        )
    wanted = [case for case in cases if case.state is State.WANTED]
    if not cases:
        yield Text("There is no worker in this cluster: nothing to adopt.")
    elif dry_run and wanted:
        yield Text(f"`ebbtide adopt` would take over {count_of(len(wanted), 'node')}.", QUIET)
    elif any(case.state is State.DONE for case in cases):
        yield Text("Adopted nodes are counted and may be removed. `ebbtide pause` stops removals.", QUIET)


def _as_data(case: Case) -> dict[str, Any]:
    return {
        "node": case.node.name,
        "pool": case.pool,
        "state": case.state.value,
        "why": case.why,
        "instance": case.machine.id if case.machine else "",
    }
