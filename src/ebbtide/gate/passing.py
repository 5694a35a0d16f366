"""Passing connections on to pods: connect, hand over what was read, then both sides are one pipe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ebbtide.gate.held import Held
from ebbtide.gate.limits import Limits
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.pipe import Pipe, join
from ebbtide.gate.routes import Address, Backends, Route

AT_A_TIME = 256
"""Connections that are made to pods at once: thousands are released by the first pod that is ready."""

Dial = Callable[[Address], Address]
"""Where a pod of this address is really reached."""
Passed = Callable[[Held, Route], None]
"""Called when a pod took it."""


class Passing:
    def __init__(
        self, backends: Backends, limits: Limits, metrics: GateMetrics, dial: Dial | None = None
    ) -> None:
        self._backends = backends
        self._dial = dial or _as_it_is
        self._limits = limits
        self._metrics = metrics
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._pairs: dict[Pipe, tuple[Pipe, Route]] = {}
        self._moved: dict[Pipe, int] = {}

    @property
    def open(self) -> int:
        return len(self._pairs)

    def busy(self) -> set[str]:
        """Policies whose connections moved bytes since this was last asked."""
        before = self._moved
        self._moved = {client: client.moved + server.moved for client, (server, _) in self._pairs.items()}
        return {
            self._pairs[client][1].policy_id
            for client, moved in self._moved.items()
            if moved != before.get(client, 0)
        }

    async def pass_on(self, held: Held, route: Route, since: float, passed: Passed) -> None:
        """Until a pod takes it; a caller that gives up cancels this."""
        loop = asyncio.get_running_loop()
        while True:
            async with self._turns:
                for address in self._backends.in_turn(route):
                    server = await self._connect(held, route, address)
                    if server is not None:
                        self._metrics.ours(route.policy, loop.time() - since)
                        passed(held, route)
                        self._splice(held, route, server)
                        return
            held.waited = True
            await asyncio.sleep(self._limits.retry_seconds)

    async def _connect(self, held: Held, route: Route, address: Address) -> Pipe | None:
        """None where this pod does not take it: nothing was sent to it, so another may be tried."""
        loop = asyncio.get_running_loop()
        arrived, metrics = held.arrived, self._metrics

        def make() -> Pipe:
            return Pipe(lambda: None, lambda: metrics.first_byte(route.policy, loop.time() - arrived))

        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                _, made = await loop.create_connection(make, *self._dial(address))
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
        transport.set_protocol(client)
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
            self._moved.pop(client, None)
            self._metrics.opened(route.policy, -1)

    async def close(self) -> None:
        """What is still open is cut."""
        for client, (server, _) in list(self._pairs.items()):
            client.abort()
            server.abort()
        await asyncio.sleep(0)


def _as_it_is(address: Address) -> Address:
    return address
