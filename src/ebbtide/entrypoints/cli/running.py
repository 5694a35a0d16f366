"""`ebbtide run` and `ebbtide once`: the loop as one process, and a single tick."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import typer
from rich.text import Text

from ebbtide import __version__
from ebbtide.entrypoints.cli.options import AsJson, ConfigPath, open_outside, read_config
from ebbtide.entrypoints.cli.writing import QUIET, console, moment, write_json, write_lines

if TYPE_CHECKING:
    from ebbtide.config import Config
    from ebbtide.engine.tick import TickReport


def new_owner() -> str:
    """Fresh for each process, and telling a person where that process is."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def once(ctx: typer.Context, config: ConfigPath = None, as_json: AsJson = False) -> None:
    """Run one tick and say what was done and why."""
    from ebbtide.engine.tick import tick

    found = read_config(ctx, config)
    with open_outside(found) as outside:
        deadline = outside.clock.now() + max(found.interval_seconds, found.settings.request_timeout_seconds)
        report = tick(outside, found.settings, new_owner(), deadline)
    if as_json:
        decision = report.decision
        write_json(
            {
                "at": report.at,
                "says": report.says,
                "held": report.held,
                "decision": None if decision is None else {"id": decision.id, "action": decision.action},
            }
        )
    else:
        write_lines([report_line(report)])


def report_line(report: TickReport) -> Text:
    return Text.assemble((f"{moment(report.at)}  ", QUIET), report.says or "nothing to do")


def run(ctx: typer.Context, config: ConfigPath = None) -> None:
    """Run until stopped: a tick every `interval_sec`. SIGTERM and Ctrl-C finish the tick, then end."""
    from ebbtide.engine.loop import run_loop

    found = read_config(ctx, config)
    stop = threading.Event()
    out = console()

    def on_report(report: TickReport) -> None:
        out.print(report_line(report))

    with ExitStack() as undo:
        outside = undo.enter_context(open_outside(found))
        outside.store.load()
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.signal(number, lambda *_: stop.set())
            undo.callback(signal.signal, number, before)
        owner = new_owner()
        out.print(_greeting(found, owner))
        run_loop(outside, found.settings, owner, found.interval_seconds, stop, on_report)
    out.print("Stopped: the lease is given back, and what is open is in the record.")


def _greeting(config: Config, owner: str) -> Text:
    from ebbtide.config.problems import mask

    settings = config.settings
    return Text.assemble(
        (f"ebbtide {__version__}", "bold"),
        f": cluster {settings.cluster!r} ({config.cluster_kind}), {settings.min_workers} to "
        f"{settings.max_workers} workers, a tick every {config.interval_seconds} s, "
        f"record in {mask(config.store_url)}; runner {owner}. Ctrl-C stops it.",
    )
