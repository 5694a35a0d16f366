"""One runner's turn under one lease: renew it, know how long it lasts, forgive, release.

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

    @property
    def last_moment(self) -> float:
        """When the last effect may be started: in this run, and well within the lease."""
        return min(self.deadline, self.lease.until - self.margin_seconds)

    def has_time(self) -> bool:
        return self.clock.now() < self.last_moment

    def renew(self) -> None:
        self.lease = self.store.renew(self.lease, self.ttl_seconds)

    def half_over(self) -> bool:
        """A lease that is renewed from then on is not outlived by a long run."""
        return self.lease.until - self.clock.now() < self.ttl_seconds / 2

    def release(self) -> None:
        self.store.release(self.lease)


def nothing_counted() -> None:
    """Of a run that no count was written for."""


@contextmanager
def released(
    leased: Leased,
    left: Callable[[Conflict], None] | None = None,
    forgive: Callable[[], None] = nothing_counted,
    keeps_lease: bool = False,
) -> Iterator[None]:
    """Release the lease at the end. A conflict ends the run early: `left` is told, and the next run goes on.
    `forgive` takes back the count of a run that an outside fault stopped; a bug, or a process that dies,
    stays counted. With `keeps_lease` the lease is released only after an error."""
    try:
        yield
    except Exception as error:
        if isinstance(error, EbbtideError) and not isinstance(error, InvariantBroken):
            forgive()
        if left is None or not isinstance(error, Conflict):
            with suppress(EbbtideError):
                leased.release()
            raise
        left(error)
    if not keeps_lease:
        leased.release()
