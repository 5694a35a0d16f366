"""Time in a story: what is due happens at its very second, also while a runner sleeps in the middle of a
tick."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from ebbtide.simulator.world.clock import VirtualClock

Stop = Callable[[], None]
_Planned = tuple[float, int, Stop]


class StoryClock(VirtualClock):
    """Stops on its way wherever something is planned. What is planned `late` happens only when time moves on
    from there, so a tick of that second comes before it."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._planned: list[_Planned] = []
        self._late: list[_Planned] = []
        self._count = 0
        self.follow: Callable[[float], None] = lambda _: None
        """Lets the world catch up with a moment, before what is planned there happens."""

    def plan(self, at: float, stop: Stop, late: bool = False) -> None:
        """Those of one moment happen in the order in which they were planned."""
        plans = self._late if late else self._planned
        self._count += 1
        heappush(plans, (at, self._count, stop))

    @property
    def next_at(self) -> float:
        """When something is planned next, except what is late."""
        return self._next(self._planned)

    def happen(self) -> None:
        """Whatever is due by now, except what is late."""
        while self._planned and self._planned[0][0] <= self.now():
            self.follow(self.now())
            heappop(self._planned)[2]()

    def finish(self) -> None:
        """Time moves on from here for the last time."""
        while self._late and self._late[0][0] <= self.now():
            self.follow(self.now())
            heappop(self._late)[2]()

    def jump(self, seconds: float) -> None:
        target = self.now() + seconds
        if seconds <= 0:
            super().jump(seconds)
            return
        self.finish()
        while (following := min(self._next(self._planned), self._next(self._late))) <= target:
            super().jump(max(following - self.now(), 0.0))
            self.happen()
            if following == target:
                return
            self.finish()
        super().jump(max(target - self.now(), 0.0))

    @staticmethod
    def _next(plans: list[_Planned]) -> float:
        return plans[0][0] if plans else inf
