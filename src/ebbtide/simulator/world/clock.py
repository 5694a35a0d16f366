"""Virtual time, which moves only when somebody sleeps or jumps, and what will happen in it, in order.

    clock = VirtualClock(1_700_000_000)
    clock.sleep(60)                     # sixty seconds pass at once
    runner_clock = SkewedClock(clock, seconds=-5)   # a runner whose own clock is five seconds slow

The world reads the true clock, a runner its own: that is how clock skew and jumps are played. An event is
a moment, a kind and a subject, all plain values, so a timeline can be saved. Two events of one moment
happen in the order in which they were planned: the same seed, the same history. Nothing is looked at
before its time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from math import inf

from ebbtide.simulator.world.rules import Span

Event = tuple[float, int, str, str]
"""When, number, kind, subject."""


class VirtualClock:
    """Seconds since an epoch of its own. `on_move` is called for every move, so a world can follow."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = float(now)
        self.on_move: Callable[[float], None] | None = None

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Move by so many seconds. The true clock never goes back: a world cannot be undone."""
        if seconds < 0:
            raise ValueError(f"the true clock cannot go back by {-seconds} s; skew a runner's clock instead")
        self._now += seconds
        if self.on_move is not None:
            self.on_move(self._now)

    def move_to(self, moment: float) -> None:
        self.jump(max(moment - self._now, 0.0))


class SkewedClock:
    """What one runner believes the time to be: the true time and a difference that may jump."""

    def __init__(self, true: VirtualClock, seconds: float = 0.0) -> None:
        self._true = true
        self.seconds = seconds

    def now(self) -> float:
        return self._true.now() + self.seconds

    def sleep(self, seconds: float) -> None:
        self._true.sleep(seconds)

    def jump(self, seconds: float) -> None:
        """Change this runner's belief alone; it may go back."""
        self.seconds += seconds


class Timeline:
    def __init__(self, now: float, seed: int) -> None:
        self.now = float(now)
        self.random = random.Random(seed)
        self.serial = 0
        self.events: list[Event] = []
        self._handlers: dict[str, Callable[[str], None]] = {}

    def on(self, kind: str, handler: Callable[[str], None]) -> None:
        self._handlers[kind] = handler

    def kinds(self) -> tuple[str, ...]:
        return tuple(self._handlers)

    def at(self, moment: float, kind: str, subject: str = "") -> None:
        heapq.heappush(self.events, (max(float(moment), self.now), self.number(), kind, subject))

    def after(self, seconds: float, kind: str, subject: str = "") -> None:
        self.at(self.now + seconds, kind, subject)

    def number(self) -> int:
        """A number that was not given out before; it orders events and makes names unique."""
        self.serial += 1
        return self.serial

    def draw(self, span: Span) -> float:
        return self.random.uniform(span.low, span.high)

    def chance(self, probability: float) -> bool:
        return probability >= 1 or (probability > 0 and self.random.random() < probability)

    @property
    def next_at(self) -> float:
        """When something happens next; infinitely late where nothing is planned."""
        return self.events[0][0] if self.events else inf

    def advance_to(self, moment: float) -> None:
        """Let everything happen that is due by then. A moment that has passed changes nothing."""
        while self.events and self.events[0][0] <= moment:
            at, _, kind, subject = heapq.heappop(self.events)
            self.now = max(self.now, at)
            self._handlers[kind](subject)
        self.now = max(self.now, float(moment))
