"""The idle loop of a process that stays: a round every so often, next to the ticks, until asked to stop.

A loop of its own, since a slow metric must not delay a node, nor a slow cloud a wake.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from ebbtide.engine.scale_to_zero.scaling import RoundReport, Scaling
from ebbtide.errors import EbbtideError
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.narrate import entry_of
from ebbtide.redact import redact

JITTER = 0.1
LEAST_BUDGET_SECONDS = 30.0

OnRound = Callable[[RoundReport], None]


def guarded_round(scaling: Scaling, owner: str) -> RoundReport:
    """A round that turns any error into an alarm; the next one starts from the states."""
    ports = scaling.ports
    now = ports.clock.now()
    deadline = now + max(scaling.defaults.check_interval_seconds, LEAST_BUDGET_SECONDS)
    try:
        return scaling.round(owner, deadline)
    except EbbtideError as error:
        alarm = Alarm(AlarmKind.ROUND_FAILED, str(error))
    except Exception as error:  # a daemon must outlive a bug in one round
        detail = redact(f"{type(error).__name__}: {error}")
        alarm = Alarm(AlarmKind.ROUND_FAILED, detail, unexpected=True)
    entry = entry_of(ports.new_id(), int(now), alarm)
    ports.notifier.notify(entry)
    return RoundReport(int(now), entry.says, held=False)


def run_rounds(scaling: Scaling, owner: str, stop: threading.Event, on_round: OnRound) -> None:
    chance = random.Random(owner)
    while not stop.is_set():
        on_round(guarded_round(scaling, owner))
        stop.wait(scaling.defaults.check_interval_seconds * (1 + JITTER * chance.uniform(-1, 1)))
