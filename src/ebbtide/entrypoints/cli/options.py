"""What the commands share: the options that many of them take, how they reach the outside, and writing to
the terminal: plain lines where stdout is no terminal, colours where it is.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.text import Text

from ebbtide.core.words import a_while
from ebbtide.entrypoints.views.inputs import shown

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.ports import Store

GOOD, BAD, QUIET, STRONG = "green", "red", "bright_black", "bold"


class PlainConsole(Console):
    """What others wrote may hold escape sequences; whatever is printed here is letters only."""

    def print(self, *objects: Any, **named: Any) -> None:
        super().print(*map(_without_controls, objects), **named)


def _without_controls(printed: Any) -> Any:
    if isinstance(printed, str):
        return shown(printed)
    if isinstance(printed, Text) and shown(printed.plain) != printed.plain:
        cleaned = printed.copy()
        cleaned.plain = shown(printed.plain)
        return cleaned
    return printed


def console() -> Console:
    return PlainConsole(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)


def write_lines(lines: Iterable[Text | str]) -> None:
    out = console()
    for line in lines:
        out.print(line)


def write_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def moment(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if epoch else "never"


def span(seconds: float) -> str:
    return a_while(round(seconds))


def ago(epoch: float, now: float) -> str:
    return f"{span(now - epoch)} ago" if epoch else "never"


def rows(pairs: Iterable[tuple[str, Text | str]]) -> list[Text]:
    """Names in one column, what they say in the next."""
    found = list(pairs)
    width = max((len(name) for name, _ in found), default=0)
    return [Text.assemble((f"{name:<{width}}  ", QUIET), says) for name, says in found]


ConfigPath = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Configuration file. Default: EBBTIDE_CONFIG, else ebbtide.yaml here."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def read_config(
    ctx: typer.Context, path: Path | None, with_prices: bool = True, price_file: Path | None = None
) -> Config:
    """The configuration named at the command, before the command, or by default. Doubtful prices are said."""
    from ebbtide.config import load
    from ebbtide.config.prices import price_warnings

    environ = {**os.environ, "PRICES_FILE": str(price_file)} if price_file else os.environ
    config = load(path or ctx.find_root().params.get("config"), environ, with_prices)
    for warning in price_warnings(config, datetime.now(UTC).date()):
        typer.echo(f"ebbtide: {warning}", err=True)
    return config


def says_simulated(config: Config) -> str:
    """For people who believe that they look at their own cluster; empty where that is so."""
    if config.cluster_kind != "simulator":
        return ""
    if config.source:
        return (
            f"The cluster is simulated, since {config.source} does not set cluster.kind to kubernetes; "
            "nothing real is touched."
        )
    return (
        "Nothing is configured, so the cluster is simulated and nothing real is touched. "
        "`ebbtide init` writes a configuration for yours."
    )


def open_store(config: Config) -> Store:
    from ebbtide import bootstrap

    return bootstrap.open_store(config)


def existing_store(config: Config) -> Store | None:
    """For commands that only read: None where there is nothing yet, so looking makes no file."""
    parts = urlsplit(config.store_url)
    if parts.scheme == "sqlite" and not Path(parts.path.removeprefix("/")).exists():
        return None
    return open_store(config)


@contextmanager
def open_ports(config: Config, watching: bool = False, asking: bool | None = None) -> Iterator[Ports]:
    """All ports, for commands that act. A command that is `watching`, or not `asking`, continues while a
    real cluster does not answer."""
    from ebbtide import bootstrap
    from ebbtide.config.problems import refuse_unfilled
    from ebbtide.entrypoints.cli.simulated import open_simulated

    refuse_unfilled(config)
    ports = bootstrap.build(config, open_simulated, watching, not watching if asking is None else asking)
    try:
        yield ports
    finally:
        bootstrap.close_ports(ports)


@contextmanager
def looking_only(config: Config) -> Iterator[Ports]:
    """All ports, for commands that only read: what does not exist yet is kept in memory and discarded."""
    from ebbtide import bootstrap
    from ebbtide.adapters.stores.memory import MemoryStore

    if config.cluster_kind == "kubernetes":
        world = bootstrap.open_kubernetes(config, asking=True)
    else:
        from ebbtide.entrypoints.cli.simulated import look_at_simulated

        world = look_at_simulated(config)
    try:
        store = existing_store(config) or MemoryStore(bootstrap.SystemClock(), config.settings.cluster)
        try:
            yield bootstrap.assemble(config, store, world)
        finally:
            store.close()
    finally:
        bootstrap.close_ports(world)
