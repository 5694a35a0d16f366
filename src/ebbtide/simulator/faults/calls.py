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
    DELAYED = "delayed landing"
    """`Unanswered` at once; the call is carried out some calls later, whichever runner makes those."""
    SERVER_ERROR = "server error"
    """`Unanswered`, and not carried out."""
    BUDGET = "budget exhausted"
    """Of an eviction: `BudgetExhausted`, as by a budget that was used up a moment ago."""
    REFUSED = "eviction refused"
    """Of an eviction: `Final`, as by two budgets over one pod."""
    SLOW = "slow call"
    """Carried out, but the lease has run out when the answer comes."""


STRIKES = (Strike.CRASH_BEFORE, Strike.CRASH_AFTER, Strike.LOST_REPLY, Strike.FAILED)


EFFECT_WEIGHT = 5.0
EVICTIONS_ONLY = (Strike.BUDGET, Strike.REFUSED)
OUTAGE_CALLS = (4, 30)
"""How many calls to the store fail while it is being failed over."""


class Distortion(StrEnum):
    """What is wrong with something that is read."""

    NONE = "none"
    STALE = "stale list"
    EMPTY = "empty list"
    HOLED = "list with a hole"
    """One of those that are there is not shown."""
    TORN = "torn view"
    """Nodes and pods are of different moments."""
    PODS_HOLED = "pods with holes"
    """Some pods are not shown, and all nodes are."""
    ABSURD = "absurd value"
    GONE = "gone"


class FaultPlan(Protocol):
    def strike(self, verb: str) -> Strike:
        """Asked once before each call that changes something, in order."""

    def distort(self, verb: str) -> Distortion:
        """Asked once before each read."""

    def stalled(self, verb: str) -> None:
        """What happens while the runner is frozen before this call."""

    def delay(self, call: Callable[[], object], soon: bool) -> None:
        """Keep a call to land later."""

    def land(self) -> list[Callable[[], object]]:
        """Asked before every call: those kept that land now."""

    def pick(self, count: int) -> int:
        """Asked for the place of a hole in a list of so many."""


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

    def delay(self, call: Callable[[], object], soon: bool) -> None:
        """This plan delays nothing: what it strikes is told by a number."""

    def land(self) -> list[Callable[[], object]]:
        return []

    def pick(self, count: int) -> int:
        return count - 1


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
        self.outages = 0.0
        """The chance, for every call to the store, that it is being failed over from now on."""
        self._outage_left = 0
        self.late: list[tuple[int, Callable[[], object]]] = []
        """Calls still in progress, and after how many further calls each lands."""
        self.counts: Counter[str] = Counter()
        self.quiet = False
        """No faults while this is set; the draws continue, so the rest stays the same."""

    def strike(self, verb: str) -> Strike:
        store = verb.startswith("store.")
        if store and self._fails_over():
            return Strike.FAILED
        drawn = Strike(self._draw(self._chances, Strike.NONE, 1.0 if store else EFFECT_WEIGHT))
        return Strike.NONE if drawn in EVICTIONS_ONLY and verb != "cluster.evict" else drawn

    def _fails_over(self) -> bool:
        if self._outage_left:
            self._outage_left -= 1
        elif self.outages and self._random.random() < self.outages and not self.quiet:
            self._outage_left = self._random.randint(*OUTAGE_CALLS)
            self.counts["store failover"] += 1
        return bool(self._outage_left) and not self.quiet

    def delay(self, call: Callable[[], object], soon: bool) -> None:
        """Let this call land after a few further ones."""
        self.late.append((1 if soon else self._random.randint(1, 25), call))

    def land(self) -> list[Callable[[], object]]:
        """What lands before the next call."""
        waiting = [(left - 1, call) for left, call in self.late]
        self.late = [(left, call) for left, call in waiting if left > 0]
        return [call for left, call in waiting if left <= 0]

    def pick(self, count: int) -> int:
        """One of so many."""
        return self._random.randrange(count)

    def distort(self, verb: str) -> Distortion:
        if verb == "store.load" and self._fails_over():
            return Distortion.GONE
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
