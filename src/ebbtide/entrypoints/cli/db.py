"""`ebbtide db upgrade`, `check` and `create`: the tables of the store, made ready or looked at.

Each prints one sentence. What goes wrong is one sentence too, with the next step, and exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import ConfigPath, read_config
from ebbtide.entrypoints.cli.writing import write_lines
from ebbtide.errors import Retryable, StoreUnusable, Unanswered

app = typer.Typer(no_args_is_help=True, help="Make the tables of the store, upgrade or check them.")


@app.command()
def upgrade(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Bring the tables of the store to this version; makes them where there are none."""
    _say(upgrade_store, _url(ctx, config))


@app.command()
def check(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Say whether the store can be used, and what to do if not. Touches nothing."""
    _say(check_store, _url(ctx, config))


@app.command()
def create(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Make the tables of the store (on DynamoDB: billed on demand, with point-in-time recovery)."""
    _say(create_store, _url(ctx, config))


def upgrade_store(url: str) -> str:
    if _is_dynamodb(url):
        return f"{check_store(url)}; tables on DynamoDB need no upgrade"
    from ebbtide.adapters.stores.migrate import upgrade

    return upgrade(url)


def check_store(url: str) -> str:
    if _is_dynamodb(url):
        from ebbtide.adapters.stores.dynamodb_tables import check_tables

        return check_tables(url)
    from ebbtide.adapters.stores.migrate import check

    return check(url)


def create_store(url: str) -> str:
    if _is_dynamodb(url):
        from ebbtide.adapters.stores.dynamodb_tables import create_tables

        return create_tables(url)
    return upgrade_store(url)


def _say(do: Callable[[str], str], url: str) -> None:
    try:
        sentence = do(url)
    except (Retryable, Unanswered) as error:
        raise StoreUnusable(str(error)) from error
    write_lines([Text(f"{sentence[0].upper()}{sentence[1:]}.")])


def _url(ctx: typer.Context, path: ConfigPath) -> str:
    from ebbtide.bootstrap import with_tables

    config = read_config(ctx, path)
    return with_tables(config) if _is_dynamodb(config.store_url) else config.store_url


def _is_dynamodb(url: str) -> bool:
    return url.startswith("dynamodb:")
