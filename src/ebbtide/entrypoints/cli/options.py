"""What the commands share: the options that many of them take, and how they reach the outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.outside import Outside
    from ebbtide.ports import Store

ConfigPath = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file; else EBBTIDE_CONFIG, else ebbtide.yaml here."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def read_config(ctx: typer.Context, path: Path | None) -> Config:
    """The configuration named at the command, before the command, or by default."""
    from ebbtide.config import load

    return load(path or ctx.find_root().params.get("config"), os.environ)


def open_store(config: Config) -> Store:
    from ebbtide import bootstrap

    return bootstrap.open_store(config)


def open_outside(config: Config) -> Outside:
    from ebbtide import bootstrap

    return bootstrap.build(config, _open_simulated)


def existing_store(config: Config) -> Store | None:
    """For commands that only read: None where there is nothing yet, so that looking makes no file."""
    from urllib.parse import urlsplit

    parts = urlsplit(config.store_url)
    if parts.scheme == "sqlite" and not Path(parts.path.removeprefix("/")).exists():
        return None
    return open_store(config)
