"""Several clusters in one process, and several such processes on one store, without talking to each other.

Each cluster has a loop of its own, in a thread, with a lease of its own. The more clusters a replica
holds, the less often it tries to take more. A replica that holds several gives an idle one back from time to
time and does not take it again for a while. So replicas with fewer clusters get it first, and the clusters
spread. If there is no other replica, it takes the cluster again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.engine.loop import Nudge, for_a_daemon, guarded_tick, sooner, step_down, wait_for_next
from ebbtide.engine.ports import Ports
from ebbtide.engine.pruning import Pruning
from ebbtide.engine.tick import TickReport
from ebbtide.errors import EbbtideError
from ebbtide.model.settings import Settings

TICKS_BETWEEN_OFFERS = 20
"""How many ticks a replica keeps a cluster before it offers it to the others, if it holds several."""

OnReport = Callable[[str, TickReport], None]


@dataclass(frozen=True, slots=True)
class Member:
    """One cluster of the fleet."""

    ports: Ports
    settings: Settings
    interval_seconds: float


class Fleet:
    def __init__(
        self, members: Sequence[Member], owner: str, stop: threading.Event, on_report: OnReport
    ) -> None:
        self._members = members
        self._owner = owner
        self._stop = stop
        self._on_report = on_report
        self._lock = threading.Lock()
        self._ticks_held: Counter[str] = Counter()

    def run(self) -> None:
        threads = [threading.Thread(target=self._follow, args=(member,)) for member in self._members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @property
    def held(self) -> int:
        with self._lock:
            return len(self._ticks_held)

    def _follow(self, member: Member) -> None:
        settings = for_a_daemon(member.settings)
        ttl = settings.lock_ttl_seconds
        pruning = Pruning(member.ports, settings)
        while not self._stop.is_set():
            nudge = Nudge(member.ports)
            report = guarded_tick(member.ports, settings, self._owner, member.interval_seconds, True)
            self._on_report(settings.cluster, report)
            pruning.after(report)
            self.note(settings.cluster, report.held)
            if report.held and self.offers(member, settings.cluster):
                self.note(settings.cluster, False)
                step_down(member.ports, self._owner, ttl)
            reach = 1 if self._holds(settings.cluster) else 1 + self.held
            keeps = ttl if self._holds(settings.cluster) else 0
            wait = sooner(member.interval_seconds * reach, report, member.ports.clock.now())
            wait_for_next(nudge, self._owner, wait, self._stop, keeps)
        step_down(member.ports, self._owner, ttl)

    def note(self, cluster: str, held: bool) -> None:
        with self._lock:
            if held:
                self._ticks_held[cluster] += 1
            else:
                self._ticks_held.pop(cluster, None)

    def _holds(self, cluster: str) -> bool:
        with self._lock:
            return cluster in self._ticks_held

    def offers(self, member: Member, cluster: str) -> bool:
        """Whether to give this one back: several are held, it was held long enough, and nothing is open."""
        with self._lock:
            due = len(self._ticks_held) > 1 and self._ticks_held[cluster] >= TICKS_BETWEEN_OFFERS
        if not due:
            return False
        with suppress(EbbtideError):
            record = member.ports.store.load()
            return not record.scaling_in_progress and not record.spots
        return False
