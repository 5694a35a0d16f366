"""All commands of `ebbtide`, and nothing that takes long to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ebbtide import __version__
from ebbtide.entrypoints.cli import (
    adoption,
    configuration,
    costs,
    db,
    decisions,
    demo,
    foresight,
    gate,
    helping,
    look,
    policies,
    recording,
    reporting,
    running,
    savings,
    serving,
    simulation,
    starting,
    switch,
    tuning,
)
from ebbtide.entrypoints.cli.options import AsJson, ConfigPath
from ebbtide.entrypoints.doctor import command

app = typer.Typer(
    cls=helping.Group,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A Kubernetes node autoscaler built for safe scale-down.",
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


app.command(rich_help_panel=helping.START)(demo.demo)
app.command(rich_help_panel=helping.START)(starting.init)
app.command(rich_help_panel=helping.START)(adoption.adopt)
app.command(rich_help_panel=helping.RUN)(running.run)
app.command(rich_help_panel=helping.RUN)(running.once)
app.command(rich_help_panel=helping.RUN)(serving.serve)
app.command(rich_help_panel=helping.LOOK)(look.status)
app.command(rich_help_panel=helping.LOOK)(look.log)
app.command(rich_help_panel=helping.LOOK)(decisions.plan)
app.command(rich_help_panel=helping.LOOK)(decisions.explain)
app.command(rich_help_panel=helping.LOOK)(decisions.replay)
app.command(rich_help_panel=helping.RUN)(switch.pause)
app.command(rich_help_panel=helping.RUN)(switch.resume)
app.command(rich_help_panel=helping.PLAN)(simulation.simulate)
app.command(rich_help_panel=helping.PLAN)(recording.record)
app.command(rich_help_panel=helping.PLAN)(foresight.backtest)
app.command(rich_help_panel=helping.PLAN)(tuning.tune)
app.command(rich_help_panel=helping.PLAN)(foresight.forecast)
app.command(rich_help_panel=helping.PLAN)(decisions.consolidate)
app.command(rich_help_panel=helping.SLEEP)(policies.wake)
app.command(rich_help_panel=helping.SLEEP)(savings.savings)
app.command(rich_help_panel=helping.LOOK)(reporting.report)
app.command(rich_help_panel=helping.PLAN)(costs.assess)
app.command(rich_help_panel=helping.START)(command.doctor)
app.add_typer(costs.app, name="prices", cls=helping.Group, rich_help_panel=helping.PLAN)
app.add_typer(configuration.app, name="config", cls=helping.Group, rich_help_panel=helping.START)
app.add_typer(db.app, name="db", cls=helping.Group, rich_help_panel=helping.KEEP)
app.add_typer(serving.tokens, name="token", cls=helping.Group, rich_help_panel=helping.KEEP)
app.add_typer(policies.app, name="policy", cls=helping.Group, rich_help_panel=helping.SLEEP)
app.add_typer(gate.app, name="gate", cls=helping.Group, rich_help_panel=helping.SLEEP)


@app.command(rich_help_panel=helping.PLAN)
def pack(
    pods: Annotated[Path, typer.Option(metavar="CSV", help="The pods to place: name,cpu_milli,memory_mib.")],
    types: Annotated[
        Path,
        typer.Option(metavar="CSV", help="The types to choose from: name,cpu_milli,memory_mib,pods,price."),
    ],
    deadline: Annotated[float, typer.Option(min=0.0, help="Seconds to search for something better.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest set of nodes that holds these pods. The first line of each file names its columns."""
    from ebbtide.entrypoints.pack import pack_command

    raise typer.Exit(pack_command(pods, types, deadline, as_json))
