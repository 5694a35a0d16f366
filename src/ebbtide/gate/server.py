"""The gate as a server: every port of its range, and what must happen from time to time.

All ports are open from the start, whatever they stand for: a Service can be pointed at a gate before the gate
has heard of it.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from ebbtide.errors import Usage
from ebbtide.gate.held import LEAST_IDLE_SECONDS, HeldConnection
from ebbtide.gate.keeper import Keeper

BACKLOG = 4096
REPORT_SECONDS = 30.0
KEEPALIVE = (
    (socket.TCP_KEEPIDLE, LEAST_IDLE_SECONDS),
    (socket.TCP_KEEPINTVL, 10),
    (socket.TCP_KEEPCNT, 4),
    (socket.TCP_NODELAY, 1),
)
"""A client whose machine is gone sends no end: it is noticed within a minute and a half."""


@asynccontextmanager
async def listening(
    keeper: Keeper, host: str, ports: Iterable[int], knock_seconds: float = 5.0
) -> AsyncIterator[None]:
    """`Usage` if a port is in use. At the end nothing new is taken; what is open is for the caller."""
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    times = asyncio.create_task(_from_time_to_time(keeper, knock_seconds))
    try:
        for port in ports:
            servers.append(await _listen(keeper, host, port, loop))
        yield
    finally:
        times.cancel()
        for server in servers:
            server.close()
        with suppress(asyncio.CancelledError):
            await times


async def _listen(keeper: Keeper, host: str, port: int, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
    try:
        server = await loop.create_server(lambda: HeldConnection(keeper, port), host, port, backlog=BACKLOG)
    except OSError as error:
        raise Usage(
            f"the gate cannot listen on {host}:{port} ({error.strerror}); nothing was touched. "
            "Free the port, or set gate.ports to another range."
        ) from error
    for each in server.sockets:
        _keep_alive(each)
    return server


def _keep_alive(listener: socket.socket) -> None:
    """Connections get the options of the socket that they came in by."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE:
        listener.setsockopt(socket.IPPROTO_TCP, option, value)


async def _from_time_to_time(keeper: Keeper, knock_seconds: float) -> None:
    since_report = 0.0
    while True:
        await asyncio.sleep(knock_seconds)
        keeper.sweep()
        since_report += knock_seconds
        if since_report >= REPORT_SECONDS:
            since_report = 0.0
            await keeper.report()


def raise_file_limit() -> int:
    """As many descriptors as this process may have: each held connection is one, each passed on two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return soft
