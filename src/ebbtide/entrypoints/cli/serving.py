"""`ebbtide serve` and `token`: the API and its pages, and who may use them; and `ebbtide gate`: wake on
request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, open_ports, read_config
from ebbtide.entrypoints.cli.stopping import SIGNALS, set_by_signals
from ebbtide.entrypoints.views.terminal import write_json, write_lines
from ebbtide.errors import EbbtideError, Usage

if TYPE_CHECKING:
    from ebbtide.adapters.metrics_export.serving import Health
    from ebbtide.bootstrap.gate import GateProcess
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.engine.scale_to_zero.scaling import Scaling

DEFAULT_LISTEN = "127.0.0.1:8808"

tokens = typer.Typer(no_args_is_help=True, help="Create tokens for the API.")


class ScopeName(StrEnum):
    READ = "read"
    WAKE = "wake"
    ADMIN = "admin"


@tokens.command("new")
def new(
    name: Annotated[str, typer.Option(help="Who will use it.")],
    scope: Annotated[ScopeName, typer.Option(help="What it may do.")] = ScopeName.READ,
    days: Annotated[
        int, typer.Option(min=0, max=3650, help="How many days it is valid; 0 means no end.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Create a token. It is shown once and not stored; the configuration holds its digest."""
    from ebbtide.entrypoints.api.site import digest_of, new_token

    token = new_token()
    entry = {"name": name, "scope": scope.value, "sha256": digest_of(token)}
    if days:
        entry["expires"] = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    if as_json:
        write_json({"token": token, "entry": entry})
        return
    fields = ", ".join(f'{key}: "{value}"' for key, value in entry.items())
    write_lines(
        [
            f"The token, shown this once:  {token}",
            "",
            "In ebbtide.yaml:",
            "api:",
            "  tokens:",
            f"    - {{{fields}}}",
        ]
    )


def serve(
    ctx: typer.Context,
    listen: Annotated[str, typer.Option(help=f"HOST:PORT. Default: api.listen, else {DEFAULT_LISTEN}.")] = "",
    config: ConfigPath = None,
) -> None:
    """Serve only the API and the pages, if ticks run elsewhere (in a Lambda, in other replicas)."""
    from ebbtide.bootstrap.parts import watched
    from ebbtide.bootstrap.scaling import open_scaling
    from ebbtide.config.api import beyond_loopback

    found = read_config(ctx, config)
    configured = found.api.listen if found.api.listen != "off" else ""
    address = listen or configured or DEFAULT_LISTEN
    if not address.rpartition(":")[2].isdigit() or not address.rpartition(":")[0]:
        raise Usage(f"{address!r} is not HOST:PORT; nothing was touched. Write it as {DEFAULT_LISTEN}.")
    if beyond_loopback(address) and not found.api.tokens:
        raise Usage(
            f"{address} can be reached from other machines, and api.tokens is empty; nothing was touched. "
            "Make a token with `ebbtide token new`, or listen on 127.0.0.1."
        )
    import_api()  # before anything is opened: it says that nothing was touched
    stop = threading.Event()
    with set_by_signals(stop), open_ports(found, watching=True) as opened:
        opened.store.load()
        seen = watched([(found, opened)], lambda says: write_lines([says]), ticks=False)
        (ports,) = seen.opened
        scaling = open_scaling(found, ports, stays=True)
        if scaling is None:
            write_lines(["Policies are not served: `ebbtide db upgrade` makes their tables."])
        seen.follow(found, scaling)
        with api_served(found, ports, address, scaling, seen.health) as url:
            write_lines([f"Pages and API: {url}  (Ctrl-C stops it)"])
            stop.wait()


def import_api() -> None:
    """`Usage` where the libraries of the API are not installed."""
    from ebbtide.bootstrap.kubernetes import needing

    with needing("api"):
        import ebbtide.entrypoints.api.app
        import ebbtide.entrypoints.api.serving  # noqa: F401


@contextmanager
def api_served(
    config: Config, ports: Ports, listen: str, scaling: Scaling | None, health: Health | None
) -> Iterator[str]:
    """Its address. `Usage` where it cannot be listened on."""
    from ebbtide.config.api import host_and_port
    from ebbtide.entrypoints.api.app import make_app
    from ebbtide.entrypoints.api.serving import served
    from ebbtide.entrypoints.api.site import open_site

    host, port = host_and_port(listen)
    shown = f"[{host}]" if ":" in host else host
    with served(make_app(open_site(config, ports, listen, scaling, health)), host, port) as at:
        yield f"http://{shown}:{at}/"


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
        raise Usage("give --all to release every Service; nothing was touched.")
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
    for number in SIGNALS:
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
    from ebbtide.adapters.metrics_export.serving import MetricsEndpoint

    if config.metrics_addr == "off":
        return
    host, _, port = config.metrics_addr.rpartition(":")
    server = MetricsEndpoint(process.health, host.strip("[]"), int(port))
    last.callback(server.close)
    write_lines([f"Metrics: http://{host}:{server.port}/metrics"])
