"""Serve the API from a thread of a process that has other work, and stop with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from ebbtide.entrypoints.api.connections import Patience, Room, guarded, places
from ebbtide.errors import Usage

STOP_SECONDS = 5.0
BACKLOG = 2048
"""Callers that may knock at the same moment: when something is asleep that many need, all of them wake it."""
AT_A_TIME = 64
"""Callers that are let in before those who must go are gone: the places may be exceeded by so many."""


@contextmanager
def served(
    app: FastAPI, host: str, port: int, most: int | None = None, patience: Patience | None = None
) -> Iterator[int]:
    """The port it listens on, which is a free one where 0 was asked for. It holds `most` connections, by
    default half of the descriptors of this process."""
    listener = _listener(host, port)
    config = uvicorn.Config(
        app,
        http=guarded(Room(most or places()), patience or Patience()),
        ws="none",
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        backlog=AT_A_TIME,
        timeout_keep_alive=(patience or Patience()).idle_seconds,
        timeout_graceful_shutdown=1,
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="ebbtide-api", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        listener.close()


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """The event loop takes as many callers at once as the backlog it was given. Few are taken at once,
        and many may knock: the kernel keeps those."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)


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
