"""The page of all commands with their arguments and options."""

from __future__ import annotations

from collections.abc import Iterator
from enum import EnumType
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer

from ebbtide.entrypoints.cli.app import app

# Typer brings a Click of its own, whose types it does not show.
Command = Any


def cli_page(made: str) -> str:
    lines = [
        "# Commands",
        "",
        made,
        "What they are for and how they are used: [cli.md](../cli.md). `--config FILE` (`-c`) and `--debug`",
        "may stand before or after every command; `--help` (`-h`) tells the same as this page.",
    ]
    for words, command in commands():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        options = [each for each in command.params if each.param_type_name == "option"]
        usage = " ".join(["ebbtide", *words, *(_as_argument(each) for each in arguments)])
        lines += ["", f"## {' '.join(words)}", "", f"`{usage}{' [OPTIONS]' if options else ''}`", ""]
        lines.append(" ".join((command.help or "").split()))
        rows = [row for each in (*arguments, *options) for row in _row(each)]
        if rows:
            lines += ["", "| option | takes | default | what it is |", "| --- | --- | --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command that does something, with the words by which it is called."""
    return _under((), typer.main.get_group(app))


def _under(words: tuple[str, ...], command: Command) -> Iterator[tuple[tuple[str, ...], Command]]:
    parts = getattr(command, "commands", {})
    if words and (not parts or command.invoke_without_command):
        yield words, command
    for name in sorted(parts):
        yield from _under((*words, name), parts[name])


def _as_argument(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _row(each: Any) -> Iterator[str]:
    if each.hidden or each.name in ("config", "help"):
        return
    option = each.param_type_name == "option"
    names = (*each.opts, *each.secondary_opts) if option else (each.name.upper(),)
    flag = getattr(each, "is_flag", False)
    plain = each.default not in (None, "", ()) and not callable(each.default)
    default = f"`{getattr(each.default, 'value', each.default)}`" if plain and not flag else ""
    says = " ".join((each.help or "").split()).replace("|", "\\|")
    takes = "" if flag else _takes(each.type_descriptor.annotation)
    yield f"| {', '.join(f'`{name}`' for name in names)} | {takes} | {default} | {says} |"


def _takes(annotation: Any) -> str:
    if isinstance(annotation, EnumType):
        choices: list[Any] = list(annotation)
        return " or ".join(f"`{one.value}`" for one in choices)
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{one}`" for one in parts)
    if parts:
        return _takes(parts[0])
    return {Path: "path", int: "whole number", float: "number", str: "text"}[annotation]
