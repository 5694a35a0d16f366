"""Serve the API from a thread of a process that has other work, with limits on connections and requests.

The API shares its file descriptors with the engine. Half-open connections need no token, and could
otherwise take all descriptors, so no tick could open its store. So there is a fixed number of places, at
most half of the descriptors. A connection that is not being answered has little time. If all places are
taken, the one that has kept us waiting longest is closed for a new one. Ticks need the interpreter as
well, so the API gets at most a share of one core.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ebbtide.errors import Usage

MOST_CONNECTIONS = 2000
GRACE_SECONDS = 0.5
"""So long everybody may take over a request, however many wait for the place."""
SHARE = 0.4
"""Of one core: the rest is left to the ticks, also while the API is flooded."""
TURN_SECONDS = 0.01
MOST_REST_SECONDS = 0.1
SCHEDULED = Path("/proc/thread-self/schedstat")
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Clock = Callable[[], float]
DrainBackoff = Callable[[float], None]


def places() -> int:
    """Half of what this process may open: the rest is the engine's, for its store, cluster and cloud."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft // 2))


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds until a connection is closed."""

    head_seconds: float = 10.0
    """Until the head of a request is whole, counted from the connection or from the answer before."""
    body_seconds: float = 20.0
    """Until its body is whole."""
    idle_seconds: int = 5
    """Without a byte between two requests."""
    unread_seconds: float = 30.0
    """While the caller does not take what was sent."""


def waited_for_core() -> float:
    """For how many seconds this thread could have run while other processes had the cores, or while the
    container was beyond its limit; 0 if the system does not say."""
    try:
        return int(SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


class Governor:
    """Keeps the thread of the event loop to its share of the interpreter, which ticks need too: when it has
    had more, it rests, and callers wait. What it waited for a core counts as had: in a container with a tenth
    of a core it gets its share of that tenth, or nothing would be left for the ticks."""

    def __init__(
        self,
        clock: Clock = time.monotonic,
        used: Clock = time.thread_time,
        rest: DrainBackoff = time.sleep,
        waited: Clock = waited_for_core,
    ):
        self._clock, self._rest, self._used, self._waited = clock, rest, used, waited
        self._at, self._before = clock(), 0.0

    def turn(self) -> None:
        """At every event. Looks at the clocks of the thread a hundred times a second at most."""
        passed = self._clock() - self._at
        if passed < TURN_SECONDS:
            return
        due = (self._had() - self._before) / SHARE - passed
        if due > 0:
            self._rest(min(due, MOST_REST_SECONDS))
        self._at, self._before = self._clock(), self._had()

    def _had(self) -> float:
        return self._used() + self._waited()


class ConnectionPlaces:
    """The places. Only the thread of the event loop comes here."""

    def __init__(self, most: int, clock: Clock = time.monotonic) -> None:
        self.most = most
        self.governor = Governor()
        self._clock = clock
        self._taken: set[LimitedConnection] = set()
        self._coming = 0
        """Let in, and not yet a connection of ours."""
        self._idle: dict[LimitedConnection, float] = {}
        """Not being answered, and since when; the longest first."""

    def has_place(self) -> bool:
        """Whether one more may be let in, where need be for one that has had its time. Where nobody has,
        new connections wait: accepting them only to close others costs more than it is worth."""
        if len(self._taken) + self._coming < self.most:
            return True
        if not self._idle:
            return not self._coming  # all are being answered: the next one is told so, one at a time
        longest, since = next(iter(self._idle.items()))
        if self._clock() - since < GRACE_SECONDS:
            return False
        longest.drop()
        return True

    def let_in(self) -> None:
        self._coming += 1

    def enter(self, newcomer: LimitedConnection) -> bool:
        """False where every place is taken by somebody who is being answered."""
        self._coming -= 1
        if len(self._taken) >= self.most:
            return False
        self._taken.add(newcomer)
        self._idle[newcomer] = self._clock()
        return True

    def answering(self, connection: LimitedConnection) -> None:
        self._idle.pop(connection, None)

    def idle(self, connection: LimitedConnection) -> None:
        if connection in self._taken:
            self._idle.setdefault(connection, self._clock())

    def leave(self, connection: LimitedConnection) -> None:
        self._taken.discard(connection)
        self._idle.pop(connection, None)


class LimitedConnection(H11Protocol):
    """One connection, which has a place or is turned away, and a time limit for each part of a request."""

    room: ConnectionPlaces
    patience: Patience

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._part = ""
        self._limit: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self.room.governor.turn()
        if not self.room.enter(self):
            transport.write(FULL)
            transport.close()
            return
        self._settle()

    def data_received(self, data: bytes) -> None:
        self.room.governor.turn()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        if self.transport.is_closing():  # turned away: what it still sends is nobody's
            return
        super().handle_events()
        self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self._unread or self.loop.call_later(self.patience.unread_seconds, self.drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def drop(self) -> None:
        """At once: whatever is still to be sent is dropped."""
        self._leave()
        self.transport.abort()

    def _settle(self) -> None:
        """Start the time of the part of the request that has just begun."""
        part = self._part_now()
        if part == self._part:
            return
        self._part = part
        if self._limit is not None:
            self._limit.cancel()
        if part == "answer":
            self.room.answering(self)
            return
        self.room.idle(self)
        seconds = self.patience.body_seconds if part == "body" else self.patience.head_seconds
        self._limit = self.loop.call_later(seconds, self.drop)

    def _part_now(self) -> str:
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return "head"
        return "body" if cycle.more_body else "answer"

    def _leave(self) -> None:
        self.room.leave(self)
        for timer in (self._limit, self._unread):
            if timer is not None:
                timer.cancel()


def guarded(room: ConnectionPlaces, patience: Patience) -> type[LimitedConnection]:
    """The kind of connection for this room."""
    return type("Guarded", (LimitedConnection,), {"room": room, "patience": patience})


STOP_SECONDS = 5.0
BACKLOG = 2048
"""Callers that may knock at the same moment: when something is asleep that many need, all of them wake it."""
SWITCH_SECONDS = 0.0002
"""How long a thread waits for the interpreter while the API is busy. A tick gives it up at every call of its
store, and with the five milliseconds of Python's default would wait longer for it than it works."""
AT_A_TIME = 64
"""Callers that are let in before anybody is answered, and before those who must go are gone."""
FULL_SECONDS = 0.1
_log = logging.getLogger(__name__)


