"""All commands of `ebbtide`, and nothing that takes long to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ebbtide import __version__
from ebbtide.entrypoints.cli import (
    adoption,
    configuration,
    consolidating,
    costs,
    db,
    decisions,
    demo,
    gate,
    look,
    policies,
    reporting,
    running,
    savings,
    serving,
    simulation,
    starting,
    switch,
)
from ebbtide.entrypoints.cli.options import AsJson, ConfigPath
from ebbtide.entrypoints.doctor import command

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="An autoscaler for Kubernetes whose destructive half can be trusted.",
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"ebbtide {__version__}")
        raise typer.Exit


@app.callback()
def root(
    config: ConfigPath = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error happened.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Declares what may stand before a command; `--debug` is read in `main`, `config` by the commands."""


app.command()(demo.demo)
app.command()(starting.init)
app.command()(adoption.adopt)
app.command()(running.run)
app.command()(running.once)
app.command()(serving.serve)
app.command()(look.status)
app.command()(look.log)
app.command()(decisions.plan)
app.command()(decisions.explain)
app.command()(decisions.replay)
app.command()(switch.pause)
app.command()(switch.resume)
app.command()(simulation.simulate)
app.command()(consolidating.consolidate)
app.command()(policies.wake)
app.command()(savings.savings)
app.command()(reporting.report)
app.command()(costs.assess)
app.command()(command.doctor)
app.add_typer(costs.app, name="prices")
app.add_typer(configuration.app, name="config")
app.add_typer(db.app, name="db")
app.add_typer(serving.tokens, name="token")
app.add_typer(policies.app, name="policy")
app.add_typer(gate.app, name="gate")


@app.command()
def pack(
    pods: Annotated[Path, typer.Option(help="The pods to place.")],
    types: Annotated[Path, typer.Option(help="The node types to choose from.")],
    deadline: Annotated[float, typer.Option(min=0.0, help="Seconds to search for something better.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest set of nodes that holds these pods."""
    from ebbtide.entrypoints.pack import pack_command

    raise typer.Exit(pack_command(pods, types, deadline, as_json))
