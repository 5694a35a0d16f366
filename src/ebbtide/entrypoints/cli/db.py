"""`ebbtide db upgrade`, `check`, `create` and `prune`: the tables of the store, made ready, looked at, or
rid of old log entries.

Each prints one sentence. What goes wrong is one sentence too, with the next step, and exit code 2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, existing_store, read_config
from ebbtide.entrypoints.views.terminal import moment, write_json, write_lines
from ebbtide.errors import Retryable, StoreCause, StoreUnusable, Unanswered, Usage

if TYPE_CHECKING:
    from ebbtide.config import Config

app = typer.Typer(
    no_args_is_help=True, help="Create, upgrade or check the tables of the store, or prune the log."
)
DAYS = re.compile(r"([1-9][0-9]{0,4})d")
DAY_SECONDS = 24 * 3600


@app.command()
def upgrade(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Upgrade the tables of the store to this version; creates them if there are none."""
    _say(partial(upgrade_store, _url(ctx, config)))


@app.command()
def check(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Check whether the store can be used, and show what to do if not. Changes nothing."""
    _say(partial(check_store, _url(ctx, config)), as_json)


@app.command()
def create(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Create the tables of the store (on DynamoDB: billed on demand, with point-in-time recovery)."""
    _say(partial(create_store, _url(ctx, config)))


@app.command()
def prune(
    ctx: typer.Context,
    config: ConfigPath = None,
    older_than: Annotated[
        str,
        typer.Option(
            metavar="DAYS",
            help="Age of the entries, such as 90d. Default: `log_retention_days` of the configuration.",
        ),
    ] = "",
) -> None:
    """Remove old entries from the log of the cluster. `ebbtide run` does so once a day by itself."""
    found = read_config(ctx, config)
    _say(partial(prune_log, found, days_asked(older_than, found.settings.log_retention_days)))


def upgrade_store(url: str) -> str:
    if _is_dynamodb(url):
        return f"{check_store(url)}; tables on DynamoDB need no upgrade"
    from ebbtide.adapters.stores.sql.migrate import upgrade

    return str(upgrade(url))


def check_store(url: str) -> str:
    if _is_dynamodb(url):
        from ebbtide.adapters.stores.dynamodb.tables import check_tables

        return check_tables(url)
    from ebbtide.adapters.stores.sql.migrate import check

    return str(check(url))


def create_store(url: str) -> str:
    if _is_dynamodb(url):
        from ebbtide.adapters.stores.dynamodb.tables import create_tables

        return create_tables(url)
    return upgrade_store(url)


def prune_log(config: Config, days: int) -> str:
    store = existing_store(config)
    if store is None:
        return "there is no store yet, so nothing to remove"
    with closing(store):
        before = int(time.time()) - days * DAY_SECONDS
        gone = store.prune_log(before)
    entries = "1 entry" if gone == 1 else f"{gone} entries"
    return f"{entries} older than {moment(before)} removed from the log of {config.settings.cluster!r}"


def days_asked(asked: str, configured: int) -> int:
    if not asked and configured:
        return configured
    found = DAYS.fullmatch(asked)
    if found is None:
        what = f"{asked!r} is not a number of days" if asked else "the configuration keeps the log forever"
        raise Usage(f"{what}; nothing was removed. Name the age of the entries, such as --older-than 90d.")
    return int(found[1])


def _say(do: Callable[[], str], as_json: bool = False) -> None:
    try:
        sentence = do()
    except (Retryable, Unanswered) as error:
        raise StoreUnusable(StoreCause.UNREACHABLE, str(error)) from error
    if as_json:
        write_json({"ok": True, "says": sentence})
        return
    write_lines([Text(f"{sentence[0].upper()}{sentence[1:]}.")])


def _url(ctx: typer.Context, path: ConfigPath) -> str:
    from ebbtide.bootstrap import with_tables

    config = read_config(ctx, path)
    return with_tables(config) if _is_dynamodb(config.store_url) else config.store_url


def _is_dynamodb(url: str) -> bool:
    return url.startswith("dynamodb:")
