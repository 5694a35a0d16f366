"""One runner's turn under one lease: renew it, know how long it lasts, handle failures, release.

Ticks, answers to spot notices and rounds over policies all run in here, so there is one rule about what
a failure does to the lease and to the count of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ebbtide.engine.rounds import InvariantBroken
from ebbtide.errors import Conflict, EbbtideError
from ebbtide.model.record import Lease
from ebbtide.ports import Clock, Store


@dataclass(slots=True)
class Leased:
    store: Store
    clock: Clock
    lease: Lease
    ttl_seconds: int
    margin_seconds: int
    deadline: float
    """Of the run, whatever the lease says."""
    since: float
    """When the lease was last asked for, by our own clock."""

    @property
    def last_moment(self) -> float:
        """When the last effect may be started: in this run, and well within the lease."""
        return min(self.deadline, self._ends - self.margin_seconds)

    def has_time(self) -> bool:
        # Crash table: wrong-clock. A clock that went back cannot tell how long we have had the lease.
        return self.since <= self.clock.now() < self.last_moment

    def renew(self) -> None:
        since = self.clock.now()
        self.lease = self.store.renew(self.lease, self.ttl_seconds)
        self.since = since

    def half_over(self) -> bool:
        """A lease that is renewed from then on is not outlived by a long run."""
        now = self.clock.now()
        return now < self.since or self._ends - now < self.ttl_seconds / 2

    def release(self) -> None:
        self.store.release(self.lease)

    @property
    def _ends(self) -> float:
        """By our own clock it lasts no longer than its time from when it was asked for; `until` may be by the
        clock of the store."""
        return min(self.lease.until, self.since + self.ttl_seconds)


def nothing_counted() -> None:
    """Of a run that no count was written for."""


@contextmanager
def released(
    leased: Leased,
    left: Callable[[Conflict], None] | None = None,
    forgive: Callable[[], None] = nothing_counted,
    keeps_lease: bool = False,
) -> Iterator[None]:
    """Release the lease at the end. A conflict ends the run early: `left` is called, and the next run
    continues.
    `forgive` takes back the count of a run that an outside fault stopped; a bug, or a process that dies,
    stays counted. With `keeps_lease` the lease is released only after an error."""
    try:
        yield
    except Exception as error:
        # An outage says nothing about the operation. A bug or a killed process may come from it.
        if isinstance(error, EbbtideError) and not isinstance(error, InvariantBroken):
            forgive()
        # The lease is of no more use, and the next runner need not wait for its end.
        if left is None or not isinstance(error, Conflict):
            with suppress(EbbtideError):
                leased.release()
            raise
        left(error)
    if not keeps_lease:
        leased.release()
