"""What will happen, in order. The heart of the simulator: nothing is looked at before its time.

An event is a moment, a kind and a subject, all plain values, so a timeline can be saved. Two
events of one moment happen in the order in which they were planned: the same seed, the same history.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from math import inf

from ebbtide.simulator.world.rules import Span

Event = tuple[float, int, str, str]
"""When, number, kind, subject."""


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
