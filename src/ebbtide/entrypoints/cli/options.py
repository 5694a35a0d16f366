"""What the commands share: the options that many of them take, and how they open the store and the ports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from ebbtide.adapters.kube.dump import Dump
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.ports import Store

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
    """The configuration given after the command, before it, or by default. Warns about doubtful prices."""
    from ebbtide.config import load
    from ebbtide.config.prices import price_warnings, read_book

    if price_file is not None:
        read_book(price_file)  # an error then names what was typed, not a variable of the environment
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
    return open_store(config) if has_store(config) else None


def has_store(config: Config) -> bool:
    """Whether there is anything to read. Only a SQLite file would be made by opening it."""
    parts = urlsplit(config.store_url)
    return parts.scheme != "sqlite" or Path(parts.path.removeprefix("/")).exists()


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


STDIN = "-"


def dump_from(source: str) -> Dump:
    """What `kubectl` printed, from a file or from standard input."""
    from ebbtide.adapters.kube.dump import ASK, read_dump
    from ebbtide.errors import Usage

    if source == STDIN:
        return read_dump(sys.stdin.buffer.read())
    try:
        return read_dump(Path(source).read_bytes())
    except OSError as cause:
        raise Usage(f"{source}: {cause.strerror}. Make the dump with: {ASK} > {source}") from cause
