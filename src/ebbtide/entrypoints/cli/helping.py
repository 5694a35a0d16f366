"""How `--help` looks: commands in groups, and flags without a type."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

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
