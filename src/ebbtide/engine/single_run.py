"""One run of a process that ends: a Lambda, or `ebbtide once`.

While the cloud is about to take a machine the run continues to look and evict until its own deadline: the
next run may come a minute later, which is half of a spot notice. A run that could not see the cluster or the
cloud raises its alarm and then fails, so monitoring of failed runs shows it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport, tick
from ebbtide.errors import EbbtideError, Retryable
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.operation import SpotKind
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of

AGAIN_SECONDS = 5.0
"""From one look to the next while an interruption is being answered."""


def run_once(ports: Ports, settings: Settings, owner: str, deadline: float) -> TickReport:
    """A tick, and further ones for as long as an interruption is open and there is time."""
    report = tick(ports, settings, owner, deadline)
    while ports.clock.now() + AGAIN_SECONDS < deadline and _interrupted(ports):
        ports.clock.sleep(AGAIN_SECONDS)
        report = _joined(report, tick(ports, settings, owner, deadline))
    return report


def _interrupted(ports: Ports) -> bool:
    """Whether the cloud is about to reclaim a machine, whichever runner answers the notice."""
    return any(spot.kind is SpotKind.INTERRUPTION for spot in ports.store.load().spots)


def _joined(first: TickReport, then: TickReport) -> TickReport:
    """Both in one; what a later tick repeats, or did not find to do, is not said again."""
    told = [first.says] if then.quiet else [first.says, then.says]
    says = "; ".join(dict.fromkeys(told))
    held, decision = first.held or then.held, first.decision or then.decision
    return replace(then, says=says, decision=decision, held=held, quiet=first.quiet and then.quiet)


def fail_if_blind(ports: Ports, report: TickReport) -> None:
    """Raise the alarm and fail, where this run could not see what it is to look after."""
    if says := alarm_if_blind(ports, report):
        raise Retryable(says)


def alarm_if_blind(ports: Ports, report: TickReport) -> str:
    """Why this run is to fail, once the alarm is written and told; empty where it saw all."""
    if not report.problems:
        return ""
    says = f"{'; '.join(report.problems)}: nothing was decided and nothing removed in this run"
    alarm = entry_of(ports.new_id(), report.at, Alarm(AlarmKind.OBSERVATION, says))
    with suppress(EbbtideError):
        ports.store.append([alarm])
    ports.notifier.notify(alarm)
    return f"{says}; the next run tries again, see `ebbtide doctor` if that does not help"
