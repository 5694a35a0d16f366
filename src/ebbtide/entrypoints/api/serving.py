"""Serve the API from a thread of a process that has other work, and stop with it."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from ebbtide.entrypoints.api.connections import Patience, Room, guarded, places
from ebbtide.errors import Usage

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
    listener, room = _listener(host, port), Room(most or places())
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
    server = _Server(config, room)
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


class _Server(uvicorn.Server):
    """Lets callers in by itself: the event loop would take as many at once as its backlog, whether there is a
    place for them or not."""

    def __init__(self, config: uvicorn.Config, room: Room) -> None:
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
                _log.warning("no caller is let in for a second: %s", error)
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
    """Listening before anything else starts, so an address that cannot be had is said at once."""
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
