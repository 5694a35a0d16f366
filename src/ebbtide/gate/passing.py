"""Passing connections on to pods: connect, hand over what was read, then both sides are one pipe.

Two connections as one: what comes from either side goes to the other, and each end passes on its end. A side
that reads slowly stops the other from being read, so memory is bounded by the transports' own buffers. Once
both are joined, `data_received` of a side *is* `write` of the other transport: no line of Python runs for
the bytes in between.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, cast

from ebbtide.gate.admission import Address, Backends, GateLimits, Route
from ebbtide.gate.held import HeldConnection
from ebbtide.gate.metrics import GateMetrics

First = Callable[[], None]
_AT_ONCE = struct.pack("ii", 1, 0)
_BYTES_RECEIVED = slice(128, 136)
"""Where TCP_INFO of Linux has the bytes of the other end, each counted once."""


class Take(Protocol):
    def __call__(self, data: bytes) -> None: ...


class Pipe(asyncio.Protocol):
    """One side. `join` makes two of them one connection."""

    __slots__ = ("_closed", "_early", "_ended", "_first", "_other", "_transport", "data_received")
    data_received: Take

    def __init__(self, closed: Callable[[], None], first: First | None = None) -> None:
        """`closed` is called once this side is gone; `first` when its first byte arrives."""
        self._closed = closed
        self._first = first
        self._other: Pipe | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._early = b""
        """What a server said before its client was joined: some speak first."""
        self.data_received = self._begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def received(self) -> int:
        """Bytes that came from this side, by the kernel's count: it costs nothing while they come."""
        found: socket.socket | None = None if self._transport is None else get_socket(self._transport)
        if found is None:
            return 0
        try:
            facts = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
        except OSError:
            return 0  # closed a moment ago
        return int.from_bytes(facts[_BYTES_RECEIVED], sys.byteorder)

    def _begin(self, data: bytes) -> None:
        """Until the first bytes went over."""
        first, self._first = self._first, None
        if first is not None:
            first()
        if self._other is None or self._other._transport is None:
            self._early += data
            return
        self._other._transport.write(data)
        if first is None:
            # With the second piece: many a connection has but one, and this costs two calls of the kernel.
            self.shorten()

    def shorten(self) -> None:
        """From now on without a detour. Transports may cache `data_received`, so they are notified."""
        if self._other is not None and self._other._transport is not None and self._transport is not None:
            self.data_received = self._other._transport.write
            self._transport.set_protocol(self)

    def eof_received(self) -> bool:
        """A client may close its half after the request and still wait for the answer."""
        self._ended = True
        other = self._other
        if other is None or other._transport is None or self._transport is None:
            return True  # not joined yet: `join` continues with it
        if other._ended:
            other._transport.close()
            self._transport.close()
        elif not other._transport.is_closing():
            end_half(other._transport)
        return True

    def pause_writing(self) -> None:
        _pause(self._other)

    def resume_writing(self) -> None:
        _resume(self._other)

    def connection_lost(self, exc: Exception | None) -> None:
        other, self._other, self.data_received = self._other, None, _nowhere
        if other is not None and other._transport is not None and not other._transport.is_closing():
            if exc is None:
                other._transport.close()
            else:
                reset(other._transport)  # a reset is passed on as one: a truncated body must not look whole
        self._closed()

    def abort(self) -> None:
        if self._transport is not None:
            reset(self._transport)


def join(client: Pipe, server: Pipe) -> None:
    """Both have their transports. The client's does not read, and may have another protocol yet."""
    client._other, server._other = server, client
    client.shorten()
    early, server._early = server._early, b""
    if client._transport is None:
        return
    if early:
        client._transport.write(early)
    if server._ended:
        server.eof_received()
    if server._transport is None or server._transport.is_closing():
        client._transport.close()  # it went in between


def reset(transport: asyncio.Transport) -> None:
    """Close so the other side knows that it was cut: `abort` alone would look like an orderly end."""
    found = get_socket(transport)
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


def end_half(transport: asyncio.Transport) -> None:
    """Says that nothing more comes. A connection that was reset a moment ago has nobody to say it to."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()


def get_socket(transport: asyncio.Transport) -> socket.socket | None:
    """None where it is closed."""
    found: socket.socket | None = transport.get_extra_info("socket")
    return None if transport.is_closing() else found


def _nowhere(data: bytes) -> None:
    """What still comes from a side that is gone."""


def _pause(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.pause_reading()


def _resume(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.resume_reading()


AT_A_TIME = 256
"""Connections that are made to pods at once: thousands are released by the first pod that is ready."""

LOOKS_AT_ONCE = 100
"""Open connections that are looked at before others have their turn again."""

Dial = Callable[[Address], Address]
"""Where a pod of this address is really reached."""
Passed = Callable[[HeldConnection, Route], None]
"""Called when a pod took it."""


class Passing:
    def __init__(
        self, backends: Backends, limits: GateLimits, metrics: GateMetrics, dial: Dial | None = None
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

    async def pass_on(self, held: HeldConnection, route: Route, since: float, passed: Passed) -> None:
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

    async def _connect(self, held: HeldConnection, route: Route, address: Address) -> Pipe | None:
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

    def _splice(self, held: HeldConnection, route: Route, server: Pipe) -> None:
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
