"""`ebbtide config check` and `ebbtide config show`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.views.terminal import GOOD, QUIET, STRONG, console, write_json, write_lines

if TYPE_CHECKING:
    from ebbtide.config.load import Effective

LEAST_BREADTH = 16

app = typer.Typer(no_args_is_help=True, help="Check or show the configuration.")


@app.command()
def check(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Check the configuration. Changes nothing."""
    found = read_config(ctx, config)
    given = sum(1 for key in found.effective if key.origin != "default")
    if as_json:
        write_json({"ok": True, "source": found.source, "keys": given})
        return
    where = found.source or "no file"
    keys = "1 key is" if given == 1 else f"{given} keys are"
    write_lines(
        [Text.assemble(("The configuration is valid", GOOD), f" ({where}; {keys} not at the default).")]
    )


@app.command()
def show(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Show every key with its effective value and where it comes from."""
    found = read_config(ctx, config)
    if as_json:
        write_json({k.key: {"value": k.value, "from": k.origin} for k in found.effective})
        return
    write_lines(_table(found.effective, console().width))


def _table(effective: Sequence[Effective], columns: int) -> Iterator[Text]:
    """A value that is too long for its column continues below it."""
    width = max(len(key.key) for key in effective)
    origin = max(len(key.origin) for key in effective)
    breadth = max(LEAST_BREADTH, columns - width - origin - 4)
    for key in effective:
        changed = key.origin != "default"
        first, *others = textwrap.wrap(_shown(key.value), breadth) or [""]
        yield Text.assemble(
            (f"{key.key:<{width}}", STRONG if changed else ""),
            f"  {first:<{breadth}}  ",
            (key.origin, "" if changed else QUIET),
        )
        yield from (Text(f"{'':<{width}}  {other}") for other in others)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return " | ".join(map(str, value)) or "none"
    return "none" if value in (None, "", {}) else str(value)
