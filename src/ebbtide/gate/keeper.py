"""The keeper of the gate: who is admitted, who wakes, who is held, passed on, answered or refused.

    arrives ──pod ready──────────────────────────────> passed on
       └──judged──> held ──pod ready──> passed on
              │       ├──deadline──> 503, kick or reset
              │       └──client goes
              └──answered or refused

For the event loop alone. A connection is passed on once: after the first byte to a pod nothing is repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ebbtide.gate.admission import (
    AdmissionVerdict,
    Backends,
    GateLimits,
    Heard,
    Route,
    Routes,
    Sources,
    is_trusted,
    judge_tcp,
    may_wake,
)
from ebbtide.gate.held import Hall, HangupWatch, HeldConnection
from ebbtide.gate.http import judge_http
from ebbtide.gate.knocking import Expects, Knocker, Wake, WakeOutlook, nothing_known
from ebbtide.gate.metrics import ConnectionOutcome, ConnectionRefusal, GateMetrics
from ebbtide.gate.minecraft import judge_minecraft
from ebbtide.gate.parting import Parting, too_slow, words
from ebbtide.gate.passing import AT_A_TIME, Dial, Passing, reset
from ebbtide.model.policy import GateProtocol, ServiceRef, WakeOnRequest

Judge = Callable[[WakeOnRequest, Heard], AdmissionVerdict | None]
JUDGES: Mapping[GateProtocol, Judge] = {
    GateProtocol.TCP: judge_tcp,
    GateProtocol.HTTP: judge_http,
    GateProtocol.MINECRAFT: judge_minecraft,
}


@dataclass(frozen=True, slots=True)
class House:
    routes: Routes
    backends: Backends
    wake: Wake
    lost: Callable[[], None] = lambda: None
    """A connection came for a port that stands for nothing: read the table again."""
    limits: GateLimits = field(default_factory=GateLimits)
    dial: Dial | None = None
    """How pods are reached, where that is not by their addresses."""
    expects: Expects = nothing_known


UNKNOWN_SECONDS = 5.0
"""How long a connection for a port that stands for nothing waits for the table of ports to be read again."""
MOST_UNKNOWN_SECONDS = 60.0
"""How long it waits while the table cannot be read: the store may be slow, or down."""
ROOM_TO_PASS = AT_A_TIME
"""Places beyond the limit, for connections that are passed on at once."""


class Keeper:
    def __init__(self, house: House, metrics: GateMetrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._house = house
        self._metrics = metrics
        self._limits = house.limits
        self._sources = Sources(house.limits.wakes_per_minute)
        self._hall = Hall(metrics)
        self._lost: dict[HeldConnection, None] = {}
        self._table_of = 0.0
        """Of what moment the table of ports is."""
        self._ready_at: dict[ServiceRef, float] = {}
        self._knocker = Knocker(house.wake, lambda policy_id: self._hall.count_of(policy_id) > 0, self._woken)
        self._outlook = WakeOutlook(self._knocker, house.expects)
        self._passing = Passing(house.backends, house.limits, metrics, house.dial)
        self._parting = Parting(house.limits.linger_seconds)
        self._leaving = HangupWatch(self._gone)
        house.backends.changed = self.pods_changed

    @property
    def held(self) -> int:
        return self._hall.count + len(self._lost)

    @property
    def open(self) -> int:
        return self._passing.open

    def admit(self, held: HeldConnection) -> None:
        route = self._house.routes.find(held.port)
        if self._is_full(route):
            self._refuse(held, route, ConnectionRefusal.GATE_FULL)
        elif route is None:
            self._lost[held] = None
            held.timer = self._loop.call_later(UNKNOWN_SECONDS, self._unknown, held)
            self._house.lost()
        else:
            self._receive(held, route)

    def routes_changed(self, since: float | None = None) -> None:
        """`since`: when the reading of the table began, by the monotonic clock."""
        self._table_of = time.monotonic() if since is None else since
        for held in list(self._lost):
            if (route := self._house.routes.find(held.port)) is not None:
                del self._lost[held]
                held.settle()
                self._receive(held, route)

    def pods_changed(self, service: ServiceRef, at: float) -> None:
        """`at`: when that was heard of, by the monotonic clock."""
        for held, route in self._hall.of(service):
            if self._house.backends.ready(route):
                self._ready_at.setdefault(service, at)
                self._pass_on(held, route)

    def heard(self, held: HeldConnection) -> None:
        if held.route is not None and held.passing is None and not held.judged:
            self._consider(held, held.route)
        if held.whole and (held.judged or held.passing is not None or held.route is None):
            self._rest(held)

    def left(self, held: HeldConnection) -> None:
        self._leaving.forget(held)
        held.settle()
        self._lost.pop(held, None)
        if held.route is not None and self._drop(held, held.route):
            self._metrics.ended(held.route.policy, ConnectionOutcome.LEFT)

    def sweep(self) -> None:
        """Every few seconds: ask again for what is still awaited."""
        for policy_id in self._hall.awaited():
            self._knocker.knock(policy_id)

    async def report(self) -> set[str]:
        """Now and then: the policies whose passed-on connections moved bytes are in use, and told so."""
        busy = await self._passing.busy()
        for policy_id in busy:
            self._knocker.knock(policy_id)
        return busy

    async def close(self, reason: str = "the gate is shutting down") -> None:
        for held, route in self._hall:
            self._end(held, route, ConnectionOutcome.REFUSED, reason, ConnectionRefusal.SHUTDOWN)
        for held in list(self._lost):
            reset(held.transport)
        await self._knocker.close()
        await self._passing.close()
        self._leaving.close()

    def _is_full(self, route: Route | None) -> bool:
        """What has a ready pod is held only until that has taken it: a crowd that waits for one policy must
        not lock out those of another."""
        ready = route is not None and bool(self._house.backends.ready(route))
        room = self._limits.held + (ROOM_TO_PASS if ready else 0)
        return self.held >= room or self._files() >= self._limits.files

    def _files(self) -> int:
        """Each connection is one file, and two once it is passed on."""
        return self.held + 2 * self.open + self._parting.count

    def _receive(self, held: HeldConnection, route: Route) -> None:
        held.route = route
        if self._house.backends.ready(route):
            # Also while a pod is ready: the policy may be about to go to zero, and this speaks against it.
            self._keep(held, route, route.hold_seconds)
            self._knocker.knock(route.policy_id)
            self._pass_on(held, route)
        elif self._hall.count_of(route.policy_id) >= route.gate.max_held:
            self._refuse(held, route, ConnectionRefusal.POLICY_FULL)
        elif not is_trusted(route.gate, held.source) and not may_wake(route.gate, held.source):
            self._refuse(held, route, ConnectionRefusal.SOURCE)
        else:
            held.waited = True
            if not held.whole:
                # Of one that waited for its route more may be read now than was then.
                self._leaving.forget(held)
                held.read_on()
            self._keep(held, route, min(self._limits.head_seconds, route.hold_seconds))
            self._consider(held, route)

    def _keep(self, held: HeldConnection, route: Route, seconds: float) -> None:
        self._hall.add(held, route)
        held.timer = self._loop.call_later(seconds, self._expire, held, route)

    def _consider(self, held: HeldConnection, route: Route) -> None:
        verdict = JUDGES[route.gate.protocol](route.gate, self._outlook.heard(held, route))
        if verdict is None:
            return
        if verdict.wakes:
            if not self._may_start(verdict.source or held.source, route):
                self._end(
                    held,
                    route,
                    ConnectionOutcome.REFUSED,
                    "too many wakes from this address",
                    ConnectionRefusal.WAKES,
                )
                return
            self._knocker.knock(route.policy_id)
        if verdict.holds:
            self._hold(held, route, verdict)
        else:
            self._answer(held, route, verdict)

    def _hold(self, held: HeldConnection, route: Route, verdict: AdmissionVerdict) -> None:
        held.judged = True
        held.ask_apart()
        most = verdict.most_seconds
        seconds = route.hold_seconds if most is None else min(most, route.hold_seconds)
        if held.timer is not None:
            held.timer.cancel()
        held.timer = self._loop.call_at(held.arrived + seconds, self._expire, held, route)
        if verdict.unread:
            self._rest(held)

    def _answer(self, held: HeldConnection, route: Route, verdict: AdmissionVerdict) -> None:
        self._drop(held, route)
        held.settle()
        if verdict.talk is not None:
            self._metrics.ended(route.policy, ConnectionOutcome.ANSWERED)
            self._parting.talk(held.transport, verdict.talk, held.head)
            return
        if verdict.reply:
            self._metrics.ended(route.policy, ConnectionOutcome.ANSWERED)
        else:
            self._refused(route, ConnectionRefusal.RULE)
        self._parting.say(held.transport, verdict.reply)

    def _may_start(self, source: str, route: Route) -> bool:
        """Who joins others, or a wake in progress, starts nothing and is not counted."""
        if self._hall.count_of(route.policy_id) > 1 or self._knocker.waking(route.policy_id) is not None:
            return True
        return self._sources.allows(source, self._loop.time())

    def _rest(self, held: HeldConnection) -> None:
        """Nothing more is read of it; only whether it leaves is still seen."""
        held.leave_unread()
        self._leaving.watch(held)

    def _pass_on(self, held: HeldConnection, route: Route) -> None:
        if held.passing is None:
            since = self._ready_at.get(route.service, held.arrived)
            start = self._passing.pass_on(held, route, max(since, held.arrived), self._passed)
            held.passing = self._loop.create_task(start)

    def _passed(self, held: HeldConnection, route: Route) -> None:
        self._drop(held, route)
        held.settle()
        self._metrics.ended(
            route.policy, ConnectionOutcome.RELEASED if held.waited else ConnectionOutcome.FORWARDED
        )

    def _expire(self, held: HeldConnection, route: Route) -> None:
        if held.judged or held.passing is not None:
            self._end(held, route, ConnectionOutcome.TIMED_OUT, self._outlook.why_not_awake(route))
        elif self._drop(held, route):
            held.settle()
            self._refused(route, ConnectionRefusal.SLOW)
            self._parting.say(held.transport, too_slow(route, held.head))

    def _gone(self, held: HeldConnection) -> None:
        """It left while nothing was read of it."""
        reset(held.transport)

    def _unknown(self, held: HeldConnection) -> None:
        waited = time.monotonic() - held.arrived
        if self._table_of < held.arrived and waited < MOST_UNKNOWN_SECONDS:
            # The table is older than the connection, so nobody knows yet whom it came for: a slow store, or a
            # gate that was started a moment ago, must not turn it away.
            held.timer = self._loop.call_later(UNKNOWN_SECONDS, self._unknown, held)
            self._house.lost()
            return
        self._lost.pop(held, None)
        self._refused(None, ConnectionRefusal.UNKNOWN_PORT)
        reset(held.transport)

    def _refuse(self, held: HeldConnection, route: Route | None, why: ConnectionRefusal) -> None:
        """Before anything is read. Only where HTTP is configured, the client is known to understand words."""
        self._refused(route, why)
        reply = b""
        if route is not None and route.gate.protocol is GateProtocol.HTTP:
            reply = words(
                route,
                b"",
                f"{route.policy} is asleep, and {why.detail}",
                self._outlook.retry_after(route.policy_id),
            )
        self._parting.say(held.transport, reply)

    def _refused(self, route: Route | None, why: ConnectionRefusal) -> None:
        self._metrics.refused(route.policy if route is not None else "", why)

    def _end(
        self,
        held: HeldConnection,
        route: Route,
        outcome: ConnectionOutcome,
        detail: str,
        why: ConnectionRefusal | None = None,
    ) -> None:
        if not self._drop(held, route):
            return
        held.settle()
        if why is not None:
            self._refused(route, why)
        else:
            self._metrics.ended(route.policy, outcome)
        self._parting.say(
            held.transport, words(route, held.head, detail, self._outlook.retry_after(route.policy_id))
        )

    def _drop(self, held: HeldConnection, route: Route) -> bool:
        """Whether it was still among those that are held."""
        self._leaving.forget(held)
        if not self._hall.drop(held, route):
            return False
        if not self._hall.has(route.service):
            self._ready_at.pop(route.service, None)
        return True

    def _woken(self, policy_id: str, answered: bool) -> None:
        self._metrics.woke(self._hall.name_of(policy_id), answered)
