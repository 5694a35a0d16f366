"""Deletes old log entries once a day, in daemons. The holder of the lease does it.

When it was last done is not kept: after a restart it is done again, and finds nothing.
"""

from __future__ import annotations

from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.settings import Settings
from ebbtide.narrate import entry_of

DAY_SECONDS = 24 * 3600


class Pruning:
    def __init__(self, ports: Ports, settings: Settings) -> None:
        self._ports = ports
        self._days = settings.log_retention_days
        self._due = 0.0

    def after(self, report: TickReport) -> None:
        """Never raises: a log that stays long is an alarm, not the end of a daemon; tried again a day on."""
        now = self._ports.clock.now()
        if not self._days or not report.held or now < self._due:
            return
        self._due = now + DAY_SECONDS
        try:
            self._ports.store.prune_log(int(now) - self._days * DAY_SECONDS)
        except Exception as error:  # whatever it is, it must not end the daemon
            fact = Alarm(AlarmKind.LOG_NOT_PRUNED, str(error))
            self._ports.notifier.notify(entry_of(self._ports.new_id(), int(now), fact))
