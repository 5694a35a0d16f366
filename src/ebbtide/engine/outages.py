"""What cannot be read of the cluster, the cloud and the metrics, and notes in the log of when that began and
ended.

A note is an alarm of its own kind, so every version can read it. What the process before knew of an outage
is found in the log: one that began under another runner ends under this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.events import OUTAGES, TICKS, Alarm, AlarmKind
from ebbtide.model.log import LogKind
from ebbtide.model.operation import Operation, Spot
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of, fact_in
from ebbtide.ports import Clock, Store

KNOWN_ALARMS = 100
"""An outage that began so many alarms ago is forgotten by a new process."""


class Origin(StrEnum):
    CLUSTER = "cluster"
    CLOUD = "cloud"
    METRICS = "metrics"


def unread_in(fresh: Snapshot, known: Snapshot) -> dict[Origin, str]:
    """The sources that `fresh` could not read, each with what is wrong. A cluster without a single node is
    not believed either: `observe` reports that as a problem, and the last nodes are the better picture."""
    says = "; ".join(fresh.problems)
    unread = {}
    if fresh.problems and not fresh.cluster.nodes:
        unread[Origin.CLUSTER] = says
    if fresh.problems and not fresh.instances and (known.instances or fresh.cluster.nodes):
        unread[Origin.CLOUD] = says
    if fresh.cpu.value is None and known.cpu.value is not None and Origin.CLUSTER not in unread:
        unread[Origin.METRICS] = fresh.cpu.problem
    return unread


class OutageNotes:
    """An observer that notes in the log when a source could not be read any more, and when it could again."""

    def __init__(self, store: Store, settings: Settings, clock: Clock, new_id: Callable[[], str]) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._longest_gap = settings.max_tick_gap_seconds
        self._known = Snapshot(0)
        self._since: dict[str, int] = {}
        """Of what cannot be read."""
        self._looked_at = -self._longest_gap
        self._failing_since = 0

    def looked(self, snapshot: Snapshot, _record: Record) -> None:
        if not 0 <= snapshot.at - self._looked_at <= self._longest_gap:
            # Another runner may have looked meanwhile, or a process before this one.
            self._since = dict(self._open_in_log())
        self._looked_at = snapshot.at
        unread = unread_in(snapshot, self._known)
        if not unread:
            self._known = snapshot
        facts = [*self._changes(snapshot, unread), *self._ticks_again(snapshot.at)]
        if facts:
            self._store.append([entry_of(self._new_id(), snapshot.at, fact) for fact in facts])

    def _changes(self, snapshot: Snapshot, unread: dict[Origin, str]) -> Iterator[Alarm]:
        for origin in Origin:
            since = self._since.get(origin)
            if origin is Origin.METRICS and snapshot.cpu.value is None and origin not in unread:
                # Who never knew the CPU, or cannot see the cluster, cannot tell.
                continue
            if origin in unread and since is None:
                self._since[origin] = snapshot.at
                yield Alarm(AlarmKind.SOURCE_GONE, unread[origin], source=origin)
            elif origin not in unread and since is not None:
                del self._since[origin]
                yield Alarm(AlarmKind.SOURCE_BACK, seconds=max(0, snapshot.at - since), source=origin)

    def _ticks_again(self, now: int) -> Iterator[Alarm]:
        since, self._failing_since = self._failing_since, 0
        if since and now - since >= self._longest_gap:
            yield Alarm(AlarmKind.SOURCE_BACK, seconds=now - since, source=TICKS)

    def _open_in_log(self) -> Iterator[tuple[str, int]]:
        told = set[str]()
        for entry in self._store.read_log([LogKind.ALARM], limit=KNOWN_ALARMS):
            fact = fact_in(entry, Alarm)
            if fact is None or fact.alarm not in OUTAGES or not fact.source or fact.source in told:
                continue
            told.add(fact.source)
            if fact.alarm is AlarmKind.SOURCE_GONE:
                yield fact.source, entry.at

    def ticked(self, _seconds: float, _held: bool, error: str) -> None:
        """A tick that failed did not come to look, and one without the lease leaves it to others."""
        self._failing_since = (self._failing_since or int(self._clock.now())) if error else 0

    def decided(self, decision: Decision) -> None: ...

    def began(self, work: Operation | Spot) -> None: ...

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None: ...

    def performed(self, outcomes: Sequence[Outcome]) -> None: ...

    def closed(self, work: Operation | Spot, succeeded: bool) -> None: ...
