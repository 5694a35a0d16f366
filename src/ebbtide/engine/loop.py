"""The daemon's loop: a tick every so often, with jitter, until asked to stop.

A tick that fails is an alarm and not an end: the next one starts from the record. Between two ticks
the inbox is looked at often, since a spot notice cannot wait.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from ebbtide.engine.outside import Outside
from ebbtide.engine.tick import TickReport, tick
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.settings import Settings

JITTER = 0.1
INBOX_SECONDS = 2.0

OnReport = Callable[[TickReport], None]


def run_loop(
    outside: Outside,
    settings: Settings,
    owner: str,
    interval_seconds: float,
    stop: threading.Event,
    on_report: OnReport,
) -> None:
    chance = random.Random(owner)  # spreads replicas over time; the owner id is fresh for each process
    while not stop.is_set():
        on_report(guarded_tick(outside, settings, owner, interval_seconds))
        wait = interval_seconds * (1 + JITTER * chance.uniform(-1, 1))
        until = outside.clock.now() + wait
        while not stop.is_set() and outside.clock.now() < until:
            stop.wait(min(INBOX_SECONDS, max(0.0, until - outside.clock.now())))
            if _mail_waits(outside):
                break


def _mail_waits(outside: Outside) -> bool:
    """An inbox that cannot be read is the next tick's alarm, not this loop's end."""
    try:
        return bool(outside.inbox.receive())
    except Exception:  # whatever it is, it must not end the daemon
        return False


def guarded_tick(outside: Outside, settings: Settings, owner: str, budget_seconds: float) -> TickReport:
    """A tick that turns any error into an alarm."""
    start = outside.clock.now()
    try:
        return tick(outside, settings, owner, start + max(budget_seconds, settings.request_timeout_seconds))
    except EbbtideError as error:
        says = f"tick failed: {error}"
    except Exception as error:  # a daemon must outlive a bug in one tick; the operation's runs are counted
        says = f"tick failed unexpectedly: {type(error).__name__}: {error}"
    alarm = LogEntry(outside.new_id(), int(start), LogKind.ALARM, says)
    outside.notifier.notify(alarm)
    return TickReport(int(start), says, held=False)
