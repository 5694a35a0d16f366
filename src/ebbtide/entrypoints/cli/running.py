"""`ebbtide run` and `ebbtide once`: the loop as one process, and a single tick."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ebbtide import __version__
from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, open_ports, read_config, says_simulated
from ebbtide.entrypoints.cli.stopping import set_by_signals
from ebbtide.entrypoints.views.terminal import QUIET, console, moment, write_json, write_lines

if TYPE_CHECKING:
    from rich.console import Console

    from ebbtide.bootstrap.parts import Watched
    from ebbtide.bootstrap.scaling import Runtime
    from ebbtide.config import Config
    from ebbtide.engine.ports import Ports
    from ebbtide.engine.scale_to_zero.scaling import RoundReport, Scaling
    from ebbtide.engine.tick import TickReport


def new_owner() -> str:
    """Fresh for each process, and telling a person where that process is."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def once(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Run one round over the policies, if there are any, and one tick. Shows what was done and why."""
    from ebbtide.bootstrap.scaling import with_scaling
    from ebbtide.engine.loop import fail_if_blind, run_once

    found = read_config(ctx, config)
    owner = new_owner()
    if simulated := says_simulated(found):
        typer.echo(f"ebbtide: {simulated}", err=True)
    with open_ports(found) as opened:
        opened.store.load()  # a record that is not ours to write ends this before anything is written
        both = with_scaling(found, opened, say=lambda says: typer.echo(f"ebbtide: {says}", err=True))
        seconds = max(found.interval_seconds, found.settings.request_timeout_seconds)
        rounded = both.scaling.round(owner, opened.clock.now() + seconds) if both.scaling else None
        report = run_once(both.ports, found.settings, owner, opened.clock.now() + seconds)
        _show_once(report, rounded.says if rounded and rounded.policies else "", as_json)
        fail_if_blind(both.ports, report)


def _show_once(report: TickReport, policies: str, as_json: bool) -> None:
    if as_json:
        decision = report.decision
        write_json(
            {
                "at": report.at,
                "says": report.says,
                "held": report.held,
                "decision": None if decision is None else {"id": decision.id, "action": decision.action},
                "policies": policies,
            }
        )
    else:
        write_lines([*([Text(policies)] if policies else []), report_line(report)])


def report_line(report: TickReport) -> Text:
    return Text.assemble((f"{moment(report.at)}  ", QUIET), report.says or "nothing to do")


def run(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Configuration files of several clusters, one each."),
    ] = None,
    config: ConfigPath = None,
) -> None:
    """Run until stopped: a tick every `interval_sec`. SIGTERM and Ctrl-C finish the tick, then end."""
    from ebbtide.bootstrap.parts import metrics_served
    from ebbtide.entrypoints.cli.serving import import_api

    stop = threading.Event()
    out = console()
    named: list[Path | None] = [*files] if files else [config]
    found = [read_config(ctx, path) for path in named]
    check_distinct(found)
    if any(each.api.listen != "off" for each in found):
        import_api()  # before anything is opened
    with ExitStack() as undo:
        opened = [undo.enter_context(open_ports(each, watching=True)) for each in found]
        for ports in opened:
            ports.store.load()
        undo.enter_context(set_by_signals(stop))
        owner = new_owner()
        for each, ports in zip(found, opened, strict=True):
            if simulated := says_simulated(each):
                out.print(Text(simulated, "yellow"))
            out.print(_greeting(each, owner))
            if not simulated:  # nobody can adopt the foreign node of a first try
                _tell_uncounted(ports, out)
        watched = undo.enter_context(
            metrics_served(list(zip(found, opened, strict=True)), lambda says: out.print(Text(says)))
        )
        clusters = [
            (each, undo.enter_context(_with_rounds(each, ports, watched, owner, stop)))
            for each, ports in zip(found, watched.opened, strict=True)
        ]
        _run_all(clusters, owner, stop, out)
    out.print("Stopped: the lease is released, and open operations are in the record.")


@contextmanager
def _with_rounds(
    config: Config, ports: Ports, watched: Watched, owner: str, stop: threading.Event
) -> Iterator[Ports]:
    """Next to the ticks: the API, where it is wanted, and the idle loop, where workloads can be scaled."""
    from ebbtide.bootstrap.scaling import with_scaling

    out = console()
    both = with_scaling(config, ports, stays=True, say=lambda says: out.print(Text(says)))
    watched.follow(config, both.scaling)
    with _api(config, both, watched, out), _rounds(both.scaling, owner, stop, out):
        yield both.ports


@contextmanager
def _api(config: Config, both: Runtime, watched: Watched, out: Console) -> Iterator[None]:
    if config.api.listen == "off":
        yield
        return
    from ebbtide.entrypoints.cli.serving import api_served

    with api_served(config, both.ports, config.api.listen, both.scaling, watched.health) as url:
        out.print(Text(f"Pages and API: {url}"))
        yield


@contextmanager
def _rounds(scaling: Scaling | None, owner: str, stop: threading.Event, out: Console) -> Iterator[None]:
    from ebbtide.engine.scale_to_zero.scaling import run_rounds

    if scaling is None:
        yield
        return

    def show(report: RoundReport) -> None:
        if report.sentences or not report.held:
            out.print(Text.assemble((f"{moment(report.at)}  ", QUIET), report.says))

    thread = threading.Thread(target=run_rounds, args=(scaling, owner, stop, show), name="policies")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _run_all(clusters: list[tuple[Config, Ports]], owner: str, stop: threading.Event, out: Console) -> None:
    from ebbtide.engine.loop import Fleet, Member, run_loop

    if len(clusters) == 1:
        config, ports = clusters[0]

        def show(report: TickReport) -> None:
            out.print(report_line(report))

        run_loop(ports, config.settings, owner, config.interval_seconds, stop, show)
        return

    def show_of(cluster: str, report: TickReport) -> None:
        out.print(Text.assemble((f"{cluster}  ", "bold"), report_line(report)))

    members = [Member(ports, config.settings, config.interval_seconds) for config, ports in clusters]
    Fleet(members, owner, stop, show_of).run()


def _tell_uncounted(ports: Ports, out: Console) -> None:
    """Shown once, before the first tick: a new user may not know that nodes must be adopted."""
    from ebbtide.core.nodes.orphans import says_uncounted, uncounted
    from ebbtide.errors import EbbtideError

    try:
        loose = [node.name for node in uncounted(ports.cluster.read())]
    except EbbtideError:
        return  # the tick says what is wrong with the cluster, and keeps trying
    if loose:
        out.print(Text(f"! {says_uncounted(loose)}", "yellow"))


def check_distinct(configs: list[Config]) -> None:
    """Two loops of one process on the same record would take each other's lease for their own."""
    from ebbtide.bootstrap import place_of_store
    from ebbtide.errors import ConfigError

    seen: set[tuple[str, str]] = set()
    for config in configs:
        key = (place_of_store(config), config.settings.cluster)
        if key in seen:
            raise ConfigError(
                f"cluster {config.settings.cluster!r} is named by two of the files, with the same store; "
                "nothing was touched. Give each its own cluster.name."
            )
        seen.add(key)


def _greeting(config: Config, owner: str) -> Text:
    from ebbtide.config.problems import mask

    settings = config.settings
    return Text.assemble(
        (f"ebbtide {__version__}", "bold"),
        f": cluster {settings.cluster!r} ({config.cluster_kind}), {settings.min_workers} to "
        f"{settings.max_workers} workers, a tick every {config.interval_seconds} s, "
        f"record in {mask(config.store_url)}; runner {owner}. Ctrl-C stops it.",
    )
