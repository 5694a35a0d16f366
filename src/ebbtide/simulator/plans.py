"""Which call of a runner goes wrong, and how.

To try every crash point of a story, run it once with `CrashPlan()` to count the calls, then once for
each call and each way to fail:

    counting = CrashPlan()
    run_story(faulty_outside(outside, counting))
    for number, label in enumerate(counting.calls, start=1):        # "store.write#7", "cloud.terminate#1"
        for strike in STRIKES:
            run_story(faulty_outside(fresh_outside(), CrashPlan(number, strike)))

Only the calls that change something are numbered: all writes to the store, acquire, renew and release
of leases, every effect on cluster and cloud, and acknowledging a notice. `RandomPlan` draws instead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol


class Strike(StrEnum):
    NONE = "none"
    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    LOST_REPLY = "lost reply"
    """Carried out, then `Unanswered`."""
    FAILED = "failed call"
    """Not carried out: `Retryable`."""
    THROTTLED = "throttled"
    STALL = "stall"
    """The runner freezes just before the call; `on_stall` is what happens meanwhile. Then it lands."""


STRIKES = (Strike.CRASH_BEFORE, Strike.CRASH_AFTER, Strike.LOST_REPLY, Strike.FAILED)


EFFECT_WEIGHT = 5.0


class Distortion(StrEnum):
    """What is wrong with something that is read."""

    NONE = "none"
    STALE = "stale list"
    EMPTY = "empty list"
    GONE = "gone"


class Plan(Protocol):
    def strike(self, verb: str) -> Strike:
        """Asked once before each call that changes something, in order."""

    def distort(self, verb: str) -> Distortion:
        """Asked once before each read."""

    def stalled(self, verb: str) -> None:
        """What happens while the runner is frozen before this call."""


class CrashPlan:
    """Strikes the call of one number, counted from 1; number 0 only counts."""

    def __init__(
        self, number: int = 0, strike: Strike = Strike.NONE, on_stall: Callable[[], None] | None = None
    ) -> None:
        self._number = number
        self._strike = strike
        self._on_stall = on_stall
        self._counts: Counter[str] = Counter()
        self.calls: list[str] = []
        """The labels of all calls so far: verb, `#`, and the how-manieth call of that verb."""

    @property
    def struck(self) -> str:
        """The label of the call that was struck; empty while none was."""
        reached = 0 < self._number <= len(self.calls) and self._strike is not Strike.NONE
        return self.calls[self._number - 1] if reached else ""

    def strike(self, verb: str) -> Strike:
        self._counts[verb] += 1
        self.calls.append(f"{verb}#{self._counts[verb]}")
        return self._strike if len(self.calls) == self._number else Strike.NONE

    def distort(self, verb: str) -> Distortion:  # noqa: ARG002 - this plan leaves reads alone
        return Distortion.NONE

    def stalled(self, verb: str) -> None:  # noqa: ARG002 - the number says which call it is
        if self._on_stall is not None:
            self._on_stall()


class RandomPlan:
    """Draws from a seed. `chances` gives the probability of each strike, for every single call to the
    store, and several times that for the rarer effects on cluster and cloud; `distortions` gives that of
    each distortion by the verb it is about."""

    def __init__(
        self,
        seed: int,
        chances: Mapping[Strike, float],
        distortions: Mapping[str, Mapping[Distortion, float]] | None = None,
    ) -> None:
        self._random = random.Random(seed)
        self._chances = dict(chances)
        self._distortions = dict(distortions or {})
        self.on_stall: Callable[[str], None] | None = None
        self.counts: Counter[str] = Counter()
        self.quiet = False
        """No faults while this is set; the draws go on, so that the rest stays the same."""

    def strike(self, verb: str) -> Strike:
        weight = 1.0 if verb.startswith("store.") else EFFECT_WEIGHT
        return Strike(self._draw(self._chances, Strike.NONE, weight))

    def distort(self, verb: str) -> Distortion:
        return Distortion(self._draw(self._distortions.get(verb, {}), Distortion.NONE))

    def stalled(self, verb: str) -> None:
        if self.on_stall is not None:
            self.on_stall(verb)

    def _draw(
        self, chances: Mapping[Strike, float] | Mapping[Distortion, float], none: str, weight: float = 1.0
    ) -> str:
        if not chances:
            return none
        drawn = self._random.random() / weight
        for name, chance in chances.items():
            drawn -= chance
            if drawn < 0 and not self.quiet:
                self.counts[name] += 1
                return name
        return none
