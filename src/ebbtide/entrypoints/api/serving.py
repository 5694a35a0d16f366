"""Serve the API from a thread of a process that has other work, and stop with it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from ebbtide.errors import Usage

START_SECONDS = 20.0
STOP_SECONDS = 5.0
BACKLOG = 2048
"""Callers that may knock at the same moment: when something is asleep that many need, all of them wake it."""


@contextmanager
def served(app: FastAPI, host: str, port: int) -> Iterator[int]:
    """The port it listens on, which is a free one where 0 was asked for."""
    listener = _listener(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="ebbtide-api", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(STOP_SECONDS)
        listener.close()


def _listener(host: str, port: int) -> socket.socket:
    """Listening before anything else starts, so that an address that cannot be had is said at once."""
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
