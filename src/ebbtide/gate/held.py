"""One connection from its arrival until it is passed on, answered or gone.

Little of it is read: enough to judge it, then the client waits in its own kernel, so a body of any size costs
nothing here.
"""

from __future__ import annotations

import asyncio
import socket
import time
from itertools import count
from typing import Protocol, cast

from ebbtide.gate.answers import looks_like_http
from ebbtide.gate.routes import Route
from ebbtide.model.gate import GateProtocol

PEEK_BYTES = 4096
"""Read at a time, and of a connection that is held."""
HEAD_BYTES = 16_384
"""The head of a request may be longer, up to this; what is too long is judged by its beginning."""
_scratch = memoryview(bytearray(PEEK_BYTES))
"""One for all: the event loop fills it and hands it over in one step."""


LEAST_IDLE_SECONDS = 20
"""Without a byte, before the kernel asks whether a client is still there."""
SPREAD_SECONDS = 30
_turn = count()


class Host(Protocol):
    """Who looks after the connections."""

    def admit(self, held: Held) -> None: ...

    def heard(self, held: Held) -> None: ...

    def left(self, held: Held) -> None: ...


class Held(asyncio.BufferedProtocol):
    __slots__ = (
        "_host",
        "arrived",
        "ended",
        "head",
        "judged",
        "passing",
        "port",
        "route",
        "source",
        "timer",
        "transport",
        "waited",
        "watched",
    )

    def __init__(self, host: Host, port: int) -> None:
        self._host = host
        self.port = port
        self.route: Route | None = None
        self.transport: asyncio.Transport
        self.head = b""
        self.source = ""
        self.arrived = 0.0
        """By the monotonic clock, which is the event loop's too."""
        self.ended = False
        """The client has closed its half."""
        self.timer: asyncio.TimerHandle | None = None
        self.passing: asyncio.Task[None] | None = None
        """Passes it on, from the moment a pod is ready."""
        self.waited = False
        self.judged = False
        """It wakes and is held: what still comes changes nothing."""
        self.watched = -1
        """The number of its file while only its end is watched."""

    @property
    def limit(self) -> int:
        is_http = self.route is not None and self.route.gate.protocol is GateProtocol.HTTP
        return HEAD_BYTES if is_http and not self.judged else PEEK_BYTES

    @property
    def whole(self) -> bool:
        return self.ended or len(self.head) >= self.limit

    def file_number(self) -> int:
        """-1 where it is closed."""
        found: socket.socket | None = self.transport.get_extra_info("socket")
        return -1 if found is None or self.transport.is_closing() else found.fileno()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.arrived = time.monotonic()
        peer = transport.get_extra_info("peername")
        self.source = str(peer[0]) if peer else ""
        self._host.admit(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - as much as may be read
        return _scratch[: max(1, min(PEEK_BYTES, self.limit - len(self.head)))]

    def buffer_updated(self, nbytes: int) -> None:
        self.head += bytes(_scratch[:nbytes])
        self._host.heard(self)

    def eof_received(self) -> bool:
        """Who said nothing has left. So has an HTTP client: its half is closed only when it gives up. In any
        other protocol it may be the end of the request."""
        self.ended = True
        if not self.head or looks_like_http(self.head):
            return False
        self._host.heard(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._host.left(self)

    def leave_unread(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def read_on(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def ask_apart(self) -> None:
        """Its kernel asks after this client at another second than after those that came with it. Of 10,000
        that came together, the questions would leave in one moment, more than a network takes: what was lost
        four times in a row is taken for gone."""
        found: socket.socket | None = self.transport.get_extra_info("socket")
        if found is not None and not self.transport.is_closing():
            idle = LEAST_IDLE_SECONDS + next(_turn) % SPREAD_SECONDS
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)

    def settle(self) -> None:
        """No more waiting: no deadline, and nothing passes it on."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.passing is not None and self.passing is not asyncio.current_task():
            self.passing.cancel()
