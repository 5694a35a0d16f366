"""Passing connections on to pods: connect, hand over what was read, then both sides are one pipe."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from ebbtide.gate.held import Held
from ebbtide.gate.limits import Limits
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.pipe import Pipe, join
from ebbtide.gate.routes import Address, Backends, Route

AT_A_TIME = 256
"""Connections that are made to pods at once: thousands are released by the first pod that is ready."""

LOOKS_AT_ONCE = 100
"""Open connections that are looked at before others have their turn again."""

Dial = Callable[[Address], Address]
"""Where a pod of this address is really reached."""
Passed = Callable[[Held, Route], None]
"""Called when a pod took it."""


class Passing:
    def __init__(
        self, backends: Backends, limits: Limits, metrics: GateMetrics, dial: Dial | None = None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._backends = backends
        self._dial = dial or _as_it_is
        self._limits = limits
        self._metrics = metrics
        self._turns = Turns(AT_A_TIME)
        self._pairs: dict[Pipe, tuple[Pipe, Route]] = {}
        self._received: dict[Pipe, int] = {}

    @property
    def open(self) -> int:
        return len(self._pairs)

    async def busy(self) -> set[str]:
        """Policies whose connections moved bytes since this was last asked."""
        found = set()
        for number, (client, (server, route)) in enumerate(list(self._pairs.items()), start=1):
            if not number % LOOKS_AT_ONCE:
                await asyncio.sleep(0)
            received = client.received() + server.received()
            if client in self._pairs and received != self._received.get(client, 0):
                self._received[client] = received
                found.add(route.policy_id)
        return found

    async def pass_on(self, held: Held, route: Route, since: float, passed: Passed) -> None:
        """Until a pod takes it; a caller that gives up cancels this. `since` is by the monotonic clock."""
        while True:
            async with self._turns:
                for address in self._backends.in_turn(route):
                    server = await self._connect(held, route, address)
                    if server is not None:
                        self._splice(held, route, server)
                        self._metrics.ours(route.policy, time.monotonic() - since)
                        passed(held, route)
                        return
            held.waited = True
            await asyncio.sleep(self._limits.retry_seconds)

    async def _connect(self, held: Held, route: Route, address: Address) -> Pipe | None:
        """None where this pod does not take it: nothing was sent to it, so another may be tried."""
        arrived, metrics = held.arrived, self._metrics

        def make() -> Pipe:
            return Pipe(_ignore, lambda: metrics.first_byte(route.policy, time.monotonic() - arrived))

        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, made = await self._loop.create_connection(make, *self._dial(address))
        except OSError:  # TimeoutError is one
            return None
        return made

    def _splice(self, held: Held, route: Route, server: Pipe) -> None:
        transport = held.transport
        client = Pipe(lambda: self._closed(client, route))
        self._pairs[client] = (server, route)
        self._metrics.opened(route.policy, 1)
        # A transport takes another kind of protocol only while it does not read.
        transport.pause_reading()
        client.connection_made(transport)
        join(client, server)
        if held.head:
            client.data_received(held.head)
        if held.ended:
            client.eof_received()
        else:
            transport.resume_reading()

    def _closed(self, client: Pipe, route: Route) -> None:
        if self._pairs.pop(client, None) is not None:
            self._received.pop(client, None)
            self._metrics.opened(route.policy, -1)

    async def close(self) -> None:
        """What is still open is cut."""
        for client, (server, _) in list(self._pairs.items()):
            client.abort()
            server.abort()
        await asyncio.sleep(0)


def _ignore() -> None:
    """The end of a pod's side is that of its client's."""


def _as_it_is(address: Address) -> Address:
    return address


class Turns:
    """So many at a time, in the order in which they came. For the event loop alone.

    `asyncio.Semaphore` looks at all who wait whenever one goes: of 10,000 that are released together each
    would meet the others.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()  # it was given up in the moment it came: the next one has it
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next()

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
