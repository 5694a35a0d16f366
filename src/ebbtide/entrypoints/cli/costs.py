"""`ebbtide assess` and `ebbtide prices show` and `update`: what a cluster costs, and who says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, read_config
from ebbtide.entrypoints.cli.writing import write_lines

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.model.pool import Pool

app = typer.Typer(no_args_is_help=True, help="Show what node types cost, or ask the cloud for it.")
DEFAULT_FILE = Path("ebbtide-prices.yaml")


def assess(
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="A dump of kubectl, - for standard input, or live.")
    ],
    prices: Annotated[Path | None, typer.Option(help="A price book of your own.")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a cluster costs and wastes, from a dump or live. Changes nothing."""
    from ebbtide.bootstrap.kubernetes import needing

    with needing("kube"):
        from ebbtide.entrypoints.assess import assess_command

        code = assess_command(source, prices, as_json, html)
    raise typer.Exit(code)


@app.command()
def show(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Option(help="Price file that wins over the built-in list.")] = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """List the prices of the pools' types, or of all known types where no pool is configured."""
    from ebbtide.entrypoints.prices import show as show_prices

    found = file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    show_prices(_pools(read_config(ctx, config)), found, as_json)


@app.command()
def update(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option(help="Price file to write.")] = DEFAULT_FILE,
    config: ConfigPath = None,
) -> None:
    """Ask the configured cloud for prices and keep them in the price file."""
    from datetime import UTC, datetime

    from ebbtide.bootstrap.kubernetes import cloud_client
    from ebbtide.entrypoints.prices import update as update_prices

    found = read_config(ctx, config)
    client = cloud_client(found)
    day = datetime.now(UTC).date().isoformat()
    says = update_prices(found.adapters.cloud.kind or "", client, found.settings.pools, file, day)
    write_lines([f"{says[0].upper()}{says[1:]}."])


def _pools(config: Config) -> tuple[Pool, ...]:
    """Those that were given; the one that stands in for a simulated cluster is nobody's."""
    given = any(key.key == "pools" and key.origin != "default" for key in config.effective)
    return config.settings.pools if given else ()