@contextmanager
def served(
    app: FastAPI, host: str, port: int, most: int | None = None, patience: Patience | None = None
) -> Iterator[int]:
    """The port it listens on, which is a free one where 0 was asked for. It holds `most` connections, by
    default half of the descriptors of this process."""
    listener, room = _listener(host, port), ConnectionPlaces(most or places())
    config = uvicorn.Config(
        app,
        http=guarded(room, patience or Patience()),
        ws="none",
        loop="asyncio",  # also where uvloop is installed for the gate
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=(patience or Patience()).idle_seconds,
        timeout_graceful_shutdown=1,
    )
    server = _AdmittingServer(config, room)
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    thread = threading.Thread(target=server.run, args=([listener],), name="ebbtide-api", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        sys.setswitchinterval(before)
        listener.close()


class _AdmittingServer(uvicorn.Server):
    """Lets callers in by itself: the event loop would take as many at once as its backlog, whether there is a
    place for them or not."""

    def __init__(self, config: uvicorn.Config, room: ConnectionPlaces) -> None:
        super().__init__(config)
        self._room = room
        self._coming: set[asyncio.Task[Any]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        for each in sockets or ():
            each.setblocking(False)
            self._open(each)

    def _open(self, listener: socket.socket) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(listener, self._let_in, listener)

    def _let_in(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(AT_A_TIME):
            if not self._room.has_place():
                self._closed(listener, FULL_SECONDS)
                return
            try:
                caller, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors, which the engine needs more than we do
                _log.warning("no connection is accepted for a second: %s", error)
                self._closed(listener, 1.0)
                return
            self._room.let_in()
            caller.setblocking(False)
            task = loop.create_task(loop.connect_accepted_socket(self._connection, caller))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    def _closed(self, listener: socket.socket, seconds: float) -> None:
        """For a while: callers wait in the queue of the kernel."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(seconds, self._open, listener)

    def _connection(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        made: asyncio.Protocol = make(self.config, self.server_state, self.lifespan.state)
        return made

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in sockets or ():
            asyncio.get_running_loop().remove_reader(each)
        await super().shutdown(sockets)


def _listener(host: str, port: int) -> socket.socket:
    """Listening before anything else starts, so an address that is in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Usage(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); nothing was touched. "
            "Set api.listen to another address, or to off."
        ) from error
    return listener
