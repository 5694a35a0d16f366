"""All commands of `ebbtide`, and nothing that takes long to import."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ebbtide import __version__
from ebbtide.entrypoints.cli import (
    configuration,
    costs,
    db,
    decisions,
    demo,
    foresight,
    look,
    policies,
    running,
    serving,
    simulation,
    starting,
)
from ebbtide.entrypoints.cli.options import AsJson, ConfigPath
from ebbtide.entrypoints.doctor import command

START = "Start"
RUN = "Run"
LOOK = "Look, and change nothing"
SLEEP = "Scale to zero"
PLAN = "Costs and simulation"
KEEP = "Store and access"


class Group(TyperGroup):
    """A flag takes no value, so help must not show one."""

    def get_params(self, ctx: Any) -> Any:
        return _without_type(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            _without_type(found.params)
            shown = found.get_help_option(ctx)
            _without_type([shown] if shown is not None else [])
        return found


def _without_type(params: Any) -> Any:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


app = typer.Typer(
    cls=Group,
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


app.command(rich_help_panel=START)(demo.demo)
app.command(rich_help_panel=START)(starting.init)
app.command(rich_help_panel=START)(starting.adopt)
app.command(rich_help_panel=RUN)(running.run)
app.command(rich_help_panel=RUN)(running.once)
app.command(rich_help_panel=RUN)(serving.serve)
app.command(rich_help_panel=LOOK)(look.status)
app.command(rich_help_panel=LOOK)(look.log)
app.command(rich_help_panel=LOOK)(decisions.plan)
app.command(rich_help_panel=LOOK)(decisions.explain)
app.command(rich_help_panel=LOOK)(decisions.replay)
app.command(rich_help_panel=RUN)(look.pause)
app.command(rich_help_panel=RUN)(look.resume)
app.command(rich_help_panel=PLAN)(simulation.simulate)
app.command(rich_help_panel=PLAN)(simulation.record)
app.command(rich_help_panel=PLAN)(foresight.backtest)
app.command(rich_help_panel=PLAN)(foresight.tune)
app.command(rich_help_panel=PLAN)(foresight.forecast)
app.command(rich_help_panel=PLAN)(decisions.consolidate)
app.command(rich_help_panel=SLEEP)(policies.wake)
app.command(rich_help_panel=SLEEP)(costs.savings)
app.command(rich_help_panel=LOOK)(costs.report)
app.command(rich_help_panel=PLAN)(costs.assess)
app.command(rich_help_panel=START)(command.doctor)
app.add_typer(costs.app, name="prices", cls=Group, rich_help_panel=PLAN)
app.add_typer(configuration.app, name="config", cls=Group, rich_help_panel=START)
app.add_typer(db.app, name="db", cls=Group, rich_help_panel=KEEP)
app.add_typer(serving.tokens, name="token", cls=Group, rich_help_panel=KEEP)
app.add_typer(policies.app, name="policy", cls=Group, rich_help_panel=SLEEP)
app.add_typer(serving.app, name="gate", cls=Group, rich_help_panel=SLEEP)


@app.command(rich_help_panel=PLAN)
def pack(
    pods: Annotated[Path, typer.Option(metavar="CSV", help="The pods to place: name,cpu_milli,memory_mib.")],
    types: Annotated[
        Path,
        typer.Option(metavar="CSV", help="The types to choose from: name,cpu_milli,memory_mib,pods,price."),
    ],
    deadline: Annotated[float, typer.Option(min=0.0, help="Seconds to search for something better.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Find the cheapest set of nodes for a list of pods. The first line of each file names its columns."""
    from ebbtide.entrypoints.pack import pack_command

    raise typer.Exit(pack_command(pods, types, deadline, as_json))
