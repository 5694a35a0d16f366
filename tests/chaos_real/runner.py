"""One runner, as `ebbtide run` makes it: from the configuration file to the loop, with its own connections.

It is run by two versions of the code, so it uses only what both have.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.bootstrap import build
from ebbtide.config import Config, load
from ebbtide.engine.loop import guarded_tick, run_loop
from ebbtide.engine.tick import TickReport
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogEntry
from tests.chaos.notes import Acknowledged

if TYPE_CHECKING:
    from ebbtide.engine.ports import Ports

NEVER_SET_ASIDE = 1_000_000
"""A runner is killed every other second here: that many in a row prove nothing about the operation."""
OPEN_AGAIN_SECONDS = 0.3


@dataclass(frozen=True)
class Order:
    """What a runner is told when it is born."""

    owner: str
    config: str
    folder: str
    interval_seconds: float
    keeps_lease: bool = True
    """As `ebbtide run` does; without it the lease is given back after each tick, as by `ebbtide once`."""


class Told:
    """Alarms, one line each: an error that nobody expected is a violation."""

    def notify(self, entry: LogEntry) -> None:
        say(f"{entry.kind}: {entry.says}")


def say(line: str) -> None:
    print(f"{time.time():.2f} {line}", file=sys.stderr, flush=True)


def run(order: Order, environ: Mapping[str, str]) -> None:
    config = load(Path(order.config), environ)
    settings = replace(config.settings, max_unclean_runs=NEVER_SET_ASIDE)
    opened = _opened(config)
    store = Acknowledged(opened.store, Path(order.folder) / f"{order.owner}.notes")
    ports = replace(_with_policies(config, replace(opened, notifier=Told()), order.owner), store=store)
    say(f"opened after {time.process_time():.2f} s of CPU")
    if order.keeps_lease:
        run_loop(ports, settings, order.owner, order.interval_seconds, threading.Event(), _report)
        return
    while True:
        _report(guarded_tick(ports, settings, order.owner, order.interval_seconds))
        ports.clock.sleep(order.interval_seconds)


def _with_policies(config: Config, ports: Ports, owner: str) -> Ports:
    """With the idle loop next to the ticks, where the configuration has policies."""
    if not config.policies:
        return ports
    from ebbtide.bootstrap.scaling import with_scaling
    from ebbtide.engine.scale_to_zero.scaling import run_rounds

    while True:
        try:
            both = with_scaling(config, ports, stays=True, say=say)
            break
        except EbbtideError as error:
            say(f"not opened: {error}")
            time.sleep(OPEN_AGAIN_SECONDS)
    arguments = (both.scaling, owner, threading.Event(), lambda report: say(f"policies: {report.says}"))
    if both.scaling is not None:
        threading.Thread(target=run_rounds, args=arguments, name="policies", daemon=True).start()
    return both.ports


def _report(report: TickReport) -> None:
    if report.held:
        say(report.says)


def _opened(config: Config) -> Ports:
    """A container would be started again until this succeeds."""
    while True:
        try:
            return build(config, watching=True)
        except EbbtideError as error:
            say(f"not opened: {error}")
        except Exception as error:
            say(f"not opened, unexpectedly: {error!r}")
            traceback.print_exc()
        time.sleep(OPEN_AGAIN_SECONDS)
