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

app = typer.Typer(
    no_args_is_help=True, help="Show what node types cost, or get current prices from the cloud."
)
PriceFile = Annotated[
    Path | None,
    typer.Option(
        help="Price file. Default: `prices.file`, else ebbtide-prices.yaml next to the configuration."
    ),
]


def assess(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A file with the output of kubectl, - for standard input, or live."
        ),
    ],
    prices: PriceFile = None,
    html: Annotated[Path | None, typer.Option(help="Also write the report as a page.")] = None,
    md: Annotated[Path | None, typer.Option(help="Also write the report as Markdown.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report what a cluster costs and wastes, from a dump or live. Changes nothing."""
    from ebbtide.entrypoints.assess.command import assess_command

    book = read_config(ctx, None, price_file=prices).prices
    raise typer.Exit(assess_command(source, book, as_json, html, md))


@app.command()
def show(
    ctx: typer.Context,
    file: PriceFile = None,
    config: ConfigPath = None,
    as_json: AsJson = False,
) -> None:
    """List the prices of the pools' types, or of all known types where no pool is configured."""
    from ebbtide.entrypoints.prices import show as show_prices

    found = read_config(ctx, config, price_file=file)
    show_prices(_pools(found), found.prices, as_json)


@app.command()
def update(
    ctx: typer.Context,
    file: PriceFile = None,
    config: ConfigPath = None,
) -> None:
    """Get prices from the configured cloud and write them to the price file."""
    from datetime import UTC, datetime

    from ebbtide.bootstrap.kubernetes import cloud_client
    from ebbtide.config.prices import price_file_to_write
    from ebbtide.entrypoints.prices import update as update_prices

    found = read_config(ctx, config, with_prices=False)
    file = file or price_file_to_write(found)
    client = cloud_client(found)
    day = datetime.now(UTC).date().isoformat()
    says = update_prices(found.adapters.cloud.kind or "", client, found.settings.pools, file, day)
    write_lines([f"{says[0].upper()}{says[1:]}."])


def _pools(config: Config) -> tuple[Pool, ...]:
    """Those that were given; the one that stands in for a simulated cluster is nobody's."""
    given = any(key.key == "pools" and key.origin != "default" for key in config.effective)
    return config.settings.pools if given else ()
