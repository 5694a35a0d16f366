"""Connections that are held: each from its arrival until it is passed on, answered or gone, and all of them
by policy in the order of arrival. Clients that leave are noticed while nothing is read of them.

Little of it is read: enough to judge it, then the client waits in its own kernel, so a body of any size costs
nothing here.

Notices clients that leave while nothing is read of them. The loop sees an end only by reading. A connection
that is held unread is watched by an epoll of its own, for its end alone: that costs no read and no memory
here, whatever is still in the kernel.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Protocol, cast

from ebbtide.gate.admission import Route
from ebbtide.gate.http import looks_like_http
from ebbtide.gate.metrics import GateMetrics
from ebbtide.model.policy import GateProtocol, ServiceRef

AT_ONCE = 256


class HangupWatch:
    """For the event loop alone."""

    def __init__(self, left: Callable[[HeldConnection], None]) -> None:
        self._left = left
        self._epoll = select.epoll()
        self._watched: dict[int, HeldConnection] = {}
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)

    def watch(self, held: HeldConnection) -> None:
        number = held.file_number()
        if number < 0 or self._watched.get(number) is held:
            return
        # Once: an end that is no reason to go, as a half that is closed, would be told again and again.
        self._epoll.register(number, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._watched[number] = held
        held.watched = number

    def forget(self, held: HeldConnection) -> None:
        """Its file may be closed by now, and the number that of another, who is watched in its place."""
        number, held.watched = held.watched, -1
        if number >= 0 and self._watched.get(number) is held:
            del self._watched[number]
            with suppress(OSError):
                self._epoll.unregister(number)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _look(self) -> None:
        for number, events in self._epoll.poll(0, AT_ONCE):
            held = self._watched.get(number)
            if held is not None and has_left(held.head, events):
                self._left(held)


def has_left(head: bytes, events: int) -> bool:
    """A reset always says so. The end of its half does only in HTTP; elsewhere it may be the end of the
    request."""
    return bool(events & (select.EPOLLERR | select.EPOLLHUP)) or looks_like_http(head)


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

    def admit(self, held: HeldConnection) -> None: ...

    def heard(self, held: HeldConnection) -> None: ...

    def left(self, held: HeldConnection) -> None: ...


class HeldConnection(asyncio.BufferedProtocol):
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
        """The kernel probes this client at another second than those that came at the same time. Of 10,000
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


class Hall:
    def __init__(self, metrics: GateMetrics) -> None:
        self._metrics = metrics
        self._held: dict[str, dict[HeldConnection, None]] = {}
        self._by_service: dict[ServiceRef, dict[HeldConnection, None]] = {}
        self._names: dict[str, str] = {}
        self.count = 0
        """In all."""

    def __iter__(self) -> Iterator[tuple[HeldConnection, Route]]:
        """As they are now: a caller may let them go meanwhile."""
        for ours in list(self._held.values()):
            for held in list(ours):
                if held.route is not None:
                    yield held, held.route

    def of(self, service: ServiceRef) -> list[tuple[HeldConnection, Route]]:
        """Those of one Service: pods of many change at once, and no look may take all that are held."""
        ours = self._by_service.get(service, ())
        return [(held, held.route) for held in ours if held.route is not None]

    def has(self, service: ServiceRef) -> bool:
        return bool(self._by_service.get(service))

    def awaited(self) -> list[str]:
        """The policies that somebody waits for. A client that has not said yet what it wants waits for none:
        it may be a scanner that never ends its request."""
        return [
            policy_id
            for policy_id, ours in self._held.items()
            if any(held.judged or held.passing is not None for held in ours)
        ]

    def name_of(self, policy_id: str) -> str:
        return self._names.get(policy_id, policy_id)

    def count_of(self, policy_id: str) -> int:
        return len(self._held.get(policy_id, ()))

    def add(self, held: HeldConnection, route: Route) -> None:
        self._names[route.policy_id] = route.policy
        self._held.setdefault(route.policy_id, {})[held] = None
        self._by_service.setdefault(route.service, {})[held] = None
        self.count += 1
        self._metrics.held(route.policy, self.count_of(route.policy_id))

    def drop(self, held: HeldConnection, route: Route) -> bool:
        """Whether it was still here."""
        ours = self._held.get(route.policy_id, {})
        if held not in ours:
            return False
        del ours[held]
        del self._by_service[route.service][held]
        self.count -= 1
        self._metrics.held(route.policy, len(ours))
        return True
