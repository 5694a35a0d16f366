"""Faults by name, as `ebbtide simulate --faults` takes them, and plans for which call of a runner fails,
and how.

Some faults are in a runner's calls (`plan_for`), some in the world from the start (`spoil`), and some are
actions of people and other programs (`environment`).

To try every crash point of a story, run it once with `CrashPlan()` to count the calls, then once for each
call and each way to fail:

    counting = CrashPlan()
    run_story(faulty_ports(ports, counting))
    for number, label in enumerate(counting.calls, start=1):        # "store.write#7", "cloud.terminate#1"
        for strike in STRIKES:
            run_story(faulty_ports(fresh_ports(), CrashPlan(number, strike)))

Only calls that change something are numbered: all writes to the store, leases, effects on cluster and
cloud, and acknowledging a notice. `RandomPlan` chooses at random instead.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol

from ebbtide.errors import ConfigError
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import World


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
        """The labels of all calls so far: verb, `#`, and the number of the call of that verb."""

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
        """This plan delays nothing: a number says which call it strikes."""

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
        if not self.late:
            return []
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


FAULTS: Mapping[str, str] = {
    "crash": "the runner dies before or after a call",
    "crash-before": "the runner dies before a call",
    "crash-after": "the runner dies after a call that was carried out",
    "lost-reply": "a call is carried out and its reply lost",
    "delayed-landing": "a call gets no answer and is carried out some calls later",
    "failed-call": "a call fails and is not carried out",
    "server-error": "a call is answered by an error of the server, and it is unknown whether it was done",
    "throttling": "a call is refused for now",
    "lease-expiry": "a call takes longer than the lease lasts",
    "stall": "the runner freezes before a call until its lease has run out, and another takes over",
    "nested-stall": "the runner freezes, and the one that takes over freezes as well",
    "second-runner": "another runner ticks at the same time, with a clock of its own",
    "restart": "the runner is stopped after a tick and another started, with a new owner id",
    "clock-jump": "the runner's clock jumps for a tick",
    "clock-skew": "the runner's clock is some seconds off all the time",
    "stale-list": "the cluster or the cloud shows an old list",
    "empty-list": "the cluster or the cloud shows nothing at all",
    "partial-page": "the cluster or the cloud cannot be read completely",
    "false-not-found": "a node or an instance is not shown although it is there",
    "torn-view": "nodes and pods are listed up to 90 seconds apart",
    "pod-holes": "some pods are not shown although they are there, and all nodes are",
    "metrics-gone": "the CPU of the nodes is unknown for a while",
    "metrics-absurd": "the CPU of the nodes is old, negative, infinite or not a number",
    "store-failover": "the store does not answer for a while",
    "newer-record": "a newer version writes the record and is taken back",
    "poison-record": "the record cannot be read until a person repairs it",
    "pause": "a person pauses removals, and resumes",
    "human-cordon": "a person cordons nodes, and lifts their cordons or ours",
    "budget-exhausted": "an eviction is refused for now by a disruption budget",
    "eviction-refused": "an eviction is refused permanently",
    "late-bind": "a pod is bound to a node just after its cordon",
    "no-capacity": "the cloud has nothing to give in some zone for a while",
    "slow-to-appear": "a new instance is not listed for a while",
    "never-joins": "some instances boot and never join",
    "late-joins": "some instances join only after everybody has given them up",
    "slow-detach": "volumes take minutes to be detached",
    "node-loss": "a machine dies without notice",
    "mass-loss": "most of the machines die at once",
    "unlisted": "an instance that is gone is no longer listed, from that moment on",
    "names-taken-over": "a new machine joins at once under the name of a dead one, with the same address",
    "spot-loss": "the cloud takes spot instances back",
    "zone-loss": "a zone is dark for a while",
    "duplicate-notices": "a spot notice comes twice",
    "late-notices": "spot notices come late and out of order",
}

_STRIKES: Mapping[str, Mapping[Strike, float]] = {
    "crash": {Strike.CRASH_BEFORE: 0.01, Strike.CRASH_AFTER: 0.01},
    "crash-before": {Strike.CRASH_BEFORE: 0.02},
    "crash-after": {Strike.CRASH_AFTER: 0.02},
    "lost-reply": {Strike.LOST_REPLY: 0.02},
    "delayed-landing": {Strike.DELAYED: 0.01},
    "failed-call": {Strike.FAILED: 0.02},
    "server-error": {Strike.SERVER_ERROR: 0.02},
    "throttling": {Strike.THROTTLED: 0.02},
    "lease-expiry": {Strike.SLOW: 0.005},
    "stall": {Strike.STALL: 0.005},
    "nested-stall": {Strike.STALL: 0.01},
    "budget-exhausted": {Strike.BUDGET: 0.04},
    "eviction-refused": {Strike.REFUSED: 0.02},
}
_LISTS: Mapping[str, Mapping[Distortion, float]] = {
    "stale-list": {Distortion.STALE: 0.05},
    "empty-list": {Distortion.EMPTY: 0.03},
    "partial-page": {Distortion.GONE: 0.03},
    "false-not-found": {Distortion.HOLED: 0.03},
}
_VIEWS: Mapping[str, Mapping[Distortion, float]] = {
    "torn-view": {Distortion.TORN: 0.1},
    "pod-holes": {Distortion.PODS_HOLED: 0.1},
}
"""Of the cluster alone."""
_METRICS: Mapping[str, Mapping[Distortion, float]] = {
    "metrics-gone": {Distortion.GONE: 0.1},
    "metrics-absurd": {Distortion.ABSURD: 0.05, Distortion.STALE: 0.05},
}
_OF_SEVERAL = ("stall", "nested-stall")
OF_CALLS = tuple(
    name for name in (*_STRIKES, *_LISTS, *_VIEWS, *_METRICS, "store-failover") if name not in _OF_SEVERAL
)
"""Faults that lie in the calls of one runner alone; `plan_for` knows them."""
_READS = ("cluster.read", "cloud.list_instances")
OUTAGE_CHANCE = 0.002


def check_names(names: Collection[str]) -> None:
    for name in names:
        if name not in FAULTS:
            raise ConfigError(f"unknown fault {name!r}; choose from {', '.join(FAULTS)}")


def plan_for(names: Collection[str], seed: int) -> RandomPlan:
    """The plan of one runner; runners of one simulation get different seeds."""
    strikes = {strike: chance for name in names for strike, chance in _STRIKES.get(name, {}).items()}
    lists = {kind: chance for name in names for kind, chance in _LISTS.get(name, {}).items()}
    distortions: dict[str, dict[Distortion, float]] = {verb: lists for verb in _READS if lists}
    views = {kind: chance for name in names for kind, chance in _VIEWS.get(name, {}).items()}
    if views:
        distortions["cluster.read"] = {**lists, **views}
    metrics = {kind: chance for name in names for kind, chance in _METRICS.get(name, {}).items()}
    if metrics:
        distortions["metrics.read_cpu"] = metrics
    plan = RandomPlan(seed, strikes, distortions)
    plan.outages = OUTAGE_CHANCE if "store-failover" in names else 0.0
    return plan


_RULES: Mapping[str, Mapping[str, Any]] = {
    "late-bind": {"late_bind_seconds": 3.0},
    "slow-to-appear": {"invisible_seconds": 60.0},
    "unlisted": {"listed_seconds": 0.0},
    "names-taken-over": {"names_from_address": True, "names_taken_over": True},
    "never-joins": {"never_join": 0.2},
    "late-joins": {"late_join": 0.5},
    "slow-detach": {"detach": Span(30, 200)},
    "duplicate-notices": {"duplicate_notices": 0.7},
    "late-notices": {"notice_delay": Span(0, 100), "rebalance_chance": 0.5},
}


def spoil(world: World, names: Collection[str]) -> None:
    """Faults that lie in the world and not in a runner's calls."""
    for name in names:
        world.set_rules(replace(world.rules, **_RULES.get(name, {})))


def mend(world: World, names: Collection[str]) -> None:
    """Take back what `spoil` did."""
    plain = Rules()
    for name in names:
        changes = {field: getattr(plain, field) for field in _RULES.get(name, {})}
        world.set_rules(replace(world.rules, **changes))
