"""`ebbtide gate`: wake on request. `ebbtide gate release`: give Services back before an uninstall."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import ConfigPath, read_config
from ebbtide.entrypoints.cli.writing import write_lines
from ebbtide.errors import EbbtideError, Usage

if TYPE_CHECKING:
    from ebbtide.bootstrap.gate import GateProcess
    from ebbtide.config import Config

app = typer.Typer(
    invoke_without_command=True, help="Hold the first connection to a sleeping Service, and wake the Service."
)


@app.callback()
def gate(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Run a gate until it is asked to stop. Run two or more, next to the autoscaler."""
    if ctx.invoked_subcommand is not None:
        return
    from ebbtide.bootstrap.kubernetes import needing

    found = read_config(ctx, config)
    with needing("gate"):
        from ebbtide.bootstrap.gate import GateProcess, gate_opened
    with gate_opened(found) as (scaling, connection), ExitStack() as last:
        process = GateProcess(scaling, connection, found.gate, lambda says: write_lines([says]))
        _serve_metrics(found, process, last)
        _runner()(_until_asked(process))


@app.command()
def release(
    ctx: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Every Service that points at the gates.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also Services without a ready pod. Connections to them then fail."),
    ] = False,
    config: ConfigPath = None,
) -> None:
    """Point Services at their pods again, before an uninstall. Services without a ready pod need --force."""
    if not everything:
        raise Usage("nothing was named; nothing was touched. Add --all to release every Service.")
    from ebbtide.bootstrap.kubernetes import needing

    found = read_config(ctx, config)
    with needing("gate"):
        from ebbtide.bootstrap.gate import gate_opened
    with gate_opened(found) as (scaling, _):
        services = scaling.ports.services
        if services is None:
            raise Usage("gate.service is empty; nothing was touched. Set it to the Service of the gates.")
        kept = 0
        for taken in services.list_taken():
            try:
                if not services.read(taken.service).ready and not force:
                    kept += 1
                    write_lines([f"{taken.service}: kept, since no pod is ready. Wake its policy first."])
                    continue
                services.release(taken)
                write_lines([f"{taken.service}: released"])
            except EbbtideError as error:
                kept += 1
                write_lines([f"{taken.service}: kept: {error}"])
    if kept:
        raise typer.Exit(1)


async def _until_asked(process: GateProcess) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await process.run(stop)


def _runner() -> Callable[..., object]:
    """uvloop passes bytes as cheaply as nginx; without it the gate works, at a third of the pace."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.run
    run: Callable[..., object] = uvloop.run
    return run


def _serve_metrics(config: Config, process: GateProcess, last: ExitStack) -> None:
    from ebbtide.adapters.metrics_export.serving import MetricsServer

    if config.metrics_addr == "off":
        return
    host, _, port = config.metrics_addr.rpartition(":")
    server = MetricsServer(process.health, host.strip("[]"), int(port))
    last.callback(server.close)
    write_lines([f"Metrics: http://{host}:{server.port}/metrics"])
