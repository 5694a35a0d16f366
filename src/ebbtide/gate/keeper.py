"""The gate's rules of the house: who is admitted, who wakes, who is held, passed on, answered or refused.

    arrives ──pod ready──────────────────────────────> passed on
       └──judged──> held ──pod ready──> passed on
              │       ├──deadline──> 503 or reset
              │       └──client goes
              └──answered or refused

For the event loop alone. A connection is passed on once: after the first byte to a pod nothing is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.gate.answers import looks_like_http, unavailable
from ebbtide.gate.held import Held, say
from ebbtide.gate.judge import Heard, Verdict, judge_tcp
from ebbtide.gate.knocking import Knocker, Wake
from ebbtide.gate.limits import Limits, Sources, may_wake
from ebbtide.gate.metrics import GateMetrics, Outcome
from ebbtide.gate.passing import Dial, Passing
from ebbtide.gate.pipe import reset
from ebbtide.gate.routes import Backends, Route, Routes
from ebbtide.model.gate import Gate, GateProtocol, ServiceRef

Judge = Callable[[Gate, Heard], Verdict | None]
JUDGES: Mapping[GateProtocol, Judge] = {GateProtocol.TCP: judge_tcp}
UNKNOWN_SECONDS = 5.0
"""How long a connection for a port that stands for nothing waits for the table of ports to be read again."""
RETRY_AFTER_SECONDS = 30
"""Where nothing is known of how long it takes."""


@dataclass(frozen=True, slots=True)
class House:
    """What the keeper is given."""

    routes: Routes
    backends: Backends
    wake: Wake
    lost: Callable[[], None] = lambda: None
    """A connection came for a port that stands for nothing: read the table again."""
    limits: Limits = field(default_factory=Limits)
    dial: Dial | None = None
    """How pods are reached, where that is not by their addresses."""


class Keeper:
    def __init__(self, house: House, metrics: GateMetrics) -> None:
        self._house = house
        self._metrics = metrics
        self._limits = house.limits
        self._sources = Sources(house.limits.wakes_per_minute)
        self._held: dict[str, dict[Held, None]] = {}
        """By policy id, in the order of arrival."""
        self._names: dict[str, str] = {}
        self._lost: dict[Held, None] = {}
        self._ready_at: dict[ServiceRef, float] = {}
        self._knocker = Knocker(house.wake, self._is_held, self._woken)
        self._passing = Passing(house.backends, house.limits, metrics, house.dial)
        house.backends.changed = self.pods_changed

    @property
    def held(self) -> int:
        return sum(map(len, self._held.values())) + len(self._lost)

    @property
    def open(self) -> int:
        return self._passing.open

    def admit(self, held: Held) -> None:
        route = self._house.routes.find(held.port)
        if self.held >= self._limits.held:
            self._refuse(held, route)
        elif route is None:
            self._lost[held] = None
            held.timer = asyncio.get_running_loop().call_later(UNKNOWN_SECONDS, self._unknown, held)
            self._house.lost()
        else:
            self._receive(held, route)

    def routes_changed(self) -> None:
        for held in list(self._lost):
            if (route := self._house.routes.find(held.port)) is not None:
                del self._lost[held]
                held.settle()
                self._receive(held, route)

    def pods_changed(self, service: ServiceRef) -> None:
        now = asyncio.get_running_loop().time()
        for ours in list(self._held.values()):
            for held in list(ours):
                route = held.route
                if route is not None and route.service == service and self._house.backends.ready(route):
                    self._ready_at.setdefault(service, now)
                    self._pass_on(held, route)

    def heard(self, held: Held) -> None:
        if held.route is not None and held.passing is None:
            self._consider(held, held.route)

    def left(self, held: Held) -> None:
        held.settle()
        self._lost.pop(held, None)
        route = held.route
        if route is not None and self._drop(held, route):
            self._metrics.ended(route.policy, Outcome.LEFT)

    def sweep(self) -> None:
        """Every few seconds: ask again for what is still awaited."""
        for policy_id in [one for one, ours in self._held.items() if ours]:
            self._knocker.knock(policy_id)

    def report(self) -> set[str]:
        """Now and then: the policies whose passed-on connections moved bytes are in use, and told so."""
        busy = self._passing.busy()
        for policy_id in busy:
            self._knocker.knock(policy_id)
        return busy

    def eta_seconds(self, policy_id: str) -> int:
        return self._knocker.eta_seconds(policy_id)

    async def close(self, reason: str = "the gate is shutting down") -> None:
        for ours in list(self._held.values()):
            for held in list(ours):
                if held.route is not None:
                    self._end(held, held.route, Outcome.REFUSED, reason)
        for held in list(self._lost):
            reset(held.transport)
        await self._knocker.close()
        await self._passing.close()

    def _receive(self, held: Held, route: Route) -> None:
        held.route = route
        ours = self._held.setdefault(route.policy_id, {})
        self._names[route.policy_id] = route.policy
        if self._house.backends.ready(route):
            # Also while a pod is ready: the policy may be about to go to zero, and this speaks against it.
            self._keep(held, route)
            self._knocker.knock(route.policy_id)
            self._pass_on(held, route)
        elif not may_wake(route.gate, held.source) or len(ours) >= route.gate.max_held:
            self._refuse(held, route)
        else:
            held.waited = True
            self._keep(held, route)
            self._consider(held, route)

    def _keep(self, held: Held, route: Route) -> None:
        self._held[route.policy_id][held] = None
        loop = asyncio.get_running_loop()
        held.timer = loop.call_later(route.hold_seconds, self._expire, held, route)
        self._count(route)

    def _consider(self, held: Held, route: Route) -> None:
        heard = Heard(held.head, held.whole, held.source, self._knocker.eta_seconds(route.policy_id))
        verdict = JUDGES[route.gate.protocol](route.gate, heard)
        if verdict is None:
            return
        if verdict.wakes and not self._may_start(held, route):
            self._end(held, route, Outcome.REFUSED, "too many wakes from this address")
            return
        if verdict.wakes:
            self._knocker.knock(route.policy_id)
        if not verdict.holds:
            self._drop(held, route)
            self._metrics.ended(route.policy, Outcome.ANSWERED if verdict.reply else Outcome.REFUSED)
            say(held.transport, verdict.reply, self._limits.linger_seconds)

    def _may_start(self, held: Held, route: Route) -> bool:
        """Who joins others that are held starts nothing and is not counted."""
        others = len(self._held[route.policy_id]) > 1
        return others or self._sources.allows(held.source, asyncio.get_running_loop().time())

    def _pass_on(self, held: Held, route: Route) -> None:
        if held.passing is None:
            since = self._ready_at.get(route.service, held.arrived)
            start = self._passing.pass_on(held, route, max(since, held.arrived), self._passed)
            held.passing = asyncio.get_running_loop().create_task(start)

    def _passed(self, held: Held, route: Route) -> None:
        self._drop(held, route)
        held.settle()
        self._metrics.ended(route.policy, Outcome.RELEASED if held.waited else Outcome.FORWARDED)

    def _expire(self, held: Held, route: Route) -> None:
        failing = self._knocker.failing(route.policy_id)
        why = "the wake could not be recorded" if failing else "it is not awake yet"
        self._end(held, route, Outcome.TIMED_OUT, f"{route.policy} was asked to wake, and {why}")

    def _unknown(self, held: Held) -> None:
        self._lost.pop(held, None)
        self._metrics.ended("", Outcome.REFUSED)
        reset(held.transport)

    def _refuse(self, held: Held, route: Route | None) -> None:
        """Before anything is read: the protocol of the client is not known yet."""
        self._metrics.ended(route.policy if route is not None else "", Outcome.REFUSED)
        say(held.transport, b"", self._limits.linger_seconds)

    def _end(self, held: Held, route: Route, outcome: Outcome, why: str) -> None:
        if not self._drop(held, route):
            return
        held.settle()
        self._metrics.ended(route.policy, outcome)
        words = self._sorry(route, why) if looks_like_http(held.head) else b""
        say(held.transport, words, self._limits.linger_seconds)

    def _sorry(self, route: Route, why: str) -> bytes:
        eta = self._knocker.eta_seconds(route.policy_id) or RETRY_AFTER_SECONDS
        return unavailable(route.policy, why, eta)

    def _drop(self, held: Held, route: Route) -> bool:
        """Whether it was still among those that are held."""
        ours = self._held.get(route.policy_id, {})
        if held not in ours:
            return False
        del ours[held]
        if not ours:
            self._ready_at.pop(route.service, None)
        self._count(route)
        return True

    def _count(self, route: Route) -> None:
        self._metrics.held(route.policy, len(self._held[route.policy_id]))

    def _is_held(self, policy_id: str) -> bool:
        return bool(self._held.get(policy_id))

    def _woken(self, policy_id: str, answered: bool) -> None:
        self._metrics.woke(self._names.get(policy_id, policy_id), answered)
